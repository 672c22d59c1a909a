"""`headway experiment learning-curve`: what it prints."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from headway.cli.screen.live import Bars
from headway.cli.screen.tables import TableColumn, fitted
from headway.compare.perform import Workers, perform_all
from headway.experiment.learning.curve import ARMS, CHANGES, ArmCourse, courses_of, itp_windows, own_windows, ratio
from headway.experiment.learning.liar import Moved, moved_by


def learning_curve(*, quick: bool, workers: Workers, as_json: bool, report: Path | None = None, **_: object) -> None:
    """Eight consecutive windows of itp; with `quick`, four small ones of our own."""
    windows = own_windows() if quick else itp_windows()
    arms = [(change, arm) for change in CHANGES for arm in ARMS]
    with Bars([*(f"{change}, {arm}" for change, arm in arms), "a liar"], quiet=as_json) as bars:
        found = perform_all(courses_of, windows, arms, workers, bars.set)
        moved = moved_by(windows, lambda share: bars.set(len(arms), share))
    courses = {(one.change, one.arm): one for one in found}
    told = _told(courses, moved)
    if report is not None:
        report.write_text(json_.dumps(told, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json_.dumps(told))
        return
    _show(courses, moved, told)


def _told(courses: Mapping[tuple[str, str], ArmCourse], moved: list[Moved]) -> dict[str, Any]:
    count = len(courses[CHANGES[0], ARMS[0]].means)
    half = count // 2
    return {
        "windows": count,
        "means": {change: {arm: list(courses[change, arm].means) for arm in ARMS} for change in CHANGES},
        "carried over reset": {change: ratio(courses, change, slice(1, None)) for change in CHANGES},
        "after the swap": {
            "the first window": ratio(courses, "swapped", slice(half, half + 1)),
            "the last window": ratio(courses, "swapped", slice(count - 1, None)),
            "the last window, over frozen": ratio(courses, "swapped", slice(count - 1, None), "frozen"),
        },
        "a liar moves others by": {
            one.lie: {"steps": one.steps, "speeds": one.speeds, "lengths": one.lengths} for one in moved
        },
    }


def _show(courses: Mapping[tuple[str, str], ArmCourse], moved: list[Moved], told: dict[str, Any]) -> None:
    console = Console()
    columns = [TableColumn("profiles", is_text=True), TableColumn("window"), *(TableColumn(arm) for arm in ARMS)]
    rows = [
        ["" if number else change, str(number + 1), *(f"{courses[change, arm].means[number]:,.0f}" for arm in ARMS)]
        for change in CHANGES
        for number in range(told["windows"])
    ]
    console.print(fitted("mean completion, s", columns, rows, console.width))
    for change, value in told["carried over reset"].items():
        print(f"profiles {change}: carried is {value - 1:+.1%} against reset, from the second window on")
    after = told["after the swap"]
    first, last, frozen = (
        after[name] - 1 for name in ("the first window", "the last window", "the last window, over frozen")
    )
    print(f"right after the swap {first:+.1%}; in the last window {last:+.1%}, against frozen {frozen:+.1%}")
    for one in moved:
        print(f"a liar with {one.lie} moves what others are told by {one.max:.1%} at most")
