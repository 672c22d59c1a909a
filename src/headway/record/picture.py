"""A picture of a run: which job ran when and where, and how each loss fell.

A few jobs share one panel of losses, where each curve has its name. Of many jobs each has its loss beside its own bar.
Red means one thing only: a failure or a missed deadline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from headway.core.states import TRAINING, State
from headway.core.text import lasting
from headway.record.metrics import Course, Tally

_SHADES = {
    State.WAITING: ("#d9d9d9", 0.25), State.STARTING: ("#a8a8a8", 0.5), State.RUNNING: (None, 0.62),
    State.SCALING: (None, 0.45), State.RESIZING: (None, 0.45), State.MOVING: ("#e0a030", 0.5),
    State.STOPPING: ("#a8a8a8", 0.5),
}  # fmt: skip
WIDTH_INCHES = 11.0
MARGIN_INCHES = 0.4
LETTER_INCHES = 0.072
"""Width of a letter of 8 points, about."""
SMALL_LETTER_INCHES = 0.062
ROW_INCHES = 0.3
LOSSES_INCHES = 2.6
FEW = 8
"""So many jobs share one panel of losses, each in its own colour."""
COLOURS = ("#3b6fb5", "#e08a1e", "#3f9b57", "#8a63b8", "#8c6d4f", "#c874b2", "#6b7785", "#2aa3b3")
"""None of them is red."""
ONE_COLOUR = "#4f7fb8"
BAD = "#c00000"
LEGEND = "light grey: waiting   dark grey: starting or stopping   │ deadline"
_UNITS = ((600.0, "seconds", 1.0), (18_000.0, "minutes", 60.0), (float("inf"), "hours", 3600.0))


def draw(tally: Tally, path: Path) -> Path | None:
    """Writes the picture. Returns its path, or None if matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    courses = list(tally.courses.values())
    end = _end(courses)
    few = len(courses) <= FEW
    height = ROW_INCHES * max(4, len(courses)) + 1.3 + (LOSSES_INCHES if few else 0.0)
    figure = plt.figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    if few:
        bars, losses = figure.subplots(
            2, 1, sharex=True, height_ratios=[ROW_INCHES * max(4, len(courses)), LOSSES_INCHES]
        )
    else:
        bars, losses = figure.subplots(1, 2, sharey=True, width_ratios=[4, 1])
    colours = COLOURS[: len(courses)] if few else [ONE_COLOUR] * len(courses)
    _bars(bars, tally, courses, colours, end)
    if few:
        _panel(losses, courses, colours, end)
        _axis(losses, end)
    else:
        _beside(losses, courses)
        _axis(bars, end)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _axis(axes: Any, end: float) -> None:
    """Time in the unit that suits the length of the run."""
    word, size = next((word, size) for most, word, size in _UNITS if end < most)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / size:g}")
    if size > 1:
        from matplotlib.ticker import MaxNLocator

        step = size * MaxNLocator(nbins=9).tick_values(0, end / size)[1]
        axes.set_xticks([number * step for number in range(int(end / step) + 1)])
    axes.set_xlabel(f"{word} since the run began")


def _end(courses: Sequence[Course]) -> float:
    """The right edge: a little after the last event. A deadline far beyond it takes no room."""
    moments = [ended for course in courses for _, ended, _, _ in course.spans]
    moments += [course.ended for course in courses if course.ended is not None]
    last = max(moments, default=1.0)
    near = [c.job.deadline for c in courses if c.job.deadline is not None and c.job.deadline <= 1.25 * last]
    return 1.03 * max([last, *near, 1e-9])


def _label(course: Course) -> str:
    return f"{course.job.id} ({course.job.user})" if course.job.user else str(course.job.id)


