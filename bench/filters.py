"""Would the native scheduler accept our bindings, and do we find a node where it would? Generated pods and nodes.

    python bench/filters.py [--pods 5000] [--nodes 400] [--seed 1]

Each pod is placed by Headway's own accounting and constraints. Then the scheduler's own PreFilter and Filter plugins
are asked about it, on the same state. Prints how many of our bindings they accept, and how much of what they would have
placed we placed. Ends with 1 if a binding is not accepted, or if less than 98 % were placed. One node of twenty is
cordoned. Needs `headway lab build filter-check`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from typing import Any

import filters_world
import msgspec
import numpy as np

from headway.core.job import Job, JobId, Role
from headway.core.placement import Placement, shape_of
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.pods.constraints import Unplaceable, demands_of
from headway.kube.pods.placement_rules import Neighbours, facts_of
from headway.kube.pods.placing import NoNodeLeft, Placing, PodRules
from headway.kube.pods.resources import held_by, role_for
from headway.kube.store.held import ForeignPods
from headway.kube.store.nodes import NodeTable
from headway.lab.filter_check import FilterCheck

LEAST_PLACED = 0.98


class Ours:
    """Headway's view of the same nodes and pods."""

    def __init__(self, world: filters_world.World) -> None:
        self.found = {node["metadata"]["name"]: msgspec.convert(node, NodeObject) for node in world.nodes}
        self.claims = world.our_claims()
        self.table, self.pods, self.neighbours = NodeTable(), ForeignPods(), Neighbours()
        for node in self.found.values():
            self.neighbours.see_node(node)

    def choose(self, given: dict[str, Any]) -> str:
        """The node for a pod. Raises `Unplaceable` or `NoNodeLeft`."""
        pod = msgspec.convert(given, Pod)
        demands, guest = demands_of(pod.spec, self.claims), facts_of(pod)
        nodes = self.table.nodes(self.found, self.pods.by_node)
        role = role_for(Role(name="worker"), held_by(pod), demands)
        shape = shape_of(Job(id=JobId("job"), roles=(role,)), nodes)
        if shape.missing:
            raise NoNodeLeft(f"no node has {shape.missing}")
        free = np.where(nodes.ready, nodes.capacity, 0).astype(np.int32)
        placing = Placing(nodes, free, self.neighbours)
        placed = placing.place(Placement(((0,),)), shape, {"worker": PodRules(guest, demands)})
        return nodes.nodes[placed.nodes[0][0]].name

    def put(self, given: dict[str, Any], node: str) -> None:
        pod = msgspec.convert({**given, "spec": {**given["spec"], "nodeName": node}}, Pod)
        self.pods.put(pod)
        self.neighbours.put(pod.metadata.uid, node, facts_of(pod, placed=True))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pods", type=int, default=5000)
    options.add_argument("--nodes", type=int, default=400)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    world = filters_world.World.generated(random.Random(given.seed), given.nodes, given.pods)
    began, ours = time.monotonic(), Ours(world)
    placed, refused, wrong, missed = 0, 0, Counter[str](), Counter[str]()
    with FilterCheck(**world.objects()) as native:
        for pod in world.pods:
            try:
                node, why = ours.choose(pod), ""
            except (Unplaceable, NoNodeLeft) as error:
                node, why = "", str(error)
            if node:
                placed += 1
                said = native.refusal(pod, node)
                if said:
                    wrong[said] += 1
                    print(f"{pod['metadata']['name']} on {node}: {said}")
                    continue
                native.bind(pod, node)
                ours.put(pod, node)
            elif native.nodes_for(pod):
                missed[why.split(" of role")[0][:100]] += 1
            else:
                refused += 1
    total = placed + sum(missed.values())
    for why, count in missed.most_common(8):
        print(f"missed {count}: {why}")
    print(f"{given.pods} pods, {given.nodes} nodes, {time.monotonic() - began:.0f} s")
    print(f"{placed - sum(wrong.values())} of {placed} bindings accepted by the native filters")
    print(f"{placed} of {total} placed that they would have placed: {placed / max(1, total):.2%}")
    print(f"{refused} pods refused by both")
    return 1 if wrong or placed < LEAST_PLACED * total else 0


if __name__ == "__main__":
    sys.exit(main())
