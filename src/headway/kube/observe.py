"""What the world says about a job: given what was meant and the pods that there are, what is it now? Pure.

Nothing is asked for here; the answer is another intent, or the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from headway.core.states import OVER, State
from headway.kube.intent import Allocation, Intent, Share
from headway.kube.replica import Phase, Replica
from headway.kube.view import View, all_up, matched, sound

MOST_INTERRUPTIONS = 3
MOST_REFUSALS = 10
LONGEST_BACK_OFF_SECONDS = 60.0


def observe(view: View) -> Intent:
    intent = view.intent
    if intent.state in OVER:
        return intent
    if view.withdrawn and intent.state is State.WAITING:
        return settle(intent, State.CANCELLED, view.now)
    if view.withdrawn and not (intent.draining and intent.goal is State.CANCELLED):
        return take_down(view, State.CANCELLED, "Withdrawn", "the TrainingJob was deleted")
    if intent.state is State.WAITING:
        return intent
    if intent.draining:
        return _drained(view)
    return _judged(view) or _flown(view)


# ── the gang: whole, done, failed or lost? ──────────────────────────────────────────────────────────────────


def _judged(view: View) -> Intent | None:  # noqa: PLR0911  verdicts in their order
    present = [replica for replica in view.mine() if not replica.deleting]
    finished = _finished(view, present)
    if finished is not None:
        return finished
    lost = next((r for r in present if r.phase is Phase.LOST or (r.node in view.gone and not r.over)), None)
    failed = next((r for r in present if r.phase is Phase.FAILED), None)
    refused = next((r for r in present if r.phase is Phase.REFUSED), None)
    missing = _missing(view, present)
    if lost is not None and (missing or _being_made(view.intent)):
        return _interrupted(view, lost.why or f"node {lost.node} is gone")
    if failed is not None:
        return take_down(view, State.FAILED, "ProgramFailed", failed.why)
    if missing:
        return _interrupted(view, missing)
    if refused is not None and _being_made(view.intent):
        return _refused(view, refused.why)
    if view.intent.state is State.SCALING and (lost or refused):
        return _stay(view, "ScaleRefused", (lost or refused or present[0]).why)
    return None


def _being_made(intent: Intent) -> bool:
    """The gang is not whole yet, and need not be."""
    return intent.state is State.STARTING or (intent.state is State.MOVING and intent.saved)


def _finished(view: View, present: list[Replica]) -> Intent | None:
    """Done once every replica ended well; or once one role did and the rest has had time to follow."""
    required = list(_required(view.intent))
    done = [share for share in required if share.nodes and _ended_well(share, present)]
    if not done:
        return None
    rest = [r for r in present if not r.over]
    if len(done) == len([share for share in required if share.nodes]) and not rest:
        return settle(view.intent, State.FINISHED, view.now)
    if not rest or view.now >= lingers_until(view):
        return take_down(view, State.FINISHED, "Succeeded", "")
    return view.intent


def _ended_well(share: Share, present: list[Replica]) -> bool:
    ended = [r for r in present if r.role == share.role and r.phase is Phase.SUCCEEDED]
    return len(ended) >= len(share.nodes)


def lingers_until(view: View) -> float:
    """Until when the others may go on after a role is wholly done; infinity where none is."""
    present = [replica for replica in view.mine() if not replica.deleting]
    ends = []
    for share in _required(view.intent):
        if share.nodes and _ended_well(share, present):
            ended = [r for r in present if r.role == share.role and r.phase is Phase.SUCCEEDED]
            ends.append(max(r.finished_at or view.intent.since for r in ended))
    return min(ends) + view.patience.linger if ends else math.inf


def _required(intent: Intent) -> Iterator[Share]:
    """The replicas without which the gang is not whole: while its size changes, the smaller of both."""
    if intent.allocation is None or (intent.state is State.MOVING and intent.saved):
        yield from intent.target or ()
        return
    other = intent.target if intent.state is State.SCALING else None
    for share, towards in zip(intent.allocation, other or intent.allocation, strict=True):
        yield share if len(share.nodes) <= len(towards.nodes) else towards


def _missing(view: View, present: list[Replica]) -> str:
    """What the gang lacks that it had; a gang that is only being made lacks nothing yet."""
    intent = view.intent
    if _being_made(intent):
        return ""
    for share in _required(intent):
        there = sum(sound(r) and r.node not in view.gone and r.role == share.role for r in present)
        if there < len(share.nodes):
            return f"{len(share.nodes) - there} of {len(share.nodes)} replicas of role {share.role!r} disappeared"
    return ""


# ── what was begun: has it ended? ───────────────────────────────────────────────────────────────────────────


def _flown(view: View) -> Intent:
    intent = view.intent
    match intent.state:
        case State.STARTING:
            return _started(view)
        case State.SCALING:
            return _scaled(view)
        case State.RESIZING:
            return _resized(view)
        case State.MOVING:
            return _started(view) if intent.saved else _saving(view)
        case State.STOPPING:
            return _saving(view)
    return intent


def _started(view: View) -> Intent:
    intent = view.intent
    if intent.target is not None and all_up(intent.target, view.mine()):
        return _run(view, intent.target, "Running", "")
    if view.refusal is not None and view.refusal.permanent:
        return take_down(view, State.FAILED, "Refused", view.refusal.why)
    if view.refusal is not None:
        return _refused(view, view.refusal.why)
    if view.now >= intent.until:
        return _refused(view, f"not every replica was up after {view.now - intent.since:.0f} seconds")
    return intent


def _scaled(view: View) -> Intent:
    intent = view.intent
    assert intent.target is not None and intent.allocation is not None  # noqa: PT018  one fact
    strays = [r for share in intent.target for r in matched(share, view.mine())[1]]
    if all_up(intent.target, view.mine()) and not strays:
        return _run(view, intent.target, "Scaled", "")
    whole = all(not matched(share, view.mine())[2] for share in intent.allocation)
    if whole and view.refusal is not None:
        return _stay(view, "ScaleRefused", view.refusal.why)
    if whole and view.now >= intent.until:
        return _stay(view, "ScaleTimedOut", "the new replicas were not up in time")
    return intent


def _resized(view: View) -> Intent:
    intent = view.intent
    assert intent.target is not None
    waiting = [r for share in intent.target for r in matched(share, view.mine())[0] if not has(r, share)]
    if not waiting:
        return _run(view, intent.target, "Resized", "")
    infeasible = next((replica.cannot_resize for replica in waiting if replica.cannot_resize), "")
    if infeasible or view.refusal is not None:
        why = infeasible or (view.refusal.why if view.refusal is not None else "")
        return _stay(view, "ResizeRefused", why)
    if view.now >= intent.until:
        return _stay(view, "ResizeTimedOut", "the kubelet did not give the new amounts in time")
    return intent


def has(replica: Replica, share: Share) -> bool:
    """Whether the kubelet says that the replica has what the share promises. One that is over needs nothing."""
    asked = {kind: amount for kind, amount in share.amounts if kind in dict(replica.spec)}
    return replica.over or (dict(replica.spec) == asked and dict(replica.given or ()) == asked)


def _saving(view: View) -> Intent:
    intent, saves = view.intent, view.saves
    if saves.asked and saves.acknowledged >= saves.asked:
        if intent.state is State.STOPPING:
            return replace(intent, draining=True, saved=True, declined=0, until=math.inf)
        until = view.now + view.patience.start
        return replace(intent, saved=True, declined=0, attempt=intent.attempt + 1, since=view.now, until=until)
    cancelled = intent.state is State.STOPPING and intent.goal is State.CANCELLED
    if saves.failed and not cancelled:
        return _stay(view, "SaveFailed", f"it could not save and stays: {saves.failed}")
    if saves.failed or view.now >= intent.until:
        if cancelled:
            return replace(intent, draining=True, until=math.inf)
        return _stay(view, "SaveTimedOut", "it did not save in time and stays")
    return intent


def _drained(view: View) -> Intent:
    intent = view.intent
    backing_off = math.isfinite(intent.until) and view.now < intent.until
    return intent if view.alive() or backing_off else settle(intent, intent.goal, view.now)


# ── from one intent to the next ─────────────────────────────────────────────────────────────────────────────


def settle(intent: Intent, state: State, now: float) -> Intent:
    """The job is down, for now or for ever."""
    return Intent(
        state=state, attempt=intent.attempt + (state is State.WAITING), since=now,
        interruptions=intent.interruptions, lost_at_step=intent.lost_at_step, refusals=intent.refusals,
        reason=intent.reason if intent.draining else state.name.capitalize(),
        message=intent.message if intent.draining else "",
    )  # fmt: skip


def take_down(view: View, goal: State, reason: str, message: str) -> Intent:
    """Every pod goes; once they are gone the job is what `goal` says. At once where there are none."""
    intent = view.intent
    going = replace(
        intent, state=State.STOPPING, draining=True, goal=goal, allocation=intent.allocation or intent.target,
        target=None, since=view.now, until=math.inf, saved=False, reason=reason, message=message,
    )  # fmt: skip
    return going if view.alive() else settle(going, goal, view.now)


def _run(view: View, allocation: Allocation, reason: str, message: str) -> Intent:
    return replace(
        view.intent, state=State.RUNNING, allocation=allocation, target=None, since=view.now, until=math.inf,
        saved=False, refusals=0, declined=0, reason=reason, message=message,
    )  # fmt: skip


def _stay(view: View, reason: str, message: str) -> Intent:
    """It goes on as it was before the change was begun; that is counted, so as not to ask for it without a pause."""
    assert view.intent.allocation is not None
    return replace(_run(view, view.intent.allocation, reason, message), declined=view.intent.declined + 1)


def _interrupted(view: View, why: str) -> Intent:
    """Lost through no fault of its own: from its checkpoint again, unless that happens without end."""
    intent = view.intent
    if intent.state is State.STOPPING and intent.goal is State.CANCELLED:
        return take_down(view, State.CANCELLED, "Cancelled", why)
    count = 1 if view.step > intent.lost_at_step else intent.interruptions + 1
    counted = replace(view, intent=replace(intent, interruptions=count, lost_at_step=view.step))
    if count > MOST_INTERRUPTIONS:
        return take_down(counted, State.FAILED, "Interrupted", f"lost {count} times without progress, last: {why}")
    return take_down(counted, State.WAITING, "Interrupted", why)


def _refused(view: View, why: str) -> Intent:
    """A start that was refused is tried again, after a while that grows."""
    count = view.intent.refusals + 1
    counted = replace(view, intent=replace(view.intent, refusals=count))
    if count > MOST_REFUSALS:
        return take_down(counted, State.FAILED, "Refused", f"refused {count} times in a row, last: {why}")
    back_off = min(2.0 ** (count - 1), LONGEST_BACK_OFF_SECONDS)
    going = take_down(counted, State.WAITING, "Refused", why)
    if going.state is State.WAITING:  # nothing was made yet: it backs off as a job that is still going
        going = replace(
            counted.intent, state=State.STOPPING, draining=True, goal=State.WAITING, target=None,
            since=view.now, saved=False, reason="Refused", message=why,
        )  # fmt: skip
    return replace(going, until=view.now + back_off)
