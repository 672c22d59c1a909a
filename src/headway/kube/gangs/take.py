"""Gives a gang one fact. Pure, without effects. What is late, doubled or of another attempt changes nothing."""

from __future__ import annotations

import math

from headway.core.gang import ReplicaKey, SaveRound
from headway.core.job import Can
from headway.core.plan import Scale
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.kube.api.errors import ApiError, Conflict, Denied, Forbidden, Invalid, NotFound, OverQuota, Unreachable
from headway.kube.gangs.gang import THAWED, Around, Gang, Pause, Reports, Saving, StartFacts, TrainingProgress
from headway.kube.gangs.intent import NAME_TAKEN, QUOTA_FULL, begun
from headway.kube.gangs.messages import (
    Answered,
    Decided,
    Edited,
    Explained,
    Faulted,
    Heard,
    HeldMore,
    LeftBoard,
    LookedAt,
    Message,
    NodesFound,
    NoNodes,
    NoPlace,
    Placed,
    PodGone,
    PodSeen,
    Rebooked,
    Sampled,
    SaveAsked,
    SaveByTime,
    SizeTold,
    StatusLost,
    StatusRefused,
    StatusWritten,
    TermsFound,
    Unbookable,
    UsageSeen,
    Withdrawn,
)
from headway.kube.gangs.model import (
    ApiRefusal,
    Bind,
    Create,
    Delete,
    Publish,
    Release,
    ResizePod,
    SetCondition,
    Touch,
    Ungate,
)
from headway.kube.gangs.outcome import take_down
from headway.kube.intake.changes import under
from headway.kube.pods.replica import Replica
from headway.kube.values import replace
from headway.progress_server import Connected, Done, Reported, Saved, SaveFailed

STATUS_REST_SECONDS = 15.0
"""After this a status that the server refused is written again."""


def take(gang: Gang, message: Message) -> Gang:  # noqa: PLR0911  one line a message
    match message:
        case PodSeen(pod=pod):
            return gang if _is_known(gang, pod) else replace(gang, pods={**gang.pods, pod.uid: pod})
        case PodGone(uid=uid):
            return _lose(gang, uid)
        case Answered():
            return _answered(gang, message)
        case Heard(event=event, now=now):
            return _heard(gang, event, now)
        case Decided():
            return _decided(gang, message)
        case Edited():
            return _edited(gang, message)
        case Withdrawn():
            return replace(gang, terms=replace(gang.terms, withdrawn=True), frozen=THAWED)
        case Faulted(why=why, now=now, again=again):
            return gang.freezes(why, now, again=again)
    return _told(_explained(_booked(gang, message), message), message)


def _is_known(gang: Gang, pod: Replica) -> bool:
    known = gang.pods.get(pod.uid)
    return known is not None and known == pod and known.version == pod.version


def _told(gang: Gang, message: Message) -> Gang:  # noqa: PLR0911  one line a message
    """What was said to others of it, and what others said to it."""
    saving = gang.saving
    match message:
        case StatusWritten(intent=intent, progress=progress, usage=usage, expected=expected):
            told = replace(gang.written, intent=intent, progress=progress, usage=usage, expected=expected)
            return replace(gang, written=replace(told, rest_until=-math.inf))
        case StatusRefused(now=now):
            return replace(gang, written=replace(gang.written, rest_until=now + STATUS_REST_SECONDS))
        case StatusLost():
            return gang.told_again()
        case SaveAsked(replicas=replicas):
            return replace(gang, saving=replace(saving, round=replace(saving.round, asked=replicas)))
        case SaveByTime(replicas=replicas, now=now):
            begun = replace(saving.round.next(), asked=replicas)
            return replace(gang, saving=replace(saving, round=begun, asked_at=now))
        case SizeTold():
            return replace(gang, saving=replace(saving, size_changed=True))
        case Sampled():
            return replace(gang, reports=replace(gang.reports, sample=None))
        case UsageSeen(usage=usage):
            return replace(gang, usage=usage)
        case LeftBoard(history=history):
            return replace(gang, history=history)
    return gang


def _booked(gang: Gang, message: Message) -> Gang:  # noqa: PLR0911  one line a message
    """What it holds, and where."""
    match message:
        case Rebooked(booking=booking) if gang.waits:
            gang = replace(gang, rules=booking.rules)
            return gang if booking.job == gang.job else replace(gang, job=booking.job, explained_at=-math.inf)
        case Unbookable(why=why):
            return replace(gang, refusal=ApiRefusal(why, permanent=True))
        case NodesFound(target=target, excused=excused, avoided=avoided):
            start = replace(gang.start, excused=gang.start.excused | excused, avoided=gang.start.avoided | avoided)
            return replace(gang, wanted=replace(gang.wanted, target=target), start=replace(start, lacking={}))
        case NoNodes(why=why, now=now):
            gang = replace(gang, start=replace(gang.start, lacking={}))
            return gang.becomes(take_down(gang.view(Around(), now), State.WAITING, "Released", why))
        case HeldMore(job=job, refusal=refusal):
            return replace(gang, job=job, refusal=refusal or gang.refusal)
        case TermsFound(pending=pending):
            return replace(gang, terms=replace(gang.terms, pending=pending))
    return gang


