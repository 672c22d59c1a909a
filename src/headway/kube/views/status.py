"""A TrainingJob's status and events, as they are written. `status_read` reads a status back. Pure.

A status has the same size for 2 replicas and for 2,000: it says how many replicas each role has, and the pods
themselves say where they are. The cluster's clock is converted to Unix time here, in `status_read`, and where pods and
submit times are read, and nowhere else.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.estimates import Estimate
from headway.core.gang import ReplicaKey
from headway.core.job import Can, Job
from headway.core.restarts import Losses
from headway.core.snapshot import Snapshot
from headway.core.states import OVER, TRAINING, State
from headway.core.text import lasting
from headway.kube.api.errors import ApiError
from headway.kube.api.objects import LAST_MOMENT, Meta, event, named, timestamp
from headway.kube.gangs.gang import Expected, Gang, TrainingProgress
from headway.kube.gangs.intent import PAUSES, Allocation, Intent
from headway.kube.intake.changes import written_terms
from headway.kube.views.foreseen import Foreseen, between

PHASES = {
    State.WAITING: "Waiting", State.STARTING: "Starting", State.RUNNING: "Running", State.SCALING: "Scaling",
    State.RESIZING: "Resizing", State.MOVING: "Moving", State.STOPPING: "Stopping", State.FINISHED: "Succeeded",
    State.FAILED: "Failed", State.CANCELLED: "Cancelled",
}  # fmt: skip
SUSPENDED = "Suspended"
MOST_NODES = 4
"""So many nodes of a role are named for people."""
MOMENTS = {"firstStart": "first_start", "touched": "touched"}
"""Columns of the board that are points in time: name in the status, name on the board."""
PROGRESS = ("step", "total", "loss", "text", "left", "spread", "basis", "starts", "eta", "done")
"""Of the status."""
_BAD = frozenset({"Interrupted", "Refused", "ProgramFailed", "SaveTimedOut", "SaveFailed", "InvalidSpec",
                  "ScaleRefused", "ScaleTimedOut", "ResizeRefused", "ResizeTimedOut", "Fault"})  # fmt: skip


def phase_of(state: State, *, suspended: bool) -> str:
    """A suspended job is off the board, as if it were cancelled."""
    return SUSPENDED if suspended and state is State.CANCELLED else PHASES[state]


def status_for(gang: Gang, intent: Intent, columns: Mapping[str, float], shown: Shown) -> dict[str, Any]:
    """The gang's whole status: what a restarted scheduler needs, and what users want to see.

    `intent` is what is shown of it.
    """
    training = intent.state in TRAINING
    status = status_of(intent, columns, gang.saving.savers, shown.began, gang.job.queue)
    status["usage"] = _usage(gang) if training else None
    refused = gang.terms.refused
    status |= {"refused": refused or None, "terms": written_terms(gang.job) if refused else None}
    estimate = shown.estimate_of(gang)
    progress = progress_status(gang.reports.progress, estimate, shown.now, shown.began, training=training)
    expected = shown.foreseen.get(gang.job.id) if intent.state in (State.WAITING, State.STARTING) else None
    if expected is not None:
        progress = _with_foreseen(progress, expected, shown.began)
    status |= {"progress": progress, "deadline": _deadline(gang, intent, estimate, shown)}
    if intent.state in OVER:
        return status | {"explained": None}
    said = shown.said if shown.said is not None else ([] if gang.helps else None)
    helps = gang.helps if intent.state is State.WAITING else ()
    return status if said is None else status | {"explained": [*helps, *said] or None}


def _with_foreseen(progress: Any, expected: Expected, began: float) -> Any:
    """When it starts and is done."""
    starts, done = expected
    told = between(done, began)
    if not told:
        return progress
    packed = dict.fromkeys(PROGRESS) if progress is None else progress
    begins = None if starts is None else between(starts, began)
    return packed | {"starts": begins, "eta": f"{timestamp(done[1] + began)[:19]}Z", "done": told}


def _deadline(gang: Gang, intent: Intent, estimate: Estimate | None, shown: Shown) -> dict[str, str] | None:
    """When it is due, and whether it is, or was, done by then."""
    due = gang.job.deadline
    if due is None or not math.isfinite(due) or due + shown.began > LAST_MOMENT:
        return None
    if intent.state in OVER:
        early = due - intent.since
        met = "met" if early >= 0 else f"missed by {lasting(-early)}"
        text = met if intent.state is State.FINISHED else "missed"
    elif shown.now > due:
        text = f"late by {lasting(shown.now - due)} so far"
    elif estimate is None or not math.isfinite(estimate.left) or intent.state not in TRAINING:
        text = f"due in {lasting(due - shown.now)}"
    else:
        spare = due - shown.now - estimate.left
        short = "will be late by {}" if not _may_grow(gang.job, intent) else "{} short at its present size"
        text = f"in time, {lasting(spare)} to spare" if spare >= 0 else short.format(lasting(-spare))
    return {"at": f"{timestamp(due + shown.began)[:19]}Z", "text": text}


def _may_grow(job: Job, intent: Intent) -> bool:
    here = {share.role: len(share.nodes) for share in intent.allocation or ()}
    return bool(job.can & Can.SCALE) and any(role.max > here.get(role.name, role.max) for role in job.roles)


def _usage(gang: Gang) -> dict[str, str] | None:
    """As Kubernetes writes amounts; of all replicas together."""
    if gang.usage is None:
        return None
    return {"cpu": f"{round(1000 * gang.usage.cores)}m", "memory": f"{gang.usage.memory}Mi"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What a status shows beside the gang: the estimate that policies see."""

    snapshot: Snapshot | None
    """The last one with estimates."""
    now: float
    began: float
    said: list[str] | None = None
    """What the policy says about it; None where it was not asked."""
    foreseen: Foreseen = field(default_factory=dict)

    def estimate_of(self, gang: Gang) -> Estimate | None:
        found = self.snapshot
        row = None if found is None else found.jobs.row_of.get(gang.job.id)
        if found is None or row is None or row >= found.jobs.count or gang.is_over:
            return None
        return found.estimates.of(row, self.now)


