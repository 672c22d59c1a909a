"""One step for one job that raises: the fault is that job's, and the scheduler goes on with all others.

The job's status says so in a sentence, and the step is tried again after a pause. A job for which it fails again and
again is given up: it is Failed, and its pods are deleted. One for which not even that can be done is dropped; from
their next change on, its pods count as those of others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from headway.core.states import OVER, State
from headway.core.text import clean
from headway.kube.api.errors import Faulty
from headway.kube.job.intent import Intent
from headway.kube.tracked import Tracked
from headway.kube.work import ApiWork
from headway.kube.worker import ApiWorker

log = logging.getLogger("headway.kube")
MOST_IN_A_ROW = 5
LONGEST_TEXT = 300
FAULT = "Fault"
"""The reason in the status of such a job."""


def sentence(doing: str, error: BaseException) -> str:
    """Example: `Headway could not go on with this job: KeyError: 'worker' (act.py, line 92)`."""
    text = clean(str(error), LONGEST_TEXT)
    return f"Headway could not {doing}: {type(error).__name__}: {text} ({_last_line(error.__traceback__)})"


def _last_line(trace: TracebackType | None) -> str:
    where = "unknown place"
    while trace is not None:
        where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return where


@dataclass(slots=True)
class Fence:
    worker: ApiWorker
    now: Callable[[], float]
    """The cluster's clock."""
    drop: Callable[[Tracked], None]
    """Follows the job no longer."""

    @contextmanager
    def of(self, job: Tracked, doing: str, *, counts: bool = True) -> Iterator[None]:
        """Runs a step for a job. Whatever it raises is a fault of that job; one that does not count is only logged."""
        try:
            yield
        except Exception as error:
            log.debug("job %s: the trace of its fault", job.job.id, exc_info=True)
            why = sentence(doing, error)
            if counts:
                self.take(job, why)
            elif job.faults == 0:
                log.warning("job %s: %s", job.job.id, why)

    def take(self, job: Tracked, why: str) -> None:
        """Counts a fault: the step is tried again after a pause, the job is given up, or it is dropped."""
        job.faults += 1
        if job.faults > 2 * MOST_IN_A_ROW:
            log.error("job %s is followed no more: %s", job.job.id, why)
            self.drop(job)
            return
        if job.faults > MOST_IN_A_ROW and job.ended is None:
            self._give_up(job, why)
        elif job.faults == 1:
            log.error("job %s: %s", job.job.id, why)
        job.attention.put_off(Faulty(0, why), self.now())
        status = {"reason": FAULT, "message": why, **({"phase": "Failed"} if job.ended is not None else {})}
        if not job.withdrawn and not job.attention.busy:
            job.attention.busy = True
            self.worker.perform(ApiWork(job.meta.uid, job.meta.namespace, job.meta.name, status))

    def _give_up(self, job: Tracked, why: str) -> None:
        log.error("job %s has failed, after %d faults in a row: %s", job.job.id, job.faults, why)
        now = self.now()
        over = Intent(state=State.FAILED, since=now, attempt=job.memory.attempt, reason=FAULT, message=why)
        job.ended, job.memory = over, over.without_board()
        row = job.board.row(job.job.id)
        if row is not None and job.board.state(row) not in OVER:
            job.board.restore(row, State.FAILED, None, None)  # from any state: whatever it holds is free again
            job.board.table.set("since", row, now)
            job.board.note(job.job.id, why)
