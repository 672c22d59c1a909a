"""What an interrupted run left behind in its log."""

from __future__ import annotations

from pathlib import Path

from headway.core.plan import Plan
from headway.record.lines import CycleLine, End, Head, unpack_plan
from headway.record.log import read


def recorded_plans(path: Path, head: Head) -> list[Plan]:
    """The plans of an unfinished log of the very same run; none where it is another run or was completed."""
    if not path.exists():
        return []
    plans: list[Plan] = []
    same = False
    for line in read(path):
        match line:
            case Head():
                same, plans = line == head, []
            case CycleLine() if same:
                plans.append(unpack_plan(line))
            case End():
                return []
    return plans if same else []
