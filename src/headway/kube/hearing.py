"""Takes in what training says: reports, what it can save, and whether it saved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headway.core.gang import ReplicaKey, to_ask
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.kube.tracked import Tracked
from headway.progress_server import Connected, Done, Event, Reported, Saved, SaveFailed

_SAVING = frozenset({State.MOVING, State.STOPPING})


def hear(job: Tracked, event: Event, now: float) -> bool:
    """Takes in a message; returns whether it is news for a policy. Messages of earlier attempts are ignored."""
    if event.attempt != job.memory.attempt or job.ended is not None:
        return False
    replica, reports = (event.role, event.index), job.reports
    if not _has(job, replica):
        return False
    match event:
        case Reported(step=step, loss=loss, total_steps=total):
            sample = Sample(job.job.id, now, step, loss, total, event.metric(job.job.target))
            return reports.take(replica, event.attempt, sample, job.job.steps)
        case Done(step=step):
            last = reports.sample  # not in a snapshot yet: "done" must not remove its loss
            total = None if reports.progress is None else reports.progress.total
            sample = Sample(job.job.id, now, step, None, total)
            sample = last if last is not None and last.step == step else sample
            return reports.take(replica, event.attempt, sample, job.job.steps)
        case Connected(can_save=can_save):
            job.attention.dirty |= job.state in _SAVING
            job.savers |= {replica} if can_save else set()
        case Saved(request=request):
            job.board.saved(job.row, job.board.trained_seconds(job.row, now))
            _answered(job, replica, request, None)
        case SaveFailed(request=request, why=why):
            _answered(job, replica, request, why)
    return False


def _has(job: Tracked, replica: ReplicaKey) -> bool:
    """Whether one of its pods is this replica of this attempt: only such a one is heard."""
    attempt = job.memory.attempt
    return any((r.role, r.index) == replica and r.attempt == attempt for r in job.replicas.values())


def _answered(job: Tracked, replica: ReplicaKey, request: int | None, error: str | None) -> None:
    answered = job.saves.answered(replica, request, error)
    job.attention.dirty |= answered != job.saves
    job.saves = answered


def ask_to_save(job: Tracked, connected: Iterable[Connected]) -> bool:
    """Chooses the replicas to ask for a checkpoint; `saves` has them. Returns whether there is one."""
    attempt = job.memory.attempt
    there = {(one.role, one.index) for one in connected if one.can_save and one.attempt == attempt}
    present = {(r.role, r.index) for r in job.replicas.values() if r.attempt == attempt and not r.over}
    job.saves = replace(job.saves, asked=to_ask(job.savers, there, present))
    return bool(job.saves.asked)