def status_of(
    intent: Intent, columns: Mapping[str, float], savers: Iterable[ReplicaKey], began: float, queue: str | None = None
) -> dict[str, Any]:
    """The whole status except progress, as a merge patch.

    Every field is there, so that the patch clears old values. `queue` is where the job was admitted; None if it was
    not.
    """
    return {
        "phase": _phase(intent), "attempt": intent.attempt, "allocation": _pack(intent.allocation),
        "target": _pack(intent.target), "since": intent.since + began,
        "until": intent.until + began if math.isfinite(intent.until) else None,
        "goal": phase_of(intent.goal, suspended=intent.suspended) if intent.state is State.STOPPING else None,
        "draining": intent.draining or None, "saved": intent.saved or None,
        "losses": _pack_losses(intent.losses, began),
        "refusals": intent.refusals or None, "declined": intent.declined or None,
        "reason": intent.reason or None, "message": intent.message or None,
        "savers": written_savers(savers), "nodes": _where(intent.allocation or intent.target or ()),
        "history": {name: value + began if name in MOMENTS else value for name, value in columns.items()},
        "replicas": sum(len(one.nodes) for one in intent.allocation or ()),
        "conditions": conditions(intent, began), "marked": True, "admitted": queue,
    }  # fmt: skip


def _phase(intent: Intent) -> str:
    """A job that a full quota or a taken name refused is Waiting for its users, also until it is tried again."""
    pausing = intent.state is State.STOPPING and intent.draining and intent.reason in PAUSES
    return phase_of(State.WAITING if pausing else intent.state, suspended=intent.suspended)


def progress_status(
    progress: TrainingProgress | None, estimate: Estimate | None, now: float, began: float, *, training: bool = True
) -> Any:
    """How far training is, and the estimate that policies see. Only a job that trains has an expected end."""
    if progress is None and estimate is None:
        return None
    packed: dict[str, Any] = dict.fromkeys(PROGRESS)
    if progress is not None:
        packed["step"], packed["total"], packed["loss"] = progress.step, progress.total, _short(progress.loss)
        packed["text"] = f"{progress.step}/{progress.total}" if progress.total else str(progress.step)
    if estimate is None:
        return packed
    packed["basis"] = estimate.sentence
    if math.isfinite(estimate.left):
        packed["left"] = round(estimate.left, 1)
        packed["spread"] = round(estimate.spread, 3) if math.isfinite(estimate.spread) else None
        end = now + estimate.left + began
        if training and end <= LAST_MOMENT:
            packed["eta"] = f"{timestamp(end)[:19]}Z"
            spread = "" if packed["spread"] is None else f" ±{lasting(estimate.spread * estimate.left)}"
            packed["done"] = f"{timestamp(end)[:16].replace('T', ' ')}Z{spread}"
    return packed


def _short(loss: float | None) -> float | None:
    """Four digits that count, as people read it; the log has all of them."""
    return None if loss is None or not math.isfinite(loss) else float(f"{loss:.4g}")


