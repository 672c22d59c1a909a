"""Fits the built-in speed profiles to published measurements and prints the coefficients with their errors.

    python bench/fit_profiles.py FOLDER_OF_TRACES

Its output is in src/headway/estimates/models/coefficients.py. The measurements are not part of Headway.
Needs scipy. Errors are medians of |fitted / measured - 1|.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, nnls

MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
TYPES = {"azure": "v100", "dgx": "a100", "quad": "rtx6000", "rtx": "rtx2080ti"}


def rows(path: Path) -> Iterator[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def measured(folder: Path, suffix: str = "") -> np.ndarray:
    """Nodes, replicas, batch per replica, seconds per step."""
    found = []
    for row in rows(folder / f"placements{suffix}.csv"):
        digits = [int(digit) for digit in row["placement"]]
        found.append((len(digits), sum(digits), float(row["local_bsz"]), float(row["step_time"])))
    path = folder / f"scalability{suffix}.csv"
    if path.exists():
        found += [
            (int(row["num_nodes"]), int(row["num_replicas"]), float(row["local_bsz"]), float(row["step_time"]))
            for row in rows(path)
        ]
    return np.array([one for one in found if one[3] > 0])


def step_seconds(p: np.ndarray, nodes: np.ndarray, replicas: np.ndarray, batch: np.ndarray) -> np.ndarray:
    alpha, beta, local, local_more, cross, cross_more, overlap = np.exp(p)
    overlap = 1.0 + 9.0 * overlap / (1.0 + overlap)
    more = np.maximum(replicas - 2, 0)
    sync = np.where(replicas < 2, 1e-8, np.where(nodes > 1, cross + cross_more * more, local + local_more * more))
    return ((alpha + beta * batch) ** overlap + sync**overlap) ** (1 / overlap)


def fit_gangs(folder: Path) -> None:
    for model in MODELS:
        data = measured(folder / "pollux" / "profiles" / model)
        nodes, replicas, batch, seconds = data.T
        best = None
        for start in (-3.0, -5.0):
            first = np.array([start, start - 3, start, start - 3, start + 1, start - 2, 0.0])
            found = least_squares(
                lambda p: np.log(step_seconds(p, nodes, replicas, batch) / seconds), first,  # noqa: B023
                loss="soft_l1", bounds=(-20, 5),
            )  # fmt: skip
            best = found if best is None or found.cost < best.cost else best
        assert best is not None
        error = np.median(np.abs(step_seconds(best.x, nodes, replicas, batch) / seconds - 1))
        p = np.exp(best.x)
        at = float(np.median(batch))
        types = {"t4": 1.0}
        for suffix, name in TYPES.items():
            other = folder / "sia" / "profiles" / model
            if (other / f"placements-{suffix}.csv").exists():
                types[name] = round(_faster(data, measured(other, f"-{suffix}")), 2)
        print(f'    "{model}": AllReduce(compute={p[0] + p[1] * at:.4g}, local={p[2]:.4g}, local_more={p[3]:.4g}, '
              f"cross={p[4]:.4g}, cross_more={p[5]:.4g}, overlap={1 + 9 * p[6] / (1 + p[6]):.3g}),  "
              f"# batch {at:.0f}, {len(data)} points, error {error:.1%}")  # fmt: skip
        print(f"        types {types}")


def _faster(one: np.ndarray, other: np.ndarray) -> float:
    """How much faster one replica is, at equal batches."""
    base = {batch: seconds for _, replicas, batch, seconds in one if replicas == 1}
    there = {batch: seconds for _, replicas, batch, seconds in other if replicas == 1}
    xs, ys = zip(*sorted(base.items()), strict=True)
    ratios = [np.interp(b, xs, ys) / s for b, s in there.items() if xs[0] <= b <= xs[-1]]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def fit_servers(folder: Path) -> None:
    by_model = defaultdict(list)
    for row in rows(folder / "dl2" / "ps_worker_speed.csv"):
        by_model[row["model"]].append(
            (float(row["total_batch"]), int(row["num_ps"]), int(row["num_worker"]), float(row["speed_steps_sum"]))
        )
    for model, points in by_model.items():
        batch, p, w, speed = np.array([one for one in points if one[3] > 0]).T
        seconds = batch / speed
        terms = np.stack([batch / w, np.ones_like(w), w / p, w, p], axis=1)
        found, _ = nnls(terms / seconds[:, None], np.ones_like(seconds))
        error = np.median(np.abs(terms @ found / seconds - 1))
        print(f'    "{model}": Servers({", ".join(f"{c:.4g}" for c in found)}, batch={batch[0]:.0f}),  '
              f"# {len(points)} points, error {error:.1%}")  # fmt: skip


def fit_divided(folder: Path) -> None:
    """One batch divided among all replicas: seconds per step are a/k + b + d·k."""
    for path in sorted((folder / "elasticflow" / "throughputs_A100").glob("*.csv")):
        table = list(rows(path))
        row = table[-1]
        points = [(int(k), 1 / float(v)) for k, v in row.items() if k.isdigit() and v and float(v) > 0]
        k, seconds = np.array(points).T
        terms = np.stack([1 / k, np.ones_like(k), k], axis=1)
        a, b, d = nnls(terms / seconds[:, None], np.ones_like(seconds))[0]
        error = np.median(np.abs(terms @ np.array([a, b, d]) / seconds - 1))
        print(f'    "{path.stem}": Servers({a:.4g}, {b:.4g}, 0.0, {d:.4g}, 0.0, batch=1, inside=1.0),  '
              f"# batch {row['global_batch_size']}, {len(points)} points, error {error:.1%}")  # fmt: skip


def fit_types(folder: Path) -> None:
    with gzip.open(folder / "gavel" / "simulation_throughputs.json.gz") as file:
        table = json.load(file)
    for kind in ("k80", "p100"):
        ratios = [table[kind][job]["null"] / table["v100"][job]["null"] for job in table["v100"]
                  if job.endswith(", 1)") and not job.startswith("('Recommendation")]  # fmt: skip
        print(f"{kind} / v100: {np.exp(np.mean(np.log(ratios))):.3f} over {len(ratios)} models, "
              f"spread {np.exp(np.std(np.log(ratios))):.2f}x")  # fmt: skip


def fit_curves(folder: Path) -> None:
    runs = {row["run_id"]: row["benchmark"] for row in rows(folder / "mlperf" / "runs.csv.gz")}
    by_run = defaultdict(list)
    for row in rows(folder / "mlperf" / "train_loss.csv.gz"):
        by_run[row["run_id"]].append((float(row["iteration"]), float(row["loss"])))
    curves = defaultdict(list)
    for run, points in by_run.items():
        steps, loss = np.array(points).T
        if len(steps) >= 20 and steps[-1] > 0 and np.isfinite(loss).all():
            curves[runs[run]].append((steps / steps[-1], loss / np.median(loss[:3])))
    for model in MODELS:
        path = folder / "pollux" / "profiles" / model
        for file in sorted(path.glob("validation-*.csv"))[:1]:
            metric = np.array([float(row["metric"]) for row in rows(file)])
            loss = metric if metric[-1] < metric[0] else 1 - metric if metric.max() <= 1 else 100 - metric
            if len(loss) > 5:
                curves[model].append((np.arange(1, len(loss) + 1) / len(loss), np.maximum(loss, 0) / loss[0]))
    for name, many in curves.items():
        x, y = (np.concatenate(column) for column in zip(*many, strict=True))
        found = least_squares(lambda b: 1 / (b[0] * x + b[1]) + b[2] - y, [9.0, 1.0, 0.1],  # noqa: B023
                              bounds=([0, 0.05, 0], [1e4, 20, 5]), loss="soft_l1")  # fmt: skip
        b = found.x
        error = np.median(np.abs((1 / (b[0] * x + b[1]) + b[2]) / np.maximum(y, 1e-3) - 1))
        print(f'    "{name}": Curve({b[0]:.4g}, {b[1]:.4g}, {b[2]:.4g}),  # {len(many)} runs, error {error:.1%}')


if __name__ == "__main__":
    traces = Path(sys.argv[1])
    for fit in (fit_gangs, fit_servers, fit_divided, fit_types, fit_curves):
        fit(traces)
