"""Where the replicas of a job are, as its pods say, when its status is read after a restart. Pure.

A status says how many replicas each role has; each pod says which replica it is and on which node. Example: a gang of
four whose status says Starting has three pods. The start goes on with them: `kube/elsewhere.py` finds a node for the
fourth. A gang of which no pod was made waits for the next decision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from headway.core.gang import Phase
from headway.core.states import State
from headway.kube.job.intent import Allocation, Intent, RoleAllocation
from headway.kube.job.replica import PodReplica
from headway.kube.reconcile.model import View
from headway.kube.reconcile.observe import interrupted
from headway.kube.reconcile.outcome import take_down

AWAY = "while Headway was away"


def locate(view: View) -> Intent:
    """The intent of the view with the nodes on which its pods are, or are to be.

    The target of a start may lack replicas that have no pod yet.
    """
    intent = view.intent
    if intent.allocation is None and intent.target is None:
        return intent
    if intent.state is State.STOPPING and intent.draining:
        return replace(intent, allocation=_found(intent.allocation, view.alive()), target=None)
    if intent.state is State.STARTING or (intent.state is State.MOVING and intent.saved):
        return _starting(view)
    here = _found(intent.allocation, view.mine())
    if intent.state is State.SCALING:
        return _scaling(view, here)
    if here is None or not _whole(intent.allocation, here):
        return interrupted(view, f"not all of its replicas were left {AWAY}")
    return _running(intent, here)


def _running(intent: Intent, here: Allocation) -> Intent:
    found = replace(intent, allocation=here)
    if intent.state is State.RESIZING:
        return replace(found, target=_there(intent.target, here))
    if intent.state is State.MOVING:  # it has not saved, and where it was to go is not known
        gave_up = "the move was given up: Headway was started again"
        return replace(found, state=State.RUNNING, target=None, until=math.inf, reason="Running", message=gave_up)
    return found


def _starting(view: View) -> Intent:
    intent = view.intent
    there = _found(intent.target, view.mine())
    if there is None or not any(share.nodes for share in there):
        unbegun = replace(view, intent=replace(intent, attempt=intent.attempt - 1))  # the next one has its number
        return take_down(unbegun, State.WAITING, "Released", f"its gang was not begun {AWAY}")
    earlier = [replica for replica in view.alive() if replica.attempt != intent.attempt]
    return replace(intent, allocation=_found(intent.allocation, earlier), target=there)


def _scaling(view: View, here: Allocation | None) -> Intent:
    """It goes on if all pods of the new size are there; else it stays at the old size, if that is whole."""
    intent = view.intent
    there = _found(intent.target, view.mine())
    if there is not None and here is not None and _whole(intent.target, there):
        return replace(intent, allocation=here, target=there)
    if here is None or not _whole(intent.allocation, here):
        return interrupted(view, f"not all of its replicas were left {AWAY}")
    gave_up = "the change of its size was given up: Headway was started again"
    return replace(
        intent, state=State.RUNNING, allocation=here, target=None, until=math.inf, reason="Running", message=gave_up
    )


def _found(allocation: Allocation | None, replicas: Iterable[PodReplica]) -> Allocation | None:
    """The nodes of these replicas, at most as many as the allocation has: those that stay and run come first."""
    if allocation is None:
        return None
    ranked = sorted(replicas, key=lambda replica: (replica.deleting, replica.phase is not Phase.UP, replica.index))
    shares = []
    for share in allocation:
        chosen = [replica for replica in ranked if replica.role == share.role][: len(share.nodes)]
        nodes = tuple(replica.node for replica in sorted(chosen, key=lambda replica: replica.index))
        shares.append(RoleAllocation(share.role, nodes, share.amounts))
    return tuple(shares)


def _there(target: Allocation | None, here: Allocation) -> Allocation | None:
    """The target of a resize: other amounts in the same places."""
    if target is None:
        return None
    return tuple(replace(share, nodes=now.nodes) for share, now in zip(target, here, strict=True))


def _whole(meant: Allocation | None, found: Allocation) -> bool:
    return all(len(share.nodes) == len(one.nodes) for share, one in zip(meant or (), found, strict=True))
