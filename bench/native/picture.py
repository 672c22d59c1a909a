"""The pictures of docs/proof.md, from what the commands there have measured.

headway experiment native --json > proof.json
python bench/native/training.py --out training.json
python bench/native/picture.py --proof proof.json --training training.json --to docs/images
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

COLOURS = {"native": "#b4532a", "podgroup": "#8a8a8a", "fixed": "#5b8fc9", "headway": "#12437a"}
MARKS = {"native": "s", "podgroup": "|", "fixed": "o", "headway": "D"}
WIDE, ROW = 8.0, 0.36


def slices(told: dict[str, Any], file: Path) -> None:
    """Level 2: the mean completion of each contender in each slice, beside PodGroups'."""
    rows = [one for one in told["slices"] if "podgroup" in one["runs"]]
    figure, axes = plt.subplots(figsize=(WIDE, ROW * len(rows) + 1.5))
    for who in ("native", "fixed", "headway"):
        points = [(one["runs"][who]["ratio"], number) for number, one in enumerate(rows) if who in one["runs"]]
        if not points:
            continue
        axes.scatter(*zip(*points, strict=True), s=44, marker=MARKS[who], color=COLOURS[who], zorder=3,
                     label=told["titles"][who])  # fmt: skip
    axes.axvline(1.0, color=COLOURS["podgroup"], linewidth=1.2)
    axes.set_yticks(range(len(rows)), [f"{one['slice']} ({one['jobs']} jobs)" for one in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    _times(axes, [one["runs"][who]["ratio"] for one in rows for who in MARKS if who in one["runs"]])
    axes.set_xlabel("mean completion time, as a multiple of the native scheduler's with PodGroups (line)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3, frameon=False, fontsize=9)
    _done(figure, axes, file)


def truth(told: dict[str, Any], file: Path) -> None:
    """Level 1: the real scheduler against virtual time, the mean of each slice."""
    figure, axes = plt.subplots(figsize=(WIDE, 3.6))
    for who, colour in COLOURS.items():
        points = [
            (number, 100 * (run["mean"] / run["simulated"] - 1))
            for number, one in enumerate(told["slices"])
            if "simulated" in (run := one["runs"].get(who, {}))
        ]
        if points:
            axes.scatter(*zip(*points, strict=True), s=40, marker=MARKS[who], color=colour, zorder=3,
                         label=told["titles"][who])  # fmt: skip
    axes.axhspan(-5, 5, color="#e8eef5", zorder=0)
    axes.axhline(0, color="#444444", linewidth=0.8)
    axes.set_xticks(range(len(told["slices"])), [one["slice"] for one in told["slices"]], rotation=30, ha="right")
    axes.set_ylabel("the real scheduler against\nvirtual time (%)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=4, frameon=False, fontsize=9)
    _done(figure, axes, file)


def training(kept: dict[str, Any], file: Path) -> None:
    """Level 3: the mean completion of each seed, native and Headway."""
    seeds = sorted({int(name.split()[1]) for name in kept})
    seeds = [seed for seed in seeds if {f"native {seed}", f"headway {seed}"} <= kept.keys()]
    figure, axes = plt.subplots(figsize=(WIDE, ROW * len(seeds) + 1.5))
    for row, seed in enumerate(seeds):
        axes.plot(
            [kept[f"{who} {seed}"]["mean"] for who in ("native", "headway")], [row, row], color="#c8c8c8", zorder=1
        )
    for who in ("native", "headway"):
        axes.scatter([kept[f"{who} {seed}"]["mean"] for seed in seeds], range(len(seeds)), s=50, marker=MARKS[who],
                     color=COLOURS[who], label=who, zorder=3)  # fmt: skip
    axes.set_yticks(range(len(seeds)), [f"seed {seed}" for seed in seeds])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("mean completion time of 12 training jobs in real pods (s)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2, frameon=False, fontsize=9)
    _done(figure, axes, file)


def _times(axes: Axes, values: list[float]) -> None:
    """Plain multiples on a scale of logarithms."""
    offered = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0)
    ticks = [tick for tick in offered if min(values) / 1.2 <= tick <= max(values) * 1.2]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()


def _done(figure: Any, axes: Axes, file: Path) -> None:
    axes.grid(axis="both", color="#ececec", zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    print(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proof", type=Path, help="what headway experiment native --json has printed")
    parser.add_argument("--training", type=Path, help="the file of training.py")
    parser.add_argument("--to", type=Path, default=Path(), help="the folder of the pictures")
    chosen = parser.parse_args()
    if chosen.proof:
        told = json.loads(chosen.proof.read_text())
        slices(told, chosen.to / "proof-slices.png")
        truth(told, chosen.to / "proof-truth.png")
    if chosen.training:
        training(json.loads(chosen.training.read_text()), chosen.to / "proof-training.png")


if __name__ == "__main__":
    main()
