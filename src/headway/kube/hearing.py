"""What training says, put on its record: progress, acknowledged saves. Words of an earlier attempt are not heard."""

from __future__ import annotations

from headway.core.board import Board
from headway.core.snapshot import Sample
from headway.core.states import OVER, State
from headway.kube.job.status import Progress
from headway.kube.tracked import Tracked
from headway.progress_server import Connected, Done, Event, Reported, Saved, SaveFailed

SAVING = frozenset({State.MOVING, State.STOPPING})


def hear(record: Tracked, event: Event, board: Board, now: float, began: float) -> bool:
    """Whether it was news for a policy."""
    if event.attempt != record.intent.attempt:
        return False
    match event:
        case Reported(step=step, loss=loss, total_steps=total):
            sample = Sample(record.job.id, now, step, loss, total, event.metric(record.job.target))
            return _report(record, event, sample, began)
        case Done(step=step):
            last = record.sample  # told and not yet passed on: being done must not take its loss away
            total = None if record.progress is None else record.progress.total
            sample = Sample(record.job.id, now, step, None, total)
            sample = last if last is not None and last.step == step else sample
            return _report(record, event, sample, began)
        case Connected(can_save=can_save):
            record.dirty |= record.intent.state in SAVING
            record.savers |= {(event.role, event.index)} if can_save else set()
        case Saved():
            row = board.row(record.job.id)
            if row is not None and board.state(row) not in OVER:
                board.saved(row, board.trained_seconds(row, now))
            _answer(record, event)
        case SaveFailed():
            _answer(record, event)
    return False


def _answer(record: Tracked, event: Saved | SaveFailed) -> None:
    """Only what answers the present request; a checkpoint that a script makes by itself is not one for the gang."""
    error = event.why if isinstance(event, SaveFailed) else None
    answered = record.saves.answered((event.role, event.index), event.request, error)
    record.dirty |= answered != record.saves
    record.saves = answered


def _report(record: Tracked, event: Reported | Done, sample: Sample, began: float) -> bool:
    """Of a job with many replicas one speaks for all; a step that goes backwards within an attempt is no news."""
    record.speaker = record.speaker or (event.role, event.index)
    fresh = record.progress is None or record.progress.first_at == 0.0 or _restarted(record)
    if record.speaker != (event.role, event.index):
        return False
    old, at = record.progress, sample.at + began
    if fresh or old is None:
        record.progress = Progress(
            sample.step, sample.total_steps or record.job.steps, sample.loss, sample.step, at, at
        )
    elif sample.step < old.step:
        return False
    else:
        loss = old.loss if sample.loss is None else sample.loss
        total = sample.total_steps or old.total
        record.progress = Progress(sample.step, total, loss, old.first_step, old.first_at, at)
    record.heard_attempt = event.attempt
    record.sample = sample
    return True


def _restarted(record: Tracked) -> bool:
    return record.heard_attempt != record.intent.attempt
