"""The next intent of a job, from its present intent and its pods. Pure.

Example: a STARTING job whose pods all run becomes RUNNING. No action is chosen here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from headway.core.gang import SETTLE_SECONDS, GangState, GangVerdict, Phase, back_off_seconds, judge
from headway.core.plan import Because
from headway.core.states import OVER, State
from headway.kube.gangs.intent import EVICTED, Allocation, Intent, RoleAllocation
from headway.kube.gangs.model import View, all_up, matched
from headway.kube.gangs.outcome import left_unsaved, obey, settle, take_down
from headway.kube.pods.replica import Replica
from headway.kube.values import replace

LEAVING_SECONDS = 2.0
"""So long before a pod is killed its job must have saved."""
RECLAIMED = Because.RECLAIMED.value.capitalize()
"""The reason of a job that goes even if it does not save in time. That is no loss: no limit of restarts counts it."""
QUOTA_SECONDS = 20.0
"""A start that a full quota refused is tried again after this."""


def observe(view: View) -> Intent:
    intent = view.intent
    if intent.state in OVER:
        return intent
    if view.withdrawn and intent.state is State.WAITING:
        return settle(intent, State.CANCELLED, view.now)
    if view.withdrawn and not (intent.draining and intent.goal is State.CANCELLED):
        return take_down(view, State.CANCELLED, "Withdrawn", "the TrainingJob was deleted")
    ordered = None if view.withdrawn else _unplaceable(view) or obey(view)
    if ordered is not None or intent.state is State.WAITING:
        return ordered or intent
    if intent.draining:
        return _drained(view)
    return _evicted(view) or _judged(view) or _change_outcome(view)


def _unplaceable(view: View) -> Intent | None:
    """It waits, and its pods will demand something that cannot be honoured."""
    if view.intent.state is State.WAITING and view.refusal is not None and view.refusal.permanent:
        return take_down(view, State.FAILED, "Unplaceable", view.refusal.why)
    return None


def _evicted(view: View) -> Intent | None:
    """Another hand deletes a pod, as in a drain. While it still runs, the whole gang is asked to save."""
    intent = view.intent
    going = [one for one in view.mine() if one.deleting and one.phase is Phase.UP and one.node not in view.gone]
    if intent.state is not State.RUNNING or not going or not view.can_save:
        return None
    ends = [view.timeouts.save + view.now, *(one.ends_at for one in going if one.ends_at is not None)]
    until = min(ends) - LEAVING_SECONDS
    if until <= view.now or any(one.phase is Phase.LOST for one in view.mine()):
        return None
    why = f"{going[0].name} is being deleted by another hand: the job saves first, and starts again elsewhere"
    return replace(
        intent, state=State.STOPPING, goal=State.WAITING, since=view.now, until=until, reason=EVICTED, message=why
    )


# ── the gang: whole, done, failed or lost? ──────────────────────────────────────────────────────────────────


def gang_verdict(view: View) -> GangVerdict:
    """What the gang rule says of the job's pods."""
    intent = view.intent
    saving = intent.reason == EVICTED and intent.state is State.STOPPING
    present = [
        one for one in view.mine()
        if (not one.deleting or (saving and one.phase is Phase.UP)) and one.uid not in view.excused
    ]  # fmt: skip
    settle = _settle_seconds(view, present)
    facts = [replica.member(gone=replica.node in view.gone, since=intent.since) for replica in present]
    members = [replace(fact, settle=settle) for fact in facts]
    wanted = {share.role: len(share.nodes) for share in _required(view)}
    return judge(view.job, wanted, members, view.now, starting=view.starting, grace=view.timeouts.grace)


def _settle_seconds(view: View, present: list[Replica]) -> float:
    """How long a failure may still turn out to be a loss.

    Example: a node is powered off, and the peers of its replica exit with code 1. The API server shows that replica as
    running until the node has been silent for a while. So a failure waits for the nodes of others that seem to run,
    until each has given a sign of life.
    """
    unsure = suspects(view, present)
    if not unsure:
        return SETTLE_SECONDS
    late = view.timeouts.lost_node if unsure & view.doubtful else 0.0
    return max(SETTLE_SECONDS, view.timeouts.silent_node + late)


