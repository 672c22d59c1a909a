"""The next step of a gang: what it becomes, and all that is left to do. Pure; doing it twice does no harm.

Creates and binds carry their own write-ahead: each pod names its gang, signed. A delete waits until the status that
asks for it is written. So a process that is killed between any two requests leaves what the next one understands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from headway.core.plan import Because, Stop
from headway.core.states import IN_FLIGHT, OVER, State
from headway.kube.gangs.act import act
from headway.kube.gangs.fault import FAULT
from headway.kube.gangs.foreign import foreign_step
from headway.kube.gangs.gang import THAWED, Around, Capability, Gang
from headway.kube.gangs.intent import EVICTED, Intent, as_written, begun, limit_of
from headway.kube.gangs.model import (
    Bind,
    Create,
    Delete,
    Effect,
    NextStep,
    PodAction,
    PostEvent,
    Publish,
    ReadLeases,
    Release,
    ResizePod,
    TellSize,
    View,
    WriteStatus,
)
from headway.kube.gangs.observe import gang_verdict, observe, suspects
from headway.kube.gangs.take import may_stop
from headway.kube.intake.changes import has_room
from headway.kube.values import replace

STARTING_SECONDS, QUEUED_SECONDS = 1.0, 10.0
"""A start that takes no longer after its last bind, or in all, is not told: its status says Running next."""
SIZE_CHANGED = "its user changed its size: it saves, stops and starts again"
SIZE_LATER = "its new size counts from its next start: it cannot be saved and stopped"
NEEDS: dict[type, Capability] = {
    Bind: Capability.BIND, Create: Capability.CREATE, Publish: Capability.CREATE, Release: Capability.CREATE,
    Delete: Capability.DELETE, ResizePod: Capability.RESIZE,
}  # fmt: skip


def step(gang: Gang, around: Around, now: float) -> tuple[Gang, tuple[Effect, ...]]:
    if gang.is_foreign:
        return foreign_step(gang, around, now)
    held = gang.unproven or gang.is_frozen(now)
    if held and not (gang.terms.orders.holds_back or gang.terms.withdrawn):
        gang = replace(gang, wake=gang.frozen.again)
        return _told(gang, (), around, now)
    gang = replace(gang, frozen=replace(THAWED, faults=gang.frozen.faults), unproven=frozenset())
    if gang.pause.resting and now >= gang.pause.again:
        gang = replace(gang, pause=replace(gang.pause, resting=False))
    gang = _stopped_for_terms(_under_new_terms(gang), around, now)
    before, view = gang.wanted, gang.view(around, now)
    found = reconcile(view)
    unsure = frozenset[str]() if before.draining else suspects(view)
    effects: list[Effect] = [ReadLeases(unsure)] if unsure else []
    if found.intent != before:
        gang = gang.becomes(found.intent)
        effects += _news(gang, before, found.intent)
        gang = _under_new_terms(gang)  # before a policy sees a job that was stopped to be changed
    gang = _clocked(gang, found.actions, around, now)
    gang = replace(gang, frozen=THAWED, wake=min(found.wake, gang.wanted.until, _rests(gang)))
    actions = [one for one in found.actions if NEEDS.get(type(one), Capability.SAVE) in gang.can]
    gang, told = _told(gang, actions, around, now)
    return gang, (*effects, *told)


def shown(gang: Gang) -> Intent:
    """What its status shows. A frozen one says why."""
    intent = as_written(gang.wanted)
    return replace(intent, reason=FAULT, message=gang.frozen.why) if gang.frozen.why else intent


def is_shown(gang: Gang) -> bool:
    """Whether its written status is as it should be, but for what it reported or uses."""
    told = gang.written
    return shown(gang) == told.intent and (not gang.waits or gang.expected == told.expected)


def _rests(gang: Gang) -> float:
    return gang.pause.again if gang.pause.resting else math.inf


def _told(
    gang: Gang, actions: Iterable[PodAction], around: Around, now: float
) -> tuple[Gang, tuple[Effect, ...]]:  # fmt: skip
    """The actions, deletes only if the status that asks for them is written; and the status, if it is to be."""
    actions, told = list(actions), gang.written
    if gang.terms.withdrawn:
        return gang, tuple(actions)
    changed, deletes = not is_shown(gang), any(isinstance(one, Delete) for one in actions)
    if changed:
        actions = [one for one in actions if not isinstance(one, Delete)]
    after = max(_status_at(gang, around, changed=changed, urgent=deletes), told.rest_until)
    if after > now:
        return replace(gang, wake=min(gang.wake, after)), tuple(actions)
    gang = replace(gang, written=replace(told, at=now))
    return gang, (*actions, WriteStatus(urgent=deletes and changed))


def _status_at(gang: Gang, around: Around, *, changed: bool, urgent: bool) -> float:
    """When its status is to be written; infinite if it is as it should be."""
    intent, progress = gang.wanted, gang.progress_at(around.progress_seconds)
    if not changed or urgent:
        return -math.inf if urgent and changed else progress
    if intent.state is State.WAITING and gang.written.intent is None and not (intent.reason or gang.frozen.why):
        return progress  # nothing is decided about it yet
    if intent.state is State.STARTING and not gang.frozen.why:
        return min(_starting_at(intent, around), progress)
    return -math.inf


def _starting_at(intent: Intent, around: Around) -> float:
    """When a start is told: a while after its last bind, or when it has long been in our own queue."""
    limit = limit_of(intent, around.timeouts)
    if limit is None or not math.isfinite(intent.until):
        return intent.since + QUEUED_SECONDS
    return min(intent.until - limit + STARTING_SECONDS, intent.since + QUEUED_SECONDS)


def _news(gang: Gang, old: Intent, new: Intent) -> list[Effect]:
    effects: list[Effect] = [] if gang.terms.withdrawn else [PostEvent(old, new)]
    if new.state is State.RUNNING and old.state in (State.SCALING, State.RESIZING):
        effects.append(TellSize(new.allocation or ()))
    return effects


def _clocked(gang: Gang, actions: tuple[PodAction, ...], around: Around, now: float) -> Gang:
    """The time limit of a change begins when nothing is left for us to send: our own delay is no refusal."""
    limit = limit_of(gang.wanted, around.timeouts)
    ours = any(isinstance(one, Create | Bind | ResizePod | Publish) for one in actions)
    if limit is None or ours or math.isfinite(gang.wanted.until) or gang.wanted.state not in IN_FLIGHT:
        return gang
    return replace(gang, wanted=replace(gang.wanted, until=now + limit))


# ── intent and pods: the next intent, and actions ──

ASK_AGAIN_SECONDS = 1.0


def reconcile(view: View) -> NextStep:
    """The pods may change the intent; then actions bring the pods to it. Pure: all input is in the view."""
    intent = observe(view)
    if intent != view.intent:
        saves = view.saves.next() if intent.reason == EVICTED and view.intent.reason != EVICTED else view.saves
        view = replace(view, intent=intent, refusal=None, saves=saves)
    resting = intent.state in OVER or intent.state is State.WAITING
    settles = math.inf if resting or intent.draining else gang_verdict(view).until
    # A replica has ended, and the gang rule waits for the others: no action before its verdict.
    actions = () if math.isfinite(settles) else act(view)
    return NextStep(intent, actions, math.inf if resting else min(settles, _wake(view)))


def _wake(view: View) -> float:
    """When to reconcile again even if no pod changes."""
    intent = view.intent
    saving = not intent.saved and intent.state in (State.MOVING, State.STOPPING) and not intent.draining
    again = view.now + ASK_AGAIN_SECONDS if saving and not view.saves.asked else math.inf
    return min(intent.until, again)


# ── new terms ──


def _under_new_terms(gang: Gang) -> Gang:
    """Takes new terms over if the job is in a state for that."""
    pending, intent = gang.terms.pending, gang.wanted
    if pending is None or intent.state not in (State.WAITING, State.RUNNING):
        return gang
    counts = {share.role: len(share.nodes) for share in intent.allocation or ()}
    if intent.state is State.RUNNING and not has_room(pending, counts):
        return gang
    return replace(gang, job=pending, terms=replace(gang.terms, pending=None)).told_again()


def _stopped_for_terms(gang: Gang, around: Around, now: float) -> Gang:
    """Saved and stopped for its new size; once: one that cannot save goes on at its old size."""
    terms = gang.terms
    if terms.pending is None or terms.stays or gang.state is not State.RUNNING:
        return gang
    gang = replace(gang, terms=replace(terms, stays=True))
    if not may_stop(gang):
        return replace(gang, wanted=replace(gang.wanted, message=SIZE_LATER)).told_again()
    stop = begun(gang.wanted, Stop(gang.job.id, Because.SUSPENDED), None, now, around.timeouts)
    return gang.becomes(replace(stop, reason="SizeChanged", message=SIZE_CHANGED))