def _explained(gang: Gang, message: Message) -> Gang:
    """Why it waits."""
    match message:
        case LookedAt(now=now):
            return replace(gang, looked_at=now)
        case Placed():
            return replace(gang, pause=Pause(again=gang.pause.again))
        case NoPlace(now=now):
            gang = replace(gang, pause=gang.pause.another(now, resting=gang.waits))
    if isinstance(message, NoPlace | Explained) and gang.waits:
        wanted = replace(gang.wanted, reason=message.reason, message=message.message)
        helps, expected = ((), gang.expected) if isinstance(message, NoPlace) else (message.helps, message.expected)
        return replace(gang, wanted=wanted, explained_at=message.now, helps=helps, expected=expected)
    return gang


def _lose(gang: Gang, uid: str) -> Gang:
    if uid not in gang.pods and uid not in gang.unproven:
        return gang
    pods = {other: pod for other, pod in gang.pods.items() if other != uid}
    unproven = gang.unproven - {uid}
    frozen = THAWED if gang.unproven and not unproven else gang.frozen  # nothing is left that proves nothing
    reports, here = gang.reports, frozenset((pod.role, pod.index) for pod in pods.values())
    if reports.reporter not in here:
        reports = replace(reports, reporter=None)
    saving = replace(gang.saving, savers=gang.saving.savers & here)
    return replace(gang, pods=pods, unproven=unproven, frozen=frozen, reports=reports, saving=saving)


def _decided(gang: Gang, message: Decided) -> Gang:
    action, target, now = message.action, message.target, message.now
    new = begun(gang.wanted, action, target, now, message.timeouts)
    if isinstance(action, Scale) and gang.job.saves_itself:
        new = replace(new, attempt=new.attempt + 1)
    gang = gang.becomes(new)
    saving = gang.saving if new.state is State.STOPPING else replace(gang.saving, round=gang.saving.round.next())
    published = gang.start.published
    return replace(gang, saving=saving, start=StartFacts(published=published), pause=replace(gang.pause, resting=False))


# ── its user ──


def _edited(gang: Gang, edit: Edited) -> Gang:
    """A change that is refused is told, and the old terms go on."""
    terms = replace(gang.terms, orders=edit.orders)
    if edit.raw == terms.raw:
        return gang if terms == gang.terms else replace(gang, terms=terms, frozen=THAWED)
    terms = replace(terms, raw=edit.raw, refused=edit.refused)
    if edit.asked is not None:
        wanted = under(gang.job, edit.asked)
        pending = None if wanted == gang.job else wanted
        terms = replace(terms, spec=edit.spec, pending=pending, stays=False)
    changed = terms.refused != gang.terms.refused
    gang = replace(gang, terms=terms, frozen=THAWED)
    return gang.told_again() if changed else gang


def may_stop(gang: Gang) -> bool:
    """Whether it can be saved and stopped for its new size."""
    return gang.job.checkpoints and bool(gang.job.can & Can.STOP) and bool(gang.saving.savers)


# ── training ──


def _heard(gang: Gang, event: object, now: float) -> Gang:  # noqa: PLR0911  one line a message
    """Messages of earlier attempts, and of replicas without a pod, are ignored."""
    if not hears(gang, event):
        return gang
    replica: ReplicaKey = (event.role, event.index)  # type: ignore[attr-defined]
    saving = gang.saving
    match event:
        case Reported(step=step, loss=loss, total_steps=total, attempt=attempt):
            sample = Sample(gang.job.id, now, step, loss, total, event.metric(gang.job.target))
            return replace(gang, reports=_reported(gang.reports, replica, attempt, sample, gang.job.steps))
        case Done(step=step, attempt=attempt):
            last, progress = gang.reports.sample, gang.reports.progress
            sample = Sample(gang.job.id, now, step, None, None if progress is None else progress.total)
            sample = last if last is not None and last.step == step else sample  # "done" must not remove its loss
            return replace(gang, reports=_reported(gang.reports, replica, attempt, sample, gang.job.steps))
        case Connected(can_save=True):
            return replace(gang, saving=replace(saving, savers=saving.savers | {replica}))
        case Saved(request=request):
            return replace(gang, saving=_saved(saving, saving.round.answered(replica, request), event, now))
        case SaveFailed(request=request, why=why):
            return replace(gang, saving=replace(saving, round=saving.round.answered(replica, request, why)))
    return gang