def conditions(intent: Intent, began: float) -> list[dict[str, Any]]:
    up, over = intent.state in TRAINING, intent.state in OVER and not intent.suspended
    suspended = intent.suspended and intent.state in OVER
    reason = intent.reason or intent.state.name.capitalize()
    moment = timestamp(intent.since + began)[:19] + "Z"
    return [
        {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": intent.message,
         "lastTransitionTime": moment}
        for kind, holds in (("Running", up), ("Suspended", suspended), ("Finished", over))
    ]  # fmt: skip


def event_of(meta: Meta, old: Intent, new: Intent, began: float) -> dict[str, Any]:
    """One Kubernetes event for the whole gang: its change of state, and why."""
    if new.state in (State.RUNNING, State.WAITING, *OVER):
        reason = new.reason or new.state.name.capitalize()
    else:
        reason = new.reason if new.draining else new.state.name.capitalize()
    where = new.allocation or new.target or old.allocation or old.target or ()
    places = "; ".join(_where(where))
    words = f"{old.state.name.lower()} to {new.state.name.lower()}"
    message = ". ".join(part for part in (words, new.message, places) if part)
    return event(named(meta), reason, message, new.since + began, warning=reason in _BAD)


def delete_refused(gang: Gang, pod: str, error: ApiError, now: float) -> dict[str, Any]:
    """For users: a pod that must go stays, because the cluster refuses it."""
    about = named(Meta(name=pod, namespace=gang.meta.namespace), "v1", "Pod") if gang.is_foreign else named(gang.meta)
    message = f"pod {pod} cannot be deleted, and is asked for again: {error.message}"
    return event(about, "DeleteRefused", message, now, warning=True)


def event_on_lease(namespace: str, reason: str, message: str, now: float) -> dict[str, Any]:
    """For administrators: about the scheduler itself."""
    about = named(Meta(name="headway", namespace=namespace), "coordination.k8s.io/v1", "Lease")
    return event(about, reason, message, now, warning=reason.endswith("Refused"))


def _pack(allocation: Allocation | None) -> list[dict[str, Any]] | None:
    if allocation is None:
        return None
    return [{"role": one.role, "replicas": len(one.nodes), "amounts": dict(one.amounts)} for one in allocation]


def _where(allocation: Allocation) -> list[str]:
    """For people: a few nodes of each role."""
    return [f"{one.role}: {_some(one.nodes)}" for one in allocation if one.nodes]


def _some(nodes: tuple[str, ...]) -> str:
    """Example: `n1, n2 (3 replicas), n3, n4 and 96 more nodes`."""
    counts = Counter(nodes)
    shown = [f"{node} ({count} replicas)" if count > 1 else node for node, count in counts.most_common(MOST_NODES)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more node{'s' if more > 1 else ''}" if more else "")


def _pack_losses(losses: Losses, began: float) -> dict[str, Any] | None:
    return {"times": [at + began for at in losses.times], "step": losses.step} if losses.times else None


MOST_RANGES = 16
MOST_INDEX = 100_000


def written_savers(savers: Iterable[ReplicaKey]) -> list[str]:
    """For each role, ranges of indices."""
    by_role = itertools.groupby(sorted(savers), key=lambda saver: saver[0])
    return [f"{role} {_text([index for _, index in replicas])}" for role, replicas in by_role]


def read_savers(written: Iterable[str | ReplicaKey]) -> frozenset[ReplicaKey]:
    """The inverse of `written_savers`; an earlier version wrote pairs. Raises ValueError."""
    found: set[ReplicaKey] = set()
    for one in written:
        if isinstance(one, str):
            role, _, text = one.partition(" ")
            found |= {(role, index) for index in _indices(text)}
        else:
            found.add(one)
    return frozenset(found)


def _text(indices: list[int]) -> str:
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    gaps = sorted(range(1, len(ranges)), key=lambda at: ranges[at][0] - ranges[at - 1][1])
    filled = set(gaps[: len(ranges) - MOST_RANGES]) if len(ranges) > MOST_RANGES else set()
    joined: list[list[int]] = []
    for at, one in enumerate(ranges):
        if at in filled:
            joined[-1][1] = one[1]
        else:
            joined.append(list(one))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in joined)


def _indices(text: str) -> Iterable[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not 0 <= begin <= end <= MOST_INDEX:
            raise ValueError(f"savers: {part[:20]!r} is no range of replicas")
        yield from range(begin, end + 1)
