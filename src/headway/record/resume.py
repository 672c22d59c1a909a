"""What an interrupted run left behind in its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headway.core.job import Job
from headway.core.plan import Plan
from headway.record.lines import Change, CycleLine, End, Head, JobLine, unpack_job, unpack_plan
from headway.record.log import read


@dataclass(slots=True)
class Left:
    """The state of a run on a real cluster when its log ended."""

    head: Head | None = None
    complete: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    last: dict[int, Change] = field(default_factory=dict)
    now: float = 0.0


def left_behind(path: Path) -> Left:
    """By arrival number: every job and its last change. A resumed run starts a new count."""
    left = Left()
    for line in read(path):
        match line:
            case Head():
                left = Left(line)
            case JobLine():
                left.jobs[line.serial] = unpack_job(line.job)
            case CycleLine():
                left.now = line.now
                for change in line.changed:
                    left.last[change.serial] = change
            case End():
                left.complete = line.unfinished == 0
    return left


@dataclass(frozen=True, slots=True)
class Interrupted:
    """How far an interrupted run came. Empty if there is none."""

    plans: tuple[Plan, ...] = ()
    lines: int = 0


def interrupted(path: Path | None, head: Head) -> Interrupted:
    """What an unfinished log of the same run has; nothing if the log is of another run or is complete."""
    if path is None or not path.exists():
        return Interrupted()
    plans: list[Plan] = []
    lines = 0
    for line in read(path):
        lines += 1
        match line:
            case Head() if lines > 1 or line != head:
                return Interrupted()
            case CycleLine():
                plans.append(unpack_plan(line))
            case End():
                return Interrupted()
    return Interrupted(tuple(plans), lines)