def _saved(old: Saving, answered: SaveRound, event: Saved, now: float) -> Saving:
    new = replace(old, round=answered)
    if old.round.is_complete or not answered.is_complete:
        return new
    took = now - old.asked_at if event.seconds is None else event.seconds
    known = (*old.seconds, took)[-3:] if took < math.inf else old.seconds
    return replace(new, asked_at=now, seconds=known)


def hears(gang: Gang, event: object) -> bool:
    """Whether one of its pods is this replica of this attempt: only such a one is heard."""
    attempt = gang.wanted.attempt
    if getattr(event, "attempt", None) != attempt or gang.is_over:
        return False
    replica = (event.role, event.index)  # type: ignore[attr-defined]
    return any((pod.role, pod.index) == replica and pod.attempt == attempt for pod in gang.pods.values())


def _reported(old: Reports, replica: ReplicaKey, attempt: int, sample: Sample, steps: int | None) -> Reports:
    """Reports of one replica count. A step that goes backwards within an attempt is ignored."""
    reporter = old.reporter or replica
    if reporter != replica:
        return old
    known = old.progress
    if known is None or old.attempt != attempt:
        progress = TrainingProgress(sample.step, sample.total_steps or steps, sample.loss, sample.at, attempt)
    elif sample.step < known.step:
        return replace(old, reporter=reporter)
    else:
        loss = known.loss if sample.loss is None else sample.loss
        progress = TrainingProgress(sample.step, sample.total_steps or known.total, loss, sample.at, attempt)
    return Reports(progress, attempt, reporter, sample)


# ── answers ──


def _answered(gang: Gang, answer: Answered) -> Gang:
    """What became of a request, as far as the pods themselves will not show it."""
    action, error = answer.action, answer.error
    if isinstance(action, SetCondition):
        refused = (action.uid, action.why) if error is not None else gang.written.condition
        return replace(gang, written=replace(gang.written, condition=refused))
    if error is None:
        return _done(gang, answer)
    if isinstance(action, Bind | Ungate | ResizePod) and isinstance(error, NotFound):
        return _lose(gang, action.uid)  # it was deleted meanwhile: the gang lacks it
    if isinstance(error, Unreachable | Forbidden) or isinstance(action, Delete | Touch):
        return gang  # the door asks again, or nothing depends on it
    if gang.waits or not _is_of_now(gang, action):
        return gang
    return _binding_refused(gang, error) if gang.is_foreign else replace(gang, refusal=_refusal(action, error))


def _is_of_now(gang: Gang, action: object) -> bool:
    """Whether it was asked for a pod of the present attempt."""
    if isinstance(action, Bind | Ungate | ResizePod):
        pod = gang.pods.get(action.uid)
        return pod is not None and pod.attempt == gang.wanted.attempt
    return not isinstance(action, Create) or action.attempt == gang.wanted.attempt


def _done(gang: Gang, answer: Answered) -> Gang:
    match answer.action:
        case Delete(uid=uid) | Ungate(uid=uid) | ResizePod(uid=uid) if answer.gone:
            return _lose(gang, uid)
        case Bind(uid=uid, node=node) if uid in gang.pods and not answer.seen:
            bound = replace(gang.pods[uid], bound=True, node=node)
            return replace(gang, pods={**gang.pods, uid: bound})
        case Publish():
            return replace(gang, start=replace(gang.start, published=gang.wanted.attempt))
        case Release(name=name):
            return replace(gang, start=replace(gang.start, released=gang.start.released | {name}))
    return gang


def _refusal(action: object, error: ApiError) -> ApiRefusal:
    assert isinstance(action, Publish | Release | Create | Bind | ResizePod)
    permanent = isinstance(error, Invalid | Denied) and isinstance(action, Create)
    what = "service" if isinstance(action, Publish) else "configmap" if isinstance(action, Release) else "pod"
    verb = type(action).__name__.removesuffix("Pod").lower()
    if isinstance(error, Conflict) and isinstance(action, Create):
        why = f"pod {action.name} is in the way: Headway did not make it; the next start has another name"
        return ApiRefusal(why, waits=NAME_TAKEN)
    why = f"{verb} of {what} {action.name} was refused: {error.message}"[:500]
    return ApiRefusal(why, permanent, QUOTA_FULL if isinstance(error, OverQuota) else "")


def _binding_refused(gang: Gang, error: ApiError) -> Gang:
    """A pod of others could not be bound, or its gate not be lifted: they wait again."""
    if gang.state is not State.STARTING or all(pod.bound for pod in gang.pods.values()):
        return gang
    return replace(gang, refusal=ApiRefusal(str(error)))
