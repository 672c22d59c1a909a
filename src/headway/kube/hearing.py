"""What training says, put on its record: progress, acknowledged saves. Words of an earlier attempt are not heard."""

from __future__ import annotations

from headway.core.board import Board
from headway.core.snapshot import Sample
from headway.core.states import OVER, State
from headway.kube.record import Record
from headway.kube.status import Progress
from headway.listen import Connected, Done, Event, Reported, Saved, SaveFailed

SAVING = frozenset({State.MOVING, State.STOPPING})


def hear(record: Record, event: Event, board: Board, now: float, began: float) -> bool:
    """Whether it was news for a policy."""
    if event.attempt != record.intent.attempt:
        return False
    match event:
        case Connected():
            record.dirty |= record.intent.state in SAVING
        case Reported(step=step, loss=loss, total_steps=total):
            return _report(record, event, Sample(record.job.id, now, step, loss, total), began)
        case Done(step=step):
            total = None if record.progress is None else record.progress.total
            return _report(record, event, Sample(record.job.id, now, step, None, total), began)
        case Saved(request=request):
            row = board.row(record.job.id)
            if row is not None and board.state(row) not in OVER:
                board.saved(row, board.trained_seconds(row, now))
            if request == record.request and record.asked:
                record.acknowledged.add((event.role, event.index))
                record.dirty = True
        case SaveFailed(request=request, why=why):
            if request == record.request:
                record.save_failed = why or "it gave no reason"
                record.dirty = True
    return False


def _report(record: Record, event: Reported | Done, sample: Sample, began: float) -> bool:
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


def _restarted(record: Record) -> bool:
    return record.heard_attempt != record.intent.attempt
