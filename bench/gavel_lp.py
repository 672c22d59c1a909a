"""Gavel's policies that solve a linear programme, in our simulator, beside what Gavel's simulator prints.

    python bench/gavel_lp.py [--traces DIR]          (needs scipy: pip install 'headway[learn]')

`max_min_fairness_perf`: the least that a job gets, compared with an even share of the cluster, is as large as possible.
`min_total_duration_perf`: all jobs are done as soon as possible. All know the true speed of every job on every
type. Time is dealt out in rounds of 360 s: on each type, those come first that have had least of what they were given.
What is left idle goes to whoever fits. A programme is solved anew when jobs come or go, but not within 1,920 s.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gavel import DEAL_SECONDS, ROUND_SECONDS, TRACES, TYPES, Entry, simulate
from scipy.optimize import linprog

from headway.core.draft import Draft
from headway.core.job import JobId
from headway.core.placement import Placement
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.wrappers.rounds import in_rounds
from headway.workload.formats.gavel import read

KINDS = sorted(TYPES)
SLOTS = np.array([float(TYPES[kind]) for kind in KINDS])
BEGUN = ROUND_SECONDS / 2
"""Seconds that every job counts as having had of each type since the last programme."""
THEIRS = {
    ("max_min_fairness", "max_min_fairness_perf"): (4.06, 17.76),
    ("max_min_fairness", "min_total_duration_perf"): (6.38, 17.09),
    ("minimize_makespan", "max_min_fairness_perf"): (9.91, 19.03),
    ("minimize_makespan", "min_total_duration_perf"): (17.72, 17.98),
}
"""Trace and policy to mean completion time and makespan in hours, as Gavel's simulator prints them."""
Share = Callable[["Asked"], np.ndarray]


