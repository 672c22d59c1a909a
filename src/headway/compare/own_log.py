"""The jobs of a log as a trace: what ran, when it came, and how much it trained.

The work of a job is what it trained, in seconds at the size that it asked for. Where it ran at other sizes, the speed
model of the simulation says what they were worth. Jobs that did not finish are left out.
"""

from __future__ import annotations

from pathlib import Path

from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.states import TRAINING, State
from headway.record.lines import Head
from headway.record.log import read
from headway.record.logfile import LogError
from headway.record.metrics import Course, Tally
from headway.sim.speed import ALONE, SpeedOf
from headway.workload.trace import Trace


def is_log(path: Path) -> bool:
    try:
        return isinstance(next(iter(read(path)), None), Head)
    except (LogError, UserError):
        return False


def trace_of_log(path: Path, speed: SpeedOf) -> tuple[Trace, Head]:
    """The finished jobs with the nodes of the log's end, and the log's head."""
    tally = Tally(courses=True)
    for line in read(path):
        tally(line)
    tally.close()
    if tally.head is None or tally.nodes is None:
        raise UserError(f"{path}: there is no run in it")
    done = [course for course in tally.courses.values() if course.state is State.FINISHED and course.trained > 0]
    done.sort(key=lambda course: course.job.submit)
    truth: dict[JobId, float] = {course.job.id: _work(course, tally.nodes, speed) for course in done}
    jobs = {course.job.id: course.job for course in done}
    return Trace(name=path.name, jobs=tuple(jobs.values()), nodes=tally.nodes.nodes, truth=truth), tally.head


def _work(course: Course, nodes: Nodes, speed: SpeedOf) -> float:
    """Seconds at the asked-for size. Only what was kept counts: work that was lost had to be done again."""
    parts = [
        (until - since, _relative(course.job, where, nodes, speed))
        for since, until, state, where in course.spans
        if state in TRAINING and where
    ]
    up = sum(seconds for seconds, _ in parts)
    if not up:
        return course.trained
    return course.trained * sum(seconds * rate for seconds, rate in parts) / up


def _relative(job: Job, where: tuple[tuple[int, ...], ...], nodes: Nodes, speed: SpeedOf) -> float:
    return speed(job, Placement(where), nodes, ALONE)