def _title(tally: Tally, courses: Sequence[Course]) -> str:
    head = tally.head
    if head is None:
        return "run"
    source = head.source.split()[0] if head.source else "run"
    ends = {word: sum(c.state is state for c in courses) for word, state in
            (("finished", State.FINISHED), ("failed", State.FAILED), ("cancelled", State.CANCELLED))}  # fmt: skip
    said = [f"{count} {word}" for word, count in ends.items() if count]
    late = sum(_late(course) for course in courses)
    said += [f"{late} missed a deadline"] if late else []
    return f"{source} under {head.policy}: {len(courses)} jobs, {', '.join(said) or 'none is over'}"


def _late(course: Course) -> bool:
    return course.job.deadline is not None and course.ended is not None and not course.met


# ── bars ────────────────────────────────────────────────────────────────────────────────────────────────────


def _bars(axes: Any, tally: Tally, courses: Sequence[Course], colours: Sequence[str], end: float) -> None:
    names = [node.name for node in tally.nodes.nodes] if tally.nodes else []
    inches = _room(courses)
    for number, (course, colour) in enumerate(zip(courses, colours, strict=True)):
        _bar(axes, (number, end, inches), course, names, colour)
    axes.set_yticks(range(len(courses)), [_label(course) for course in courses], fontsize=8)
    for course, tick in zip(courses, axes.get_yticklabels(), strict=True):
        tick.set_color(BAD if _late(course) or course.state is State.FAILED else "black")
    axes.set_xlim(0, end)
    axes.set_ylim(max(4, len(courses)) - 0.4, -0.7)
    axes.grid(axis="x", color="#eeeeee", zorder=0)
    axes.set_axisbelow(True)
    axes.set_title(f"{_title(tally, courses)}\n", loc="left", fontsize=10)
    axes.text(0, 1.005, LEGEND, transform=axes.transAxes, fontsize=7, color="#606060", va="bottom")


def _room(courses: Sequence[Course]) -> float:
    """Inches that the bars have, about: what the names leave."""
    longest = max((len(_label(course)) for course in courses), default=0)
    whole = WIDTH_INCHES - MARGIN_INCHES if len(courses) <= FEW else (WIDTH_INCHES - MARGIN_INCHES) * 0.8
    return max(1.0, whole - longest * LETTER_INCHES)


def _bar(axes: Any, at: tuple[int, float, float], course: Course, names: list[str], colour: str) -> None:
    number, end, inches = at
    for begun, ended, state, nodes in course.spans:
        shade, height = _SHADES.get(state, (None, 0.3))
        axes.barh(number, ended - begun, left=begun, height=height, color=shade or colour)
        where = "+".join(sorted({names[node] for role in nodes for node in role})) if len(names) > 1 else ""
        count = sum(len(role) for role in nodes)
        text = f"{count} on {where}" if where else f"{count} replica{'s' * (count > 1)}"
        if state is State.RUNNING and (len(text) + 1) * SMALL_LETTER_INCHES < (ended - begun) / end * inches:
            axes.text((begun + ended) / 2, number, text, ha="center", va="center", fontsize=7, color="white")
    verdict, is_bad = _verdict(course)
    _deadline(axes, at, course)
    if course.ended is not None:
        frame = {"facecolor": "white", "edgecolor": BAD, "pad": 1.0, "linewidth": 0.8}
        outside = course.ended + (len(verdict) + 2) * LETTER_INCHES / inches * end <= end
        axes.text(
            course.ended, number, f" {verdict} ", va="center", ha="left" if outside or not is_bad else "right",
            fontsize=8, color=BAD if is_bad else "#303030", fontweight="bold" if is_bad else "normal",
            bbox=None if outside or not is_bad else frame,
        )  # fmt: skip


def _verdict(course: Course) -> tuple[str, bool]:
    """What became of a job, and whether that is bad."""
    if course.state is not State.FINISHED:
        return f"✗ {course.state.name.lower()}", course.state is State.FAILED
    if course.job.deadline is not None and course.ended is not None and not course.met:
        return f"✗ missed by {_duration(course.ended - course.job.deadline)}", True
    return "✓", False


def _duration(seconds: float) -> str:
    return lasting(seconds) if seconds >= 10 else f"{seconds:.2g} s"