class Asked:
    """What a programme is about: jobs by seconds left on each type, and how many accelerators each holds."""

    def __init__(self, left: np.ndarray, width: np.ndarray, age: np.ndarray) -> None:
        self.left, self.width, self.age = left, width, age
        self.speed = 1.0 / left
        self.jobs, self.types = left.shape

    def solved(self, gain: np.ndarray, z: float | None = None) -> np.ndarray:
        """Shares of time (jobs, types) with the largest z so that `gain * share >= z` for each job, or with this z.

        Of all such shares those in the middle, as the solver that Gavel uses finds them: HiGHS says how large z is, and
        Newton's method goes there through the middle.
        """
        rows, most = self.limits(gain)
        best = linprog(np.append(np.zeros(rows.shape[1] - 1), -1.0), A_ub=rows, b_ub=most, method="highs").x[-1]
        rows[: self.jobs, :-1] /= best
        here = np.full(self.jobs * self.types, 0.9 * min(1.0 / self.types, (SLOTS / self.width.sum()).min()))
        point = np.append(here, 0.9 * (gain * here.reshape(self.jobs, -1)).sum(axis=1).min() / best)
        for force in 4.0 ** np.arange(0, 14):
            if z is not None and point[-1] > z / best:
                break
            point = _middle(rows, most, point, np.append(np.zeros(len(point) - 1), force * self.jobs))
        if z is not None and point[-1] > z / best:
            fixed = most - rows[:, -1] * (z / best)
            point = _middle(rows[:, :-1], fixed, point[:-1], np.zeros(len(point) - 1))
            return point.reshape(self.jobs, -1)
        return point[:-1].reshape(self.jobs, -1)

    def limits(self, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and what they may be at most: gains, whole jobs, accelerators, and that no share is below nothing."""
        count, types = self.jobs, self.types
        rows = np.zeros((2 * count + types + count * types, count * types + 1))
        for job in range(count):
            here = slice(job * types, (job + 1) * types)
            rows[job, here], rows[job, -1] = -gain[job], 1.0
            rows[count + job, here] = 1.0
            rows[2 * count : 2 * count + types, here] = np.diag(np.full(types, self.width[job]))
        rows[2 * count + types :, :-1] = -np.eye(count * types)
        return rows, np.concatenate([np.zeros(count), np.ones(count), SLOTS, np.zeros(count * types)])


def _middle(rows: np.ndarray, most: np.ndarray, point: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """The point with the largest worth plus sum of logarithms of what is left to each limit."""
    for _ in range(40):
        left = most - rows @ point
        slope = worth - rows.T @ (1.0 / left)
        bend = (rows.T / left**2) @ rows
        step = np.linalg.solve(bend + np.diag(1e-12 * np.diag(bend) + 1e-12), slope)
        gain = float(slope @ step)
        if gain < 1e-6:
            break
        change = rows @ step
        size = min(1.0, 0.95 * float(np.min(np.where(change > 0, left / np.maximum(change, 1e-300), np.inf))))
        point = point + size * step
    return point


def even(asked: Asked) -> np.ndarray:
    """What each job gets where all types count alike."""
    return asked.solved(np.ones_like(asked.speed) * asked.width[:, None])


def max_min_fairness(asked: Asked) -> np.ndarray:
    alone = (asked.speed * even(asked)).sum(axis=1)
    return asked.solved(asked.speed * asked.width[:, None] / alone[:, None])


def min_total_duration(asked: Asked) -> np.ndarray:
    """By halving, as Gavel does it: up to 5 % later than is possible."""
    rows, most = asked.limits(asked.speed * 1e4)
    soonest = 1e4 / linprog(np.append(np.zeros(rows.shape[1] - 1), -1.0), A_ub=rows, b_ub=most, method="highs").x[-1]
    low, high = 100.0, 1e6
    while 1.05 * low < high:
        middle = (low + high) / 2
        low, high = (low, middle) if middle >= soonest else (middle, high)
    return asked.solved(asked.speed * 1e4, 1e4 / high)


class Programme:
    """Deals out time by the shares of a programme. It remembers them, and what each job had since."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.dealt_at = -np.inf
        self.known: set[JobId] = set()
        self.shares: dict[JobId, np.ndarray] = {}
        self.had: dict[JobId, np.ndarray] = {}
        self.trained: dict[JobId, float] = {}
        self.now: dict[JobId, int] = {}
        self.round_at = -1.0

    def __call__(self, snapshot: Snapshot) -> Plan:
        jobs, draft = snapshot.jobs, Draft(snapshot)
        rows = np.sort(np.concatenate([jobs.running(), jobs.waiting()]))
        if snapshot.now != self.round_at:
            self.round_at = snapshot.now
            self._count(snapshot, rows)
            present = {jobs.job(row).id for row in rows.tolist()}
            if present != self.known and snapshot.now - self.dealt_at >= DEAL_SECONDS and len(rows):
                self._deal(snapshot, rows)
            self.now = self._round(snapshot, rows)
        for row in jobs.running().tolist():
            where = list(TYPES)[min(snapshot.placements[row].used_nodes())]
            if self.now.get(jobs.job(row).id) != KINDS.index(where):
                draft.stop(row)
        for row in [] if draft.decided_rows() else jobs.waiting().tolist():
            kind = self.now.get(jobs.job(row).id)
            if kind is not None:
                node = list(TYPES).index(KINDS[kind])
                draft.start(row, Placement(((node,) * int(jobs.width[row]),)))
        if len(rows):
            draft.wake(snapshot.now + ROUND_SECONDS)
        return draft.plan()

    def _count(self, snapshot: Snapshot, rows: np.ndarray) -> None:
        trained = snapshot.jobs.trained_seconds(snapshot.now)
        for row in rows.tolist():
            name = snapshot.jobs.job(row).id
            had = self.had.setdefault(name, np.full(len(KINDS), BEGUN))
            if name in self.now:
                had[self.now[name]] += trained[row] - self.trained.get(name, 0.0)
            self.trained[name] = float(trained[row])

    def _deal(self, snapshot: Snapshot, rows: np.ndarray) -> None:
        jobs, estimates = snapshot.jobs, snapshot.estimates
        on = np.array([one.seconds for one in estimates.on_types(rows.tolist())])
        left = np.maximum(estimates.left_of(rows, snapshot.now)[:, None] * on, 1.0)
        share = self.share(Asked(left, jobs.width[rows].astype(float), snapshot.now - jobs.submit[rows]))
        names = [jobs.job(row).id for row in rows.tolist()]
        self.shares = dict(zip(names, share.clip(0.0, 1.0), strict=True))
        self.had = {name: np.full(len(KINDS), BEGUN) for name in names}
        self.known, self.dealt_at = set(names), snapshot.now

    def _round(self, snapshot: Snapshot, rows: np.ndarray) -> dict[JobId, int]:
        now: dict[JobId, int] = {}
        width = {snapshot.jobs.job(row).id: int(snapshot.jobs.width[row]) for row in rows.tolist()}
        for kind_name in ("v100", "p100", "k80"):
            kind, room = KINDS.index(kind_name), TYPES[kind_name]
            mine = [name for name in width if name in self.shares]
            mine.sort(key=lambda name: (-self.shares[name][kind] / self.had[name][kind], -self.shares[name][kind]))
            for name in mine:
                if name not in now and width[name] <= room:
                    now[name] = kind
                    room -= width[name]
        return now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES)
    args = parser.parse_args()
    for name in ("max_min_fairness", "minimize_makespan"):
        trace = read(args.traces / "gavel" / "traces" / "physical_cluster" / f"{name}.trace")
        for share in (max_min_fairness, min_total_duration):
            policy = in_rounds(Programme(share), ROUND_SECONDS)
            ends, last = simulate(trace, Entry(share.__name__, "", policy, estimates="oracle"))
            mean, theirs = sum(ends.values()) / len(ends) / 3600, THEIRS.get((name, f"{share.__name__}_perf"))
            beside = (
                f"theirs {theirs[0]:6.2f} {theirs[1]:6.2f}, ratios {mean / theirs[0]:.3f} {last / 3600 / theirs[1]:.3f}"
                if theirs
                else ""
            )
            print(
                f"{name:18} {share.__name__:22} mean {mean:6.2f} h, last end {last / 3600:6.2f} h  {beside}", flush=True
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
