"""Nodes of two types on Kubernetes: a job runs where it gains most, by the speeds that were measured there."""

from __future__ import annotations

import msgspec
import pytest
from small_cluster import MemoryApi, SmallCluster

from headway.core.job import JobId
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted
from headway.kube.writes.write import Write, WriteDone
from headway.policies.headway import Headway
from headway.progress_server import Connected, Reported, Saved

STEPS = 100_000


def _node(name: str, product: str) -> NodeObject:
    status = {
        "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    meta = {"name": name, "labels": {"nvidia.com/gpu.product": product}}
    return msgspec.convert({"metadata": meta, "status": status}, NodeObject)


class Api(MemoryApi):
    """It also says which pods are deleted: their GPUs are free again."""

    def take(self, write: Write) -> WriteDone:
        before = dict(self.pods)
        done = super().take(write)
        for key in before.keys() - self.pods.keys():
            self.inbox.put(Deleted(Pod, msgspec.convert(before[key], Pod)))
        return done


class Typed(SmallCluster):
    """A K80, later a V100, too, and a job that saves when it is asked to and trains at these steps a second on each."""

    def __init__(self, paces: dict[str, float]) -> None:
        api = Api()
        api.nodes = [_node("k80", "Tesla-K80")]
        super().__init__(api, Headway())
        self.job, self.paces, self.step, self.been = JobId("team/j"), paces, 0.0, list[str]()
        self.reports.save = lambda job, request: self.reports.events.append(
            Saved(job, "worker", 0, self.gang("team/j").wanted.attempt, request, int(self.step))
        )
        self.api.submit("j", {"roles": {"worker": {"replicas": 1, "gpu": 1}}, "steps": STEPS})
        self.turn(3)

    def passes(self, seconds: int) -> None:
        for _ in range(0, seconds, 5):
            self.clock.ahead += 5.0
            pods = self.api.pods_of("j")
            if pods and pods[0]["spec"].get("nodeName"):
                node, attempt = pods[0]["spec"]["nodeName"], self.gang("team/j").wanted.attempt
                if self.been[-1:] != [node]:
                    self.been.append(node)
                    hello = Connected(self.job, "worker", 0, attempt, True, None)
                    self.reports.connected = lambda _, hello=hello: [hello]
                    self.reports.events.append(hello)
                self.step += 5.0 * self.paces[node]
                self.reports.events.append(Reported(self.job, "worker", 0, attempt, int(self.step), None, STEPS, {}, 1))
            self.turn(3)
            self.hurry()


@pytest.mark.parametrize(("pace", "been"), [(20.0, ["k80", "v100"]), (2.0, ["k80", "v100", "k80"])])
def test_a_job_tries_the_type_that_is_published_to_be_faster_and_stays_where_it_is(pace, been):
    small = Typed({"k80": 10.0, "v100": pace})
    small.passes(200)
    small.api.inbox.put(Changed(NodeObject, _node("v100", "Tesla-V100-SXM2-16GB")))
    small.passes(600)
    assert small.been == been
