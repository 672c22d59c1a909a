"""Why a pod is not scheduled, in the words that Kubernetes and its autoscalers read.

Example: `PodScheduled=False`, reason `Unschedulable`: no node could hold the pod, so more nodes would help. A pod that
only waits for its turn or for its queue's quota has the reason `Waiting`: more nodes would not help.
"""

from __future__ import annotations

import time
from typing import Any

from headway.core.reason import Code
from headway.kube.api.objects import GROUP, Meta, Pod, event, named, timestamp

UNSCHEDULABLE, WAITING, HELD_BACK = "Unschedulable", "Waiting", "SchedulingGated"
_BY_THE_SERVER = "Scheduling is blocked due to"
"""So begins what the API server itself says of a gated pod."""
NEIGHBOURS_REFUSE, QUOTA_USED = "NeighboursRefuse", "QuotaUsed"


def camel(code: Code) -> str:
    """A reason as Kubernetes writes it: `NotEnoughFree`."""
    return "".join(part.capitalize() for part in code.split("_"))


NO_ROOM = frozenset(camel(code) for code in (
    Code.NO_SUCH_RESOURCE, Code.NO_SUITABLE_NODE, Code.LARGER_THAN_ANY_NODE, Code.LARGER_THAN_CLUSTER,
    Code.NOT_ENOUGH_FREE, Code.FRAGMENTED,
)) | {NEIGHBOURS_REFUSE}  # fmt: skip
"""Reasons for which more nodes would help."""


def condition_reason(reason: str) -> str:
    return UNSCHEDULABLE if reason in NO_ROOM else WAITING


def told_by(pod: Pod) -> str:
    """Why it has no node, as its status says; empty if nobody has said it."""
    said = next((one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False"), None)
    return "" if said is None or said.message.startswith(_BY_THE_SERVER) else said.message


def unscheduled(uid: str, reason: str, why: str) -> dict[str, Any]:
    """A patch of a pod's status."""
    now = timestamp(time.time())[:19] + "Z"
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why, "lastTransitionTime": now}
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def touched(uid: str, epoch: int) -> dict[str, Any]:
    """A patch of a pod's status by which the scheduler of this epoch makes another version of the pod."""
    now = timestamp(time.time())[:19] + "Z"
    condition = {"type": f"{GROUP}/epoch", "status": "True", "reason": f"Epoch{epoch}", "lastTransitionTime": now}
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def pod_event(meta: Meta, reason: str, why: str) -> dict[str, Any]:
    return event(named(meta, "v1", "Pod"), reason, why, time.time(), warning=True)