def _deadline(axes: Any, at: tuple[int, float, float], course: Course) -> None:
    """A black mark; a red one if the deadline was missed; a word at the edge if it is far away."""
    (number, end, _), deadline = at, course.job.deadline
    if deadline is None:
        return
    if deadline > end:
        axes.text(end, number - 0.3, f"deadline {_duration(deadline)} → ", ha="right", va="center", fontsize=6,
                  color="#606060")  # fmt: skip
        return
    missed = not course.met and (course.ended is not None or end > deadline)
    axes.plot([deadline] * 2, [number - 0.45, number + 0.45], color=BAD if missed else "black", linewidth=2.5)


# ── losses ──────────────────────────────────────────────────────────────────────────────────────────────────


def _panel(axes: Any, courses: Sequence[Course], colours: Sequence[str], end: float) -> None:
    """All curves in one panel, each with its name at its end. Names keep apart from each other."""
    axes.set_ylabel("loss")
    axes.grid(color="#eeeeee")
    ends = []
    for course, colour in zip(courses, colours, strict=True):
        curve = broken(course)
        if curve:
            axes.plot([at for at, _ in curve], [loss for _, loss in curve], color=colour, linewidth=1.3)
            ends.append((curve[-1], str(course.job.id), colour))
    values = [loss for course in courses for _, _, loss in course.losses if loss > 0]
    if values and max(values) > 100 * min(values):
        axes.set_yscale("log")
    low, high = axes.get_ylim()
    for (at, loss), name, colour, lift in lifted(ends, (low, high), end, log=axes.get_yscale() == "log"):
        inside = at < 0.88 * end
        axes.annotate(
            name, (at, loss), xytext=(4 if inside else -2, lift), textcoords="offset points", fontsize=7, color=colour,
            va="center", ha="left" if inside else "right", annotation_clip=False,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5} if lift > 8 else None,
        )  # fmt: skip


End = tuple[tuple[float, float], str, str]


def lifted(
    ends: Sequence[End], limits: tuple[float, float], end: float, *, log: bool
) -> list[tuple[tuple[float, float], str, str, float]]:
    """Each end with the points by which its name is lifted, so that no two names are on each other."""
    points = 72 * (LOSSES_INCHES - 0.7)
    width = WIDTH_INCHES - 1.5

    def height(loss: float) -> float:
        low, high, value = (math.log(v) if log else v for v in (*limits, loss))
        return (value - low) / (high - low or 1.0) * points

    taken: list[tuple[float, float, float]] = []
    found = []
    for (at, loss), name, colour in sorted(ends, key=lambda one: one[0][1]):
        size = (len(name) + 1) * SMALL_LETTER_INCHES / width * end
        left = at if at < 0.88 * end else at - size
        lift = 3.0 if at < 0.88 * end else 8.0
        while any(abs(height(loss) + lift - other) < 8.5 and left < right and begin < left + size
                  for begin, right, other in taken):  # fmt: skip
            lift += 2.0
        taken.append((left, left + size, height(loss) + lift))
        found.append(((at, loss), name, colour, lift))
    return found


def _beside(axes: Any, courses: Sequence[Course]) -> None:
    """The loss of each job in its own row, from its first start to its end, with the first and the last value."""
    axes.set_title("loss: first → last\n", loc="left", fontsize=9)
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.tick_params(labelleft=False, left=False)
    for number, course in enumerate(courses):
        curve = broken(course)
        known = [loss for _, loss in curve if not math.isnan(loss)]
        if not known:
            continue
        begun, over = curve[0][0], max(curve[-1][0], curve[0][0] + 1e-9)
        low, high = min(known), max(known)
        xs = [0.02 + 0.5 * (at - begun) / (over - begun) for at, _ in curve]
        ys = [number + 0.33 - 0.66 * (loss - low) / (high - low or 1.0) for _, loss in curve]
        axes.plot(xs, ys, color=BAD if course.state is State.FAILED else ONE_COLOUR, linewidth=1.1)
        axes.text(0.56, number, f"{known[0]:.3g} → {known[-1]:.3g}", va="center", fontsize=7)


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
