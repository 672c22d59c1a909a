"""A picture of a run: which job ran when and where, and how each loss fell."""

from __future__ import annotations

from pathlib import Path

from headway.core.states import State
from headway.record.metrics import Course, Tally

_SHADES = {
    State.WAITING: ("#d9d9d9", 0.25), State.STARTING: ("#b0b0b0", 0.5), State.RUNNING: (None, 0.6),
    State.SCALING: (None, 0.45), State.RESIZING: (None, 0.45), State.MOVING: ("#e0a030", 0.5),
    State.STOPPING: ("#c05050", 0.5),
}  # fmt: skip


def draw(tally: Tally, path: Path) -> Path | None:
    """Writes the picture. Returns its path, or None if matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    courses = list(tally.courses.values())
    figure, (gantt, losses) = plt.subplots(
        2, 1, figsize=(10, 2.2 + 0.55 * len(courses)), height_ratios=[max(2, len(courses)), 4], sharex=True,
        layout="constrained",
    )  # fmt: skip
    names = [node.name for node in tally.nodes.nodes] if tally.nodes else []
    for number, course in enumerate(courses):
        _bar(gantt, number, course, names)
        if course.losses:
            losses.plot([at for at, _, _ in course.losses], [loss for _, _, loss in course.losses],
                        color=f"C{number}", label=course.job.id, linewidth=1.2)  # fmt: skip
    gantt.set_yticks(range(len(courses)), [f"{c.job.id} ({c.job.user})" for c in courses])
    gantt.invert_yaxis()
    gantt.set_title(_title(tally), loc="left", fontsize=10)
    losses.set_ylabel("loss")
    losses.set_xlabel("seconds")
    if any(course.losses for course in courses):
        losses.legend(fontsize=8, ncols=3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _title(tally: Tally) -> str:
    head = tally.head
    return f"{head.source.split()[0]} under {head.policy} on {head.cluster}" if head else "run"


def _bar(axes: object, number: int, course: Course, names: list[str]) -> None:
    for begun, ended, state, nodes in course.spans:
        shade, height = _SHADES.get(state, (None, 0.3))
        axes.barh(number, ended - begun, left=begun, height=height, color=shade or f"C{number}")  # type: ignore[attr-defined]
        if state is State.RUNNING and ended - begun > 2:
            where = "+".join(sorted({names[node] for role in nodes for node in role}))
            count = sum(len(role) for role in nodes)
            axes.text((begun + ended) / 2, number, f"{count} on {where}", ha="center", va="center",  # type: ignore[attr-defined]
                      fontsize=7, color="white")  # fmt: skip
    if course.job.deadline is not None:
        axes.plot([course.job.deadline] * 2, [number - 0.4, number + 0.4], color="black", linewidth=1.5)  # type: ignore[attr-defined]
    if course.ended is not None:
        mark = "✓" if course.state is State.FINISHED else "✗"
        axes.text(course.ended, number, f" {mark}", va="center", fontsize=8)  # type: ignore[attr-defined]
