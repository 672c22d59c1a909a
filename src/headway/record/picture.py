"""A picture of a run: which job ran when and where, and how each loss fell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from headway.core.states import TRAINING, State
from headway.record.metrics import Course, Tally

_SHADES = {
    State.WAITING: ("#d9d9d9", 0.25), State.STARTING: ("#b0b0b0", 0.5), State.RUNNING: (None, 0.6),
    State.SCALING: (None, 0.45), State.RESIZING: (None, 0.45), State.MOVING: ("#e0a030", 0.5),
    State.STOPPING: ("#c05050", 0.5),
}  # fmt: skip
WIDTH_INCHES = 10.0
BARS_INCHES = 7.0
"""Width of the bars, about: a text that is longer than its bar is left out."""
LETTER_INCHES = 0.065
BAD = "#c00000"
"""A missed deadline and a failure."""


def draw(tally: Tally, path: Path) -> Path | None:
    """Writes the picture. Returns its path, or None if matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    courses = list(tally.courses.values())
    figure, (bars, losses) = plt.subplots(
        2, 1, figsize=(WIDTH_INCHES, 2.6 + 0.3 * max(4, len(courses))), height_ratios=[max(4, len(courses)), 6],
        sharex=True, layout="constrained",
    )  # fmt: skip
    end = _end(courses)
    colours = [plt.get_cmap("tab10" if len(courses) <= 10 else "turbo")(share) for share in _shares(len(courses))]
    names = [node.name for node in tally.nodes.nodes] if tally.nodes else []
    for number, (course, colour) in enumerate(zip(courses, colours, strict=True)):
        _bar(bars, number, course, names, colour, end)
    bars.set_yticks(range(len(courses)), [_label(course) for course in courses], fontsize=8)
    bars.set_xlim(0, end)
    bars.invert_yaxis()
    bars.set_title(_title(tally), loc="left", fontsize=10)
    _losses(losses, courses, colours, end)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _end(courses: Sequence[Course]) -> float:
    """The right edge: a little after the last event. A deadline far beyond it takes no room."""
    moments = [ended for course in courses for _, ended, _, _ in course.spans]
    moments += [course.ended for course in courses if course.ended is not None]
    last = max(moments, default=1.0)
    near = [c.job.deadline for c in courses if c.job.deadline is not None and c.job.deadline <= 1.25 * last]
    return 1.03 * max([last, *near, 1e-9])


def _shares(count: int) -> list[float]:
    """Where in the colour map each job's colour is: apart from each other, as many as there are jobs."""
    return [number / 10 for number in range(count)] if count <= 10 else [(n + 0.5) / count for n in range(count)]


def _label(course: Course) -> str:
    return f"{course.job.id} ({course.job.user})" if course.job.user else str(course.job.id)


def _title(tally: Tally) -> str:
    head = tally.head
    if head is None:
        return "run"
    source = head.source.split()[0] if head.source else "run"
    return f"{source}, policy {head.policy}, {head.cluster}"


def _bar(axes: Any, number: int, course: Course, names: list[str], colour: Any, end: float) -> None:
    for begun, ended, state, nodes in course.spans:
        shade, height = _SHADES.get(state, (None, 0.3))
        axes.barh(number, ended - begun, left=begun, height=height, color=shade or colour)
        where = "+".join(sorted({names[node] for role in nodes for node in role}))
        text = f"{sum(len(role) for role in nodes)} on {where}"
        room = (ended - begun) / end * BARS_INCHES
        if state is State.RUNNING and len(text) * LETTER_INCHES < room:
            axes.text((begun + ended) / 2, number, text, ha="center", va="center", fontsize=7, color="white")
    _deadline(axes, number, course, end)
    if course.ended is not None:
        good = course.state is State.FINISHED
        text = " ✓" if good else f" ✗ {course.state.name.lower()}"
        axes.text(course.ended, number, text, va="center", fontsize=8, color="black" if good else BAD, clip_on=False)


def _deadline(axes: Any, number: int, course: Course, end: float) -> None:
    """A black bar; a red one with a word if the deadline was missed; an arrow at the edge if it is far away."""
    deadline = course.job.deadline
    if deadline is None:
        return
    if deadline > end:
        axes.text(end, number, f"deadline {deadline:.0f} s →", ha="right", va="bottom", fontsize=6, color="#606060")
        return
    missed = not course.met and (course.ended is not None or end > deadline)
    axes.plot([deadline] * 2, [number - 0.4, number + 0.4], color=BAD if missed else "black", linewidth=2)
    if missed:
        axes.text(deadline, number - 0.42, "missed", ha="center", va="bottom", fontsize=6, color=BAD)


def _losses(axes: Any, courses: Sequence[Course], colours: Sequence[Any], end: float) -> None:
    """Each curve is labelled at its end. It is broken where the job did not train."""
    axes.set_ylabel("loss")
    axes.set_xlabel("seconds")
    ends = []
    for course, colour in zip(courses, colours, strict=True):
        curve = broken(course)
        if curve:
            axes.plot([at for at, _ in curve], [loss for _, loss in curve], color=colour, linewidth=1.2)
            ends.append((curve[-1], course.job.id, colour))
    values = [loss for course in courses for _, _, loss in course.losses if loss > 0]
    if values and max(values) > 100 * min(values):
        axes.set_yscale("log")
    for (at, loss), name, colour in ends:
        inside = at < 0.9 * end  # else the label goes above the curve, inside the frame
        axes.annotate(name, (at, loss), xytext=(3, 0) if inside else (0, 8), textcoords="offset points", fontsize=7,
                      color=colour, va="center", ha="left" if inside else "right", annotation_clip=False)  # fmt: skip


def broken(course: Course) -> list[tuple[float, float]]:
    """Time and loss of each report, with NaN between two reports where the job did not train in between."""
    pauses = [begun for begun, _, state, _ in course.spans if state not in TRAINING]
    curve: list[tuple[float, float]] = []
    points = [(at, loss) for at, _, loss in course.losses]
    for (at, loss), (later, _) in pairwise([*points, (math.inf, math.nan)] if points else []):
        curve.append((at, loss))
        if later < math.inf and any(at < begun <= later for begun in pauses):
            curve.append((later, math.nan))
    return curve