def suspects(view: View, present: list[Replica] | None = None) -> frozenset[str]:
    """Nodes of replicas that seem to run although another one failed, and that gave no sign of life since then."""
    mine = [one for one in view.mine() if not one.deleting] if present is None else present
    failed = [replica for replica in mine if replica.phase is Phase.FAILED]
    if not failed:
        return frozenset()
    last = max(replica.finished_at or view.intent.since for replica in failed)
    elsewhere = {replica.node for replica in mine if not replica.over} - {replica.node for replica in failed}
    return frozenset(node for node in elsewhere - view.gone if view.alive_after.get(node, -math.inf) < last)


def _judged(view: View) -> Intent | None:
    verdict = gang_verdict(view)
    match verdict.state:
        case GangState.DONE if any(not replica.over for replica in view.mine() if not replica.deleting):
            return take_down(view, State.FINISHED, "Succeeded", "")
        case GangState.DONE:
            return settle(view.intent, State.FINISHED, view.now)
        case GangState.FAILED:
            return take_down(view, State.FAILED, "ProgramFailed", verdict.why)
        case GangState.LOST:
            return interrupted(view, verdict.why)
        case GangState.WAIT if math.isfinite(verdict.until):
            return view.intent
    return _join_refused(view)


def _join_refused(view: View) -> Intent | None:
    """A pod did not join the gang: a start is refused, a job that scales goes on at its old size."""
    away = (Phase.REFUSED, Phase.LOST, Phase.FAILED)
    stray = next((r for r in view.mine() if not r.deleting and r.phase in away and r.uid not in view.excused), None)
    if stray is None:
        return None
    if view.starting:
        return _refused(view, stray.why)
    return _keep_running(view, "ScaleRefused", stray.why) if view.intent.state is State.SCALING else None


def _required(view: View) -> Iterator[RoleAllocation]:
    """The replicas that make the gang whole; while its size changes, those of the smaller size."""
    intent = view.intent
    if intent.allocation is None or view.starting:
        yield from intent.target or ()
        return
    other = intent.target if intent.state is State.SCALING else None
    for share, towards in zip(intent.allocation, other or intent.allocation, strict=True):
        yield share if len(share.nodes) <= len(towards.nodes) else towards


# ── changes in flight: have they ended? ───────────────────────────────────────────────────────────────────────────


def _change_outcome(view: View) -> Intent:
    intent = view.intent
    match intent.state:
        case State.STARTING:
            return _started(view)
        case State.SCALING:
            return _started(view) if view.starting else _scaled(view)
        case State.RESIZING:
            return _resized(view)
        case State.MOVING:
            return _started(view) if intent.saved else _saving(view)
        case State.STOPPING:
            return _stopping(view)
    return intent


def _started(view: View) -> Intent:
    intent = view.intent
    if intent.target is not None and all_up(intent.target, view.mine()):
        return _running(view, intent.target, "Running", "")
    if view.refusal is not None and view.refusal.permanent:
        return take_down(view, State.FAILED, "Refused", view.refusal.why)
    if view.refusal is not None:
        return _refused(view, view.refusal.why, waits=view.refusal.waits)
    if view.now >= intent.until:
        return _refused(view, f"not every replica was up after {view.now - intent.since:.0f} seconds")
    return intent


def _scaled(view: View) -> Intent:
    intent = view.intent
    assert intent.target is not None and intent.allocation is not None  # noqa: PT018  one fact
    strays = [r for share in intent.target for r in matched(share, view.mine())[1]]
    if all_up(intent.target, view.mine()) and not strays:
        return _running(view, intent.target, "Scaled", "")
    whole = all(not matched(share, view.mine())[2] for share in intent.allocation)
    if whole and view.refusal is not None:
        return _keep_running(view, "ScaleRefused", view.refusal.why)
    if whole and view.now >= intent.until:
        return _keep_running(view, "ScaleTimedOut", "the new replicas were not up in time")
    return intent


def _resized(view: View) -> Intent:
    intent = view.intent
    assert intent.target is not None
    waiting = [r for share in intent.target for r in matched(share, view.mine())[0] if not has(r, share)]
    if not waiting:
        return _running(view, intent.target, "Resized", "")
    infeasible = next((replica.cannot_resize for replica in waiting if replica.cannot_resize), "")
    if infeasible or view.refusal is not None:
        why = infeasible or (view.refusal.why if view.refusal is not None else "")
        return _keep_running(view, "ResizeRefused", why)
    if view.now >= intent.until:
        return _keep_running(view, "ResizeTimedOut", "the kubelet did not give the new amounts in time")
    return intent


