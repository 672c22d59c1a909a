"""Ends pods on simulated nodes when the work of their job is done, instead of after a set time.

A pod takes part if it has the annotation `headway.dev/lab-work`: the work of the job in seconds at the requested size.
The label `headway.dev/job` names its job; without it the pod is a job of its own. The label `headway.dev/role` names
its role. The annotation `headway.dev/lab-gang` says how many replicas the job requests and how many it needs:
`ps=1,worker=4/2`.
"""

from __future__ import annotations

import http.client
import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from headway.core.node import Node, Nodes
from headway.core.quantity import CPU, GPU, MEMORY, parse
from headway.lab.api import LabApiError
from headway.lab.lab import Lab
from headway.lab.simulated_nodes import ACCELERATOR, LABEL, RACK, RUN_FOR
from headway.lab.simulated_nodes import GPU as GPU_RESOURCE
from headway.lab.work_ledger import Member, SpeedOf, WorkLedger, parse_gang

WORK, GANG = "headway.dev/lab-work", "headway.dev/lab-gang"
JOB, ROLE = "headway.dev/job", "headway.dev/role"
DEFAULT_ROLE = "worker"


class Life:
    """Watches the pods of a lab and ends them when the work of their job is done."""

    def __init__(self, lab: Lab, speed_of: SpeedOf, *, times_faster: float = 1.0, neighbour_loss: float = 0.0) -> None:
        self._lab, self._times_faster = lab, times_faster
        self._nodes = _read_nodes(lab)
        self._ledger = WorkLedger(self._nodes, speed_of, neighbour_loss)
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def run(self) -> None:
        """Runs until the process ends. A lost watch starts again with a list, so no change is missed."""
        threading.Thread(target=self._feed, daemon=True).start()
        while True:
            self._step()

    def _step(self) -> None:
        soon = self._ledger.next_done()
        wait = 0.5 if soon is None else min(0.5, max(0.01, soon / self._times_faster))
        try:
            self._see(self._events.get(timeout=wait))
            while not self._events.empty():
                self._see(self._events.get())
        except queue.Empty:
            pass
        self._pass_time()

    def _pass_time(self) -> None:
        for _, pods in self._ledger.advance(time.monotonic() * self._times_faster):
            for path in pods:
                self._finish(path)

    def _finish(self, path: str) -> None:
        try:
            self._lab.api.patch(path, {"metadata": {"annotations": {RUN_FOR: "0s"}}})
        except LabApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def _see(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        meta, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
        notes, labels = meta.get("annotations", {}), meta.get("labels", {})
        node = self._nodes.index.get(spec.get("nodeName", ""))
        if WORK not in notes or node is None:
            return
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        key = f"{meta['namespace']}/{labels.get(JOB, meta['name'])}"
        self._pass_time()  # what was done so far was done at the old speed
        runs = status.get("phase") == "Running" and "deletionTimestamp" not in meta
        if event["type"] == "DELETED" or not runs:
            self._ledger.leave(key, path)
            return
        role = labels.get(ROLE, DEFAULT_ROLE)
        requests = spec["containers"][0].get("resources", {}).get("requests", {})
        member = Member(role, node, int(requests.get(GPU_RESOURCE, 0)))
        try:
            seconds, roles = float(notes[WORK]), parse_gang(notes.get(GANG, ""), role)
        except ValueError as error:
            print(f"{path} is ignored: {error}", flush=True)
            return
        self._ledger.join(key, path, member, seconds=seconds, roles=roles)

    def _feed(self) -> None:
        while True:
            try:
                for event in self._watched():
                    self._events.put(event)
            except (OSError, http.client.HTTPException, LabApiError) as error:
                print(f"the watch ended and starts again: {error}", flush=True)
                time.sleep(1)

    def _watched(self) -> Iterator[dict[str, Any]]:
        listed = self._lab.api.get("/api/v1/pods")
        for pod in listed["items"]:
            yield {"type": "ADDED", "object": pod}
        host = self._lab.url.removeprefix("https://")
        connection = http.client.HTTPSConnection(host, context=self._lab.ssl_context())
        try:
            connection.request("GET", f"/api/v1/pods?watch=1&resourceVersion={listed['metadata']['resourceVersion']}")
            response = connection.getresponse()
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event
        finally:
            connection.close()


def _read_nodes(lab: Lab) -> Nodes:
    kinds = {"cpu": CPU, "memory": MEMORY, GPU_RESOURCE: GPU}
    nodes = []
    for item in lab.api.get(f"/api/v1/nodes?labelSelector={LABEL.replace('=', '%3D')}")["items"]:
        labels, amounts = item["metadata"]["labels"], item["status"]["allocatable"]
        capacity = tuple(sorted((ours, parse(ours, amounts[its])) for its, ours in kinds.items() if its in amounts))
        nodes.append(
            Node(
                name=item["metadata"]["name"],
                capacity=capacity,
                domain=labels.get(RACK, ""),
                accelerator=labels.get(ACCELERATOR, ""),
            )
        )
    return Nodes.of(nodes)
