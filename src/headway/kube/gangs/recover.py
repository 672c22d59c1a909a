"""A gang as an earlier process left it: what its status says and what its pods say, put together. Pure.

A status says how many replicas each role has. Each pod says, signed, of which attempt it is, how many replicas that has
and on which node it is. A start is told by its pods before any status tells it. Example: a gang of four of which three
pods were made goes on with them, and `replace_pods` finds a node for the fourth. A gang of which no pod was made waits
for the next decision. Where pods cannot be proven to be Headway's own, or where nobody can know whether a job has
ended, the gang is frozen: nothing is deleted and nothing is started.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headway.core.gang import Phase, SaveRound
from headway.core.job import Job
from headway.core.states import State
from headway.kube.api.objects import Pod
from headway.kube.gangs.fault import FAULT
from headway.kube.gangs.gang import Around, Gang, Reports, Saving, StartFacts, TrainingProgress, Written
from headway.kube.gangs.intent import Allocation, Intent, RoleAllocation, adopted, as_written
from headway.kube.gangs.model import View
from headway.kube.gangs.observe import interrupted
from headway.kube.gangs.outcome import take_down
from headway.kube.pods.marks import GangMark
from headway.kube.pods.replica import Replica
from headway.kube.values import replace
from headway.kube.views.status_read import UNKNOWN, KeptStatus, without_nodes

AWAY = "while Headway was away"
UNPROVEN = (
    "pods of this job hold nodes, and their marks are not Headway's: the Secret of marks is another one, or the pods "
    "were changed; they stay, and nothing is started until they are gone or the job is cancelled"
)
UNKNOWN_END = (
    "its last report was its last step, and its pods are gone: whether it ended well is not known; cancel it, or "
    "change its priority to let it start again from its checkpoint"
)


class OwnPod(NamedTuple):
    """A pod that is proven to be of this job, and what it says of its gang."""

    pod: Replica
    mark: GangMark


class Recovered(NamedTuple):
    gang: Gang
    columns: Mapping[str, float]
    """What its status kept of the board's columns."""
    pods: tuple[Pod, ...] = ()
    """Of a foreign gang."""


def recover(
    gang: Gang, kept: KeptStatus | None, own: Sequence[OwnPod], unproven: frozenset[str], around: Around, now: float
) -> Recovered:
    """`unproven`: pods with a node that say they are of this job and cannot prove it. Raises if it makes no sense."""
    status = kept or KeptStatus(Intent(since=gang.job.submit))
    if status.intent.reason == FAULT:  # what froze it is tried again
        plain = replace(status.intent, reason=status.intent.state.name.capitalize(), message="")
        status = replace(status, intent=plain)
    gang = _remembered(gang, status, [one.pod for one in own])
    begun = _begun_by_pods(status.intent, gang.job, own)
    gang = replace(gang, wanted=begun)
    found = locate(gang.view(around, now))
    columns = _columns(status, begun, found)
    lacking = _lacking(begun.target, found.target) if found.state in (State.STARTING, State.MOVING) else {}
    told = kept is not None and without_nodes(as_written(found)) == without_nodes(as_written(kept.intent))
    written = as_written(found) if told else None if kept is None else kept.intent
    gang = replace(
        gang, wanted=adopted(found, now, around.timeouts), start=StartFacts(lacking=lacking),
        written=replace(gang.written, intent=written),
    )  # fmt: skip
    if unproven and not _is_whole(begun, gang):
        gang = replace(gang, unproven=unproven, wanted=adopted(status.intent, now, around.timeouts))
        return Recovered(gang.freezes(UNPROVEN, now, again=math.inf), status.columns)
    if _may_have_ended(gang, begun, own):
        gang = replace(gang, wanted=status.intent)
        return Recovered(gang.freezes(UNKNOWN_END, now, again=math.inf), status.columns)
    return Recovered(gang, columns)


def _remembered(gang: Gang, status: KeptStatus, pods: Iterable[Replica]) -> Gang:
    progress = TrainingProgress(status.step, gang.job.steps) if status.step else None
    return replace(
        gang, pods={pod.uid: pod for pod in pods}, terms=replace(gang.terms, refused=status.refused),
        saving=Saving(status.savers, gang.saving.round, size_changed=status.intent.allocation is not None),
        reports=Reports(progress), written=Written(progress=progress), history=status.columns,
    )  # fmt: skip


def fresh_round(epoch: int) -> SaveRound:
    """Requests to save that no earlier process has used."""
    return SaveRound(epoch)


def _begun_by_pods(intent: Intent, job: Job, own: Sequence[OwnPod]) -> Intent:
    """A start that no status tells of yet: its pods do."""
    alive = [one for one in own if not one.pod.over and one.mark.counts]
    attempt = max((one.mark.attempt for one in alive), default=-1)
    drained = intent.state is State.STOPPING and intent.draining and intent.goal is State.WAITING
    unwritten = attempt == intent.attempt and intent.state is State.WAITING
    if not unwritten and not (attempt > intent.attempt and (drained or intent.state is State.WAITING)):
        return intent
    marks = [one.mark for one in alive if one.mark.attempt == attempt]
    counts = marks[0].counts
    asks = {one.pod.role: one.mark.asks for one in alive if one.mark.attempt == attempt}
    target = tuple(
        RoleAllocation(role.name, (UNKNOWN,) * counts.get(role.name, 0), asks.get(role.name, role.request))
        for role in job.roles
    )
    return replace(
        intent, state=State.STARTING, attempt=attempt, target=target, allocation=None, draining=False, saved=False,
        goal=State.WAITING, until=math.inf, reason="", message="",
    )  # fmt: skip


def _columns(status: KeptStatus, begun: Intent, found: Intent) -> Mapping[str, float]:
    columns = dict(status.columns)
    if found.reason == "Interrupted" != begun.reason and "saved" in columns:
        columns["attained"] = columns["saved"]  # the work since the last checkpoint is lost
    stopped = found.attempt != begun.attempt or begun.state is State.MOVING
    if found.state is State.WAITING is not begun.state and stopped:
        columns["stops"] = columns.get("stops", 0) + 1
    return columns


def _is_whole(begun: Intent, gang: Gang) -> bool:
    """Whether the proven pods alone are the gang that it should be."""
    meant = begun.target if begun.state is State.STARTING else begun.allocation
    mine = [pod for pod in gang.pods.values() if pod.attempt == gang.wanted.attempt and not pod.over]
    return meant is not None and len(mine) >= sum(len(share.nodes) for share in meant)


def _may_have_ended(gang: Gang, begun: Intent, own: Sequence[OwnPod]) -> bool:
    """It reported its last step, and no pod is left that could say how it ended."""
    steps, progress = gang.job.steps, gang.reports.progress
    at_end = steps is not None and progress is not None and progress.step >= steps
    trained = begun.state in (State.RUNNING, State.SCALING, State.RESIZING)
    return at_end and trained and not any(one.pod.attempt == begun.attempt for one in own)


def _lacking(meant: Allocation | None, found: Allocation | None) -> dict[str, int]:
    """By role: the replicas of a start of which no pod was made."""
    pairs = zip(meant or (), found or (), strict=True)
    missing = {share.role: len(share.nodes) - len(there.nodes) for share, there in pairs}
    return {role: count for role, count in missing.items() if count}


# ── where its pods are ──


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


def _found(allocation: Allocation | None, replicas: Iterable[Replica]) -> Allocation | None:
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