def has(replica: Replica, share: RoleAllocation) -> bool:
    """Whether the kubelet gives the replica the amounts of its share. One that is over needs nothing."""
    asked = {kind: amount for kind, amount in share.amounts if kind in dict(replica.spec)}
    return replica.over or (dict(replica.spec) == asked and dict(replica.given or ()) == asked)


def _stopping(view: View) -> Intent:
    intent, saves = view.intent, view.saves
    if intent.reason == EVICTED and (saves.failed or view.now >= intent.until):
        return interrupted(view, f"{intent.message}; it could not save in time {saves.failed}".rstrip())
    going = _saving(view)
    if intent.reason == RECLAIMED and going.state is State.RUNNING:
        why = saves.failed or "it did not save in time"
        return take_down(view, State.WAITING, "Interrupted", f"another queue reclaimed what it borrowed: {why}")
    return going


def _saving(view: View) -> Intent:
    intent, saves = view.intent, view.saves
    if saves.is_complete or view.job.saves_itself:
        if intent.state is State.STOPPING:
            return replace(intent, draining=True, saved=True, declined=0, until=math.inf)
        until = view.now + view.timeouts.start
        return replace(intent, saved=True, declined=0, attempt=intent.attempt + 1, since=view.now, until=until)
    cancelled = intent.state is State.STOPPING and intent.goal is State.CANCELLED
    if saves.failed and not cancelled:
        return _keep_running(view, "SaveFailed", f"the job could not save and runs on: {saves.failed}")
    if saves.failed or view.now >= intent.until:
        if cancelled:
            return left_unsaved(intent, saves.failed or "it did not answer in time")
        return _keep_running(view, "SaveTimedOut", "the job did not save in time and runs on")
    return intent


def _drained(view: View) -> Intent:
    intent = view.intent
    backing_off = math.isfinite(intent.until) and view.now < intent.until
    return intent if view.alive() or backing_off else settle(intent, intent.goal, view.now)


# ── from one intent to the next ─────────────────────────────────────────────────────────────────────────────


def _running(view: View, allocation: Allocation, reason: str, message: str) -> Intent:
    return replace(
        view.intent, state=State.RUNNING, allocation=allocation, target=None, since=view.now, until=math.inf,
        saved=False, refusals=0, declined=0, reason=reason, message=message,
    )  # fmt: skip


def _keep_running(view: View, reason: str, message: str) -> Intent:
    """The job goes on as before the change. That is counted: the next request comes after a pause."""
    assert view.intent.allocation is not None
    return replace(_running(view, view.intent.allocation, reason, message), declined=view.intent.declined + 1)


def interrupted(view: View, why: str) -> Intent:
    """The gang was lost, not by its own fault: it starts again from its checkpoint, unless that happens too often."""
    intent = view.intent
    if intent.state is State.STOPPING and intent.goal is State.CANCELLED:
        return take_down(view, State.CANCELLED, intent.reason or "Cancelled", why)
    losses = intent.losses.another(view.now, view.step, view.limits)
    counted = replace(view, intent=replace(intent, losses=losses))
    if losses.too_many(view.limits):
        return take_down(counted, State.FAILED, "Interrupted", losses.sentence(why))
    return take_down(counted, State.WAITING, "Interrupted", why)


def _refused(view: View, why: str, *, waits: str = "") -> Intent:
    """A refused start is tried again after a pause that grows; where it only waits, as often as it takes."""
    count = view.intent.refusals + 1
    counted = replace(view, intent=replace(view.intent, refusals=count))
    if count > view.limits.refusals and not waits:
        return take_down(counted, State.FAILED, "Refused", f"refused {count} times in a row, last: {why}")
    reason = waits or "Refused"
    counted = replace(view, intent=replace(view.intent, refusals=view.intent.refusals if waits else count))
    going = take_down(counted, State.WAITING, reason, why)
    if going.state is State.WAITING:  # no pod was created yet: it backs off as a stopping job
        going = replace(
            counted.intent, state=State.STOPPING, draining=True, goal=State.WAITING, target=None,
            since=view.now, saved=False, reason=reason, message=why,
        )  # fmt: skip
    return replace(going, until=view.now + (QUOTA_SECONDS if waits else back_off_seconds(count)))
