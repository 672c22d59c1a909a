"""Simulated nodes: real Node objects whose kubelet is KWOK, which simulates the pods bound to them.

Annotations of a pod, all optional: `headway.dev/lab-ready-after: 3s` delays its start, `headway.dev/lab-run-for: 90s`
lets it succeed after that time (default: it runs until it is deleted), `headway.dev/lab-fail: Reason` makes it fail.
With `headway.dev/lab-hands-off` nothing happens to it: another hand writes its status.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from headway.lab import credentials
from headway.lab.api import Api
from headway.lab.credentials import KeyPair, client_context
from headway.lab.node_shapes import NodeGroup
from headway.lab.programs import PROGRAMS
from headway.lab.state import LOOPBACK, LabState, Part

MARK = "kwok.x-k8s.io/node"
READY_AFTER = "headway.dev/lab-ready-after"
RUN_FOR = "headway.dev/lab-run-for"
FAIL = "headway.dev/lab-fail"
HANDS_OFF = "headway.dev/lab-hands-off"
RACK, ACCELERATOR = "headway.dev/rack", "headway.dev/accelerator"
LABEL = "headway.dev/simulated=true"
GPU = "nvidia.com/gpu"
REAL_NODES_TOO = {"key": "headway.dev/simulated", "value": "true", "effect": "NoSchedule"}
"""The taint of simulated nodes in a lab that also has real nodes: a pod must tolerate it to run there."""
BATCH = 100
"""Objects in one transaction; etcd takes 128, and 1.5 MB."""
RUNNING = "running"
"""The namespace of the pods that run from the start."""
_PARALLEL = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {"podPlayStageParallelism": 16, "nodePlayStageParallelism": 16, "nodeLeaseParallelism": 16},
}
"""The default of KWOK, 4, would be slower than one kubelet per node."""
NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def part(state: LabState, port: int) -> Part:
    config = state.folder / "kwok.yaml"
    config.write_text("\n---\n".join(json.dumps(document) for document in [_PARALLEL, *_pod_stages()]))
    flags = {
        "kubeconfig": str(credentials.of(state).kubeconfig("kwok")),
        "config": str(config),
        "manage-nodes-with-annotation-selector": f"{MARK}=fake",
        "node-ip": LOOPBACK,
        "server-address": f"{LOOPBACK}:{port}",
        "node-lease-duration-seconds": state.lease_seconds,
    }
    return state.flagged_part("kwok", flags, port)


def store_all(state: LabState) -> None:
    """Stores all node objects and the pods that run on them. The nodes are Ready at once, and KWOK keeps them Ready.

    The API server would give a new node a taint until a controller has seen it Ready: a minute for a thousand.
    """
    store(state, "minions", _nodes(state))
    if state.pods:
        namespace = {
            "metadata": {"name": RUNNING},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        store(state, "namespaces", [{"apiVersion": "v1", "kind": "Namespace", **namespace}])
        store(state, f"pods/{RUNNING}", _pods(state))


PROBE = {
    "metadata": {"name": "probe"},
    "spec": {"nodeName": "sim-00001", "containers": [{"name": "main", "image": "any"}], "restartPolicy": "Never"},
}


def _name(number: int) -> str:
    return f"sim-{number:05}"


def _nodes(state: LabState) -> Iterator[dict[str, Any]]:
    number = 0
    total = sum(group.count for group in state.simulated)
    for group in state.simulated:
        for _ in range(group.count):
            rack = number * state.racks // total + 1
            number += 1
            yield _node(_name(number), f"rack-{rack:03}", group, is_mixed=state.kubelets > 0)


def _node(name: str, rack: str, group: NodeGroup, *, is_mixed: bool) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/os": "linux",
        "headway.dev/simulated": "true",
        RACK: rack,
        "headway.dev/domain": rack,
    }
    amounts = {"cpu": str(group.cpus), "memory": group.memory, "pods": "256", "ephemeral-storage": "1Ti"}
    if group.accelerator:
        labels |= {ACCELERATOR: group.accelerator, "nvidia.com/gpu.product": group.accelerator}
    if group.accelerators:
        amounts[GPU] = str(group.accelerators)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {MARK: "fake"}},
        "spec": {"taints": [REAL_NODES_TOO] if is_mixed else []},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": LOOPBACK}, {"type": "Hostname", "address": name}],
            "conditions": _healthy_conditions(),
            "nodeInfo": {
                **dict.fromkeys(NODE_INFO, ""),
                "kubeletVersion": f"kwok-{PROGRAMS['kwok'].version}",
            },
        },
    }


def _healthy_conditions() -> list[dict[str, str]]:
    moment = _now()
    since = {"lastHeartbeatTime": moment, "lastTransitionTime": moment, "reason": "Simulated"}
    troubles = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
    return [
        {"type": "Ready", "status": "True", **since},
        *({"type": trouble, "status": "False", **since} for trouble in troubles),
    ]


def _pods(state: LabState) -> Iterator[dict[str, Any]]:
    """Pods that run already, on the nodes in turn."""
    moment = _now()
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "any", "resources": {"requests": amounts, "limits": amounts}}
    since = {"status": "True", "lastTransitionTime": moment}
    works = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": moment}}}
    status = {
        "phase": "Running",
        "qosClass": "Guaranteed",
        "startTime": moment,
        "hostIP": LOOPBACK,
        "conditions": [{"type": kind, **since} for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
        "containerStatuses": [{"name": "main", "image": "any", "imageID": "", **works}],
    }
    nodes = sum(group.count for group in state.simulated)
    for number in range(state.pods):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"running-{number + 1:05}", "namespace": RUNNING},
            "spec": {"nodeName": _name(number % nodes + 1), "containers": [container], "restartPolicy": "Never"},
            "status": status,
        }


def store(state: LabState, folder: str, objects: Iterable[dict[str, Any]]) -> int:
    """Stores new objects in a folder of the API server's registry: `minions` has nodes, `pods/default` pods. Returns
    the last version.

    Through the API server each would cost two requests, its creation and its taint or status, and every watch would
    hear of it. The API server stores protobuf but reads JSON as well, and fills in defaults when it reads. No admission
    sees the objects: write only what it would let through.
    """
    etcd = credentials.of(state).etcd
    context = client_context(etcd / "ca.crt", KeyPair(etcd / "client.crt", etcd / "client.key"))
    pending = iter(objects)
    with closing(Api(f"https://{LOOPBACK}:{state.part('etcd').port}", context)) as api:
        version = 0
        while puts := [_stored(folder, one) for one in islice(pending, BATCH)]:
            version = int(api.post("/v3/kv/txn", {"success": puts})["header"]["revision"])
    return version


def _stored(folder: str, one: dict[str, Any]) -> dict[str, Any]:
    named = one["metadata"]
    born = {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
    stored = {**one, "metadata": {**born, **named}}
    key = f"/registry/{folder}/{named['name']}"
    return {"requestPut": {"key": _encoded(key), "value": _encoded(json.dumps(stored))}}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _pod_stages() -> list[dict[str, Any]]:
    """Our own stages replace all stages of KWOK for pods, so ready, end and delete are all defined here."""
    is_going = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
    is_staying = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    is_new = {"key": ".status.startTime", "operator": "DoesNotExist"}
    is_running = {"key": ".status.phase", "operator": "In", "values": ["Running"]}
    can_end = {"key": f'.metadata.annotations["{RUN_FOR}"]', "operator": "Exists"}
    shall_fail = {"key": f'.metadata.annotations["{FAIL}"]', "operator": "Exists"}
    shall_not_fail = {**shall_fail, "operator": "DoesNotExist"}
    is_ours = {"key": f'.metadata.annotations["{HANDS_OFF}"]', "operator": "DoesNotExist"}
    return [
        _stage("pod-ready", [is_ours, is_staying, is_new], {"statusTemplate": _RUNNING}, delay=READY_AFTER),
        _stage(
            "pod-complete",
            [is_ours, is_staying, is_running, can_end, shall_not_fail],
            {"statusTemplate": _ended("Succeeded", 0, '"Completed"')},
            delay=RUN_FOR,
        ),
        _stage(
            "pod-fail",
            [is_ours, is_staying, is_running, shall_fail],
            {"statusTemplate": _ended("Failed", 1, f'index .metadata.annotations "{FAIL}" | Quote')},
        ),
        _stage("pod-delete", [is_ours, is_going], {"finalizers": {"empty": True}, "delete": True}),
    ]


def _stage(
    name: str, expressions: list[dict[str, Any]], following: dict[str, Any], *, delay: str = ""
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": expressions},
        "next": following,
    }
    if delay:
        source = {"expressionFrom": f'.metadata.annotations["{delay}"]'}
        spec["delay"] = {"durationMilliseconds": 0, "durationFrom": source}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


_RUNNING = """
{{ $now := Now | Quote }}
phase: Running
startTime: {{ $now }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
conditions:
{{ range $kind := list "Initialized" "ContainersReady" "Ready" }}
- {type: {{ $kind }}, status: "True", lastTransitionTime: {{ $now }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now }}}}
{{ end }}
"""


def _ended(phase: str, exit_code: int, reason: str) -> str:
    return f"""
{{{{ $now := Now | Quote }}}}
{{{{ $started := .status.startTime | Quote }}}}
{{{{ $reason := {reason} }}}}
phase: {phase}
conditions:
- {{type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{{{ $now }}}}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {exit_code}
      reason: {{{{ $reason }}}}
      startedAt: {{{{ $started }}}}
      finishedAt: {{{{ $now }}}}
{{{{ end }}}}
"""
