"""How well did a run go? Computed from the lines of its log and from nothing else, so that all clusters are judged alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.states import OVER, State
from headway.record.lines import Change, CycleLine, End, Head, JobLine, Line, NodesLine, unpack_job


@dataclass(slots=True)
class Course:
    """One job's way through the run."""

    job: Job
    state: State = State.WAITING
    started: float | None = None
    ended: float | None = None
    trained: float = 0.0
    stops: int = 0
    note: str = ""
    """The last that the cluster had to say of it."""
    spans: list[tuple[float, float, State, tuple[tuple[int, ...], ...]]] = field(default_factory=list)
    """From, to, state, nodes per role: for pictures."""
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


class Tally:
    """Reads lines as they are written, or again from a file."""

    def __init__(self, *, courses: bool = False) -> None:
        self.head: Head | None = None
        self.courses: dict[int, Course] = {}
        self.nodes: Nodes | None = None
        self.now = 0.0
        self.complete = False
        self.decisions: dict[str, int] = {}
        self.refused = 0
        self._keep = courses
        self._open: dict[int, tuple[float, State, tuple[tuple[int, ...], ...]]] = {}
        self._held: dict[int, np.ndarray[Any, Any]] = {}
        self._total: np.ndarray[Any, Any] = np.zeros(0)
        self._area: np.ndarray[Any, Any] = np.zeros(0)
        self._serial_of: dict[str, int] = {}

    def __call__(self, line: Line) -> None:
        match line:
            case CycleLine():
                self._cycle(line)
            case JobLine():
                job = unpack_job(line.job)
                if job.id not in self._serial_of:
                    self._serial_of[job.id] = line.serial
                    self.courses[line.serial] = Course(job)
            case NodesLine():
                self.nodes = Nodes.of(line.nodes, line.kinds)
                grown = len(self.nodes.kinds) - len(self._total)
                self._total = np.concatenate([self._total, np.zeros(max(0, grown))])
                self._area = np.concatenate([self._area, np.zeros(max(0, grown))])
            case Head():
                self.head = self.head or line
            case End():
                self.now, self.complete = line.now, True

    def _cycle(self, line: CycleLine) -> None:
        self._area += self._total * (line.now - self.now)
        self.now = line.now
        for change in line.changed:
            self._change(change)
        for job, sentence in line.notes:
            if job in self._serial_of:
                self.courses[self._serial_of[job]].note = sentence
        for packed in line.plan:
            self.decisions[packed[0]] = self.decisions.get(packed[0], 0) + 1
        self.refused += len(line.refused)
        if self._keep:
            for job, at, step, loss, _total in line.samples:
                if loss is not None and job in self._serial_of:
                    self.courses[self._serial_of[job]].losses.append((at, step, loss))

    def _change(self, change: Change) -> None:
        course, state = self.courses[change.serial], State(change.state)
        course.started, course.stops, course.trained = change.first_start, change.stops, change.attained
        course.state = state
        course.ended = change.since if state in OVER else None
        self._hold(change, course.job)
        if self._keep:
            self._span(change, course, state)

    def _hold(self, change: Change, job: Job) -> None:
        assert self.nodes is not None
        held = np.zeros(len(self._total))
        if change.placement is not None:
            requests = change.placement[1] if len(change.placement) > 1 else [None] * len(job.roles)
            for role, nodes, vector in zip(job.roles, change.placement[0], requests, strict=True):
                amounts = vector if vector is not None else self.nodes.vector(role.request)
                if amounts is not None:
                    held[: len(amounts)] += len(nodes) * np.asarray(amounts)
        before = self._held.pop(change.serial, None)
        self._total = self._total + held - (0 if before is None else before)
        if held.any():
            self._held[change.serial] = held

    def _span(self, change: Change, course: Course, state: State) -> None:
        opened = self._open.pop(change.serial, None)
        if opened is not None:
            course.spans.append((opened[0], change.since, opened[1], opened[2]))
        if state not in OVER:
            placement = change.placement or (change.flight[0] if change.flight else None)
            nodes = tuple(tuple(role) for role in placement[0]) if placement else ()
            self._open[change.serial] = (change.since, state, nodes)

    def close(self) -> None:
        """Ends the spans that are still open, at the log's last moment."""
        for serial, (begun, state, nodes) in self._open.items():
            self.courses[serial].spans.append((begun, self.now, state, nodes))
        self._open = {}

    def result(self) -> dict[str, Any]:
        courses = list(self.courses.values())
        done = [course for course in courses if course.state is State.FINISHED]
        completion = [course.completion for course in done if course.completion is not None]
        wait = [max(0.0, (course.completion or 0.0) - course.trained) for course in done]
        first = min((course.job.submit for course in courses), default=0.0)
        last = max((course.ended for course in courses if course.ended is not None), default=0.0)
        asked = [course for course in courses if course.job.deadline is not None]
        met = [course for course in asked if course.met]
        return {
            "policy": self.head.policy if self.head else "",
            "cluster": self.head.cluster if self.head else "",
            "jobs": len(courses),
            "finished": len(done),
            "failed": sum(course.state is State.FAILED for course in courses),
            "unfinished": sum(course.state not in OVER for course in courses),
            "jct": _spread(completion),
            "wait": _spread(wait),
            "makespan": last,
            "span": last - first,
            "utilisation": self._utilisation(last),
            "deadlines": {"met": len(met), "total": len(asked)},
            "decisions": self.decisions,
            "refused": self.refused,
            "stops": sum(course.stops for course in courses),
        }

    def _utilisation(self, until: float) -> dict[str, float]:
        if self.nodes is None or until <= 0:
            return {}
        capacity = self.nodes.capacity.sum(axis=1)
        return {
            kind: round(float(self._area[i] / (capacity[i] * until)), 6)
            for i, kind in enumerate(self.nodes.kinds)
            if capacity[i]
        }


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"mean": None, "p50": None, "p95": None, "p99": None}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"mean": float(np.mean(values)), "p50": float(p50), "p95": float(p95), "p99": float(p99)}
