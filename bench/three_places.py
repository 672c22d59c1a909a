"""The same jobs in three places: a table from three logs, for docs/three-places.md.

headway simulate examples/quickstart.yaml --log sim.log
headway run examples/quickstart.yaml
headway schedule --log kube.log --until-idle …   and   headway submit examples/quickstart.yaml
python bench/three_places.py sim.log examples/.headway/quickstart/run.log kube.log
"""

from __future__ import annotations

import sys
from pathlib import Path

from headway.core.states import State
from headway.record.log import read
from headway.record.metrics import Course, Tally


def main() -> None:
    tallies = [_tally(Path(name)) for name in sys.argv[1:]]
    places = [tally.head.cluster if tally.head else "?" for tally in tallies]
    print("| job | " + " | ".join(f"{place}: started, finished, stops" for place in places) + " |")
    print("|---|" + "---|" * len(places))
    for name in _names(tallies[0]):
        cells = [_cell(tally, name) for tally in tallies]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("| makespan | " + " | ".join(f"{tally.result()['makespan']:.0f} s" for tally in tallies) + " |")
    print("| decisions | " + " | ".join(_decisions(tally) for tally in tallies) + " |")


def _tally(path: Path) -> Tally:
    tally = Tally()
    for line in read(path):
        tally(line)
    return tally


def _names(tally: Tally) -> list[str]:
    return [course.job.id for course in tally.courses.values()]


def _cell(tally: Tally, name: str) -> str:
    course = next((c for c in tally.courses.values() if c.job.id.rpartition("/")[2] == name), None)
    if course is None:
        return "-"
    first = min(other.job.submit for other in tally.courses.values())
    return f"{_second(course.started, first)}, {_end(course, first)}, {course.stops}"


def _second(at: float | None, first: float) -> str:
    return "-" if at is None else f"{at - first:.1f}"


def _end(course: Course, first: float) -> str:
    late = "" if course.job.deadline is None else (" (met)" if course.met else " (missed)")
    return _second(course.ended, first) + late if course.state is State.FINISHED else course.state.name.lower()


def _decisions(tally: Tally) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(tally.result()["decisions"].items()))


if __name__ == "__main__":
    main()
