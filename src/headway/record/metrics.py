"""How well a run went, computed from the lines of its log only: all clusters are measured alike.

docs/compare.md defines each figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.states import OVER, State
from headway.record.holdings import Holdings
from headway.record.lines import Change, CycleLine, End, Head, JobLine, Line, NodesLine, unpack_job

_OVER = frozenset(int(state) for state in OVER)
_STATES = tuple(State)
_WAITING = int(State.WAITING)


@dataclass(slots=True)
class Course:
    """What happened to one job in the run."""

    job: Job
    state: State = State.WAITING
    started: float | None = None
    ended: float | None = None
    begun: float | None = None
    """When its first start was begun; it was up at `started`."""
    trained: float = 0.0
    up: float = 0.0
    """Seconds in which its gang ran. Unlike in `trained`, lost work counts."""
    area: float = 0.0
    """Seconds times the amount of the main resource that it held."""
    present: float = 0.0
    """While it lives: the sum over time of jobs present before it came. Afterwards: the mean number during its life."""
    stops: int = 0
    note: str = ""
    """The last note of the cluster about it."""
    spans: list[tuple[float, float, State, tuple[tuple[int, ...], ...]]] = field(default_factory=list)
    """From, to, state, nodes per role; for pictures."""
    losses: list[tuple[float, int, float]] = field(default_factory=list)
    """Time, step, loss as reported."""

    @property
    def met(self) -> bool:
        """Whether it finished by its deadline."""
        deadline = self.job.deadline
        return self.state is State.FINISHED and deadline is not None and (self.ended or 0.0) <= deadline

    @property
    def completion(self) -> float | None:
        return None if self.ended is None else self.ended - self.job.submit

    @property
    def waited(self) -> float | None:
        """Seconds of its life in which its gang did not run."""
        return None if self.ended is None else max(0.0, self.ended - self.job.submit - self.up)

    @property
    def coming_up(self) -> float:
        """Seconds that its processes took to come up, the first time."""
        return 0.0 if self.begun is None or self.started is None else max(0.0, self.started - self.begun)

    @property
    def solo(self) -> float:
        """Seconds it takes alone at the asked-for size: as declared, otherwise as it ran."""
        return self.up if self.job.seconds is None else self.job.seconds


Worth = Mapping[JobId, tuple[tuple[float, float], ...]]


class Tally:
    """Reads log lines as they are written, or from a file.

    `courses` keeps each job's states and losses, `stays` every stay on a node: for pictures and reports. `worth` is for
    jobs whose value falls in steps: seconds after submission, and the value of being done by then.
    """

    def __init__(self, *, courses: bool = False, stays: bool = False, worth: Worth | None = None) -> None:
        self.head: Head | None = None
        self.worth = worth or {}
        self.trained: Mapping[str, Any] = {}
        """How often a trained policy was asked and decided, from whoever ran it: no line of the log says it."""
        self.courses: dict[int, Course] = {}
        self.nodes: Nodes | None = None
        self.holdings = Holdings(keep=stays)
        self.now = 0.0
        self.cycles = 0
        self.over = 0
        self.complete = False
        self.decisions: dict[str, int] = {}
        self.refused = 0
        self._keep = courses
        self._fresh_nodes: Nodes | None = None
        self._open: dict[int, tuple[float, State, tuple[tuple[int, ...], ...]]] = {}
        self._serial_of: dict[str, int] = {}
        self._before: dict[int, int] = {}
        """Arrival number of a job to that of the living job of its name that came before."""
        self._replaced: set[int] = set()
        """Arrival numbers of jobs that were edited while they lived, and live on under another number."""

    def __call__(self, line: Line) -> None:
        match line:
            case CycleLine():
                self._cycle(line)
            case JobLine():
                self._job(line.serial, unpack_job(line.job))
            case NodesLine():
                newest = self._fresh_nodes or self.nodes
                self._fresh_nodes = Nodes.of(line.table(() if newest is None else newest.nodes), line.kinds)
                if self.nodes is None:
                    self._take_nodes()
            case Head():
                self.head = self.head or line
            case End():
                self.now, self.complete = max(self.now, line.now), True

    def _job(self, serial: int, job: Job) -> None:
        """A resumed run writes it again, edited perhaps; a name may be used again."""
        before, self._serial_of[job.id] = self._serial_of.get(job.id), serial
        if serial in self.courses:
            self.courses[serial].job = job
            self.holdings.edit(serial, serial, job)
        elif serial not in self._replaced:
            self.courses[serial] = Course(job, present=-1.0)
            if before in self.holdings.stays:
                self._before[serial] = before

    def _cycle(self, line: CycleLine) -> None:
        changed, holdings, now = line.changed, self.holdings, line.now
        self.cycles += 1
        if self.cycles == 1:
            holdings.advance(now)
        for change in changed if len(changed) < 2 else sorted(changed, key=_since):
            if self._fresh_nodes is not None and change.since >= now:
                holdings.advance(now)
                self._take_nodes()
            self._change(change)
        holdings.advance(now)
        if self._fresh_nodes is not None:
            self._take_nodes()
        self.now = now
        if line.used_cpu:
            for serial, cores in line.used_cpu:
                if serial in holdings.stays:
                    holdings.use(serial, cores)
        for packed in line.plan:
            self._decided(packed, now)
        if line.notes or line.refused or (self._keep and line.samples):
            self._remarks(line)

    def _decided(self, packed: list[Any], now: float) -> None:
        kind, serial = packed[0], self._serial_of[packed[1]]
        self.decisions[kind] = self.decisions.get(kind, 0) + 1
        self.holdings.decided(serial, packed, now)
        if kind == "start" and self.courses[serial].started is None:
            self.courses[serial].begun = now

    def _take_nodes(self) -> None:
        """Nodes change at the time of the cycle that follows their line, not before."""
        assert self._fresh_nodes is not None
        self.nodes, self._fresh_nodes = self._fresh_nodes, None
        self.holdings.set_nodes(self.nodes)

    def _remarks(self, line: CycleLine) -> None:
        self.refused += len(line.refused)
        for job, sentence in line.notes:
            if job in self._serial_of:
                self.courses[self._serial_of[job]].note = sentence
        if self._keep:
            for job, at, step, loss, *_ in line.samples:
                if loss is not None and job in self._serial_of:
                    self.courses[self._serial_of[job]].losses.append((at, step, loss))

    def _change(self, change: Change) -> None:
        if change.serial in self._replaced:
            return
        course, over, holdings = self.courses[change.serial], change.state in _OVER, self.holdings
        self._take_over(change, course)
        if change.since > holdings.now:
            holdings.advance(change.since)
        if course.present < 0:
            holdings.arrive(change.serial, course.job)
            course.present = holdings.present_area
            if change.state == _WAITING and not (change.attained or change.stops or self._keep):
                return
        stay = holdings.changed(change, over=over)
        course.started, course.stops, course.trained = change.first_start, change.stops, change.attained
        course.state = _STATES[change.state]
        if over and stay is not None:
            course.ended, self.over = change.since, self.over + 1
            course.up, course.area = stay.up, stay.area
            life = change.since - course.job.submit
            course.present = (holdings.present_area - course.present) / life if life > 0 else 1.0
        if self._keep:
            self._span(change, course, course.state)

    def _take_over(self, change: Change, course: Course) -> None:
        """A job that comes as one that has trained, and whose name lives already, is that job under other terms."""
        before = self._before.pop(change.serial, None)
        if before is None or (change.state == _WAITING and not (change.attained or change.stops)):
            return
        old = self.courses.pop(before)
        self._replaced.add(before)
        course.present, course.spans, course.losses, course.note = old.present, old.spans, old.losses, old.note
        course.begun = old.begun
        if before in self._open:
            self._open[change.serial] = self._open.pop(before)
        self.holdings.edit(before, change.serial, course.job)

    def _span(self, change: Change, course: Course, state: State) -> None:
        opened = self._open.pop(change.serial, None)
        if opened is not None:
            course.spans.append((opened[0], change.since, opened[1], opened[2]))
        if state not in OVER:
            placement = change.placement or (change.flight[0] if change.flight else None)
            nodes = tuple(tuple(role or ()) for role in placement[0]) if placement else ()
            self._open[change.serial] = (change.since, state, nodes)

    def close(self) -> None:
        """Ends all open spans at the last moment of the log."""
        for serial, (begun, state, nodes) in self._open.items():
            self.courses[serial].spans.append((begun, self.now, state, nodes))
        self._open = {}
        self.holdings.close(self.now)
        for serial, stay in self.holdings.stays.items():
            self.courses[serial].up, self.courses[serial].area = stay.up, stay.area

    def result(self) -> dict[str, Any]:
        """The figures by their stable names. For an unfinished run: the figures so far."""
        from headway.record.results import result

        self.close()
        return result(self)


def _since(change: Change) -> float:
    return change.since
