"""The proof: every contender on every slice, live and in virtual time, and what follows from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from headway.compare.kept_runs import KeptRuns, content, source
from headway.compare.perform import Task, perform
from headway.core.errors import UserError
from headway.core.node import FloatArray
from headway.core.quantity import GPU
from headway.experiment.native.contenders import BASELINE, CONTENDERS, HEADWAY
from headway.experiment.native.live import LiveResult, horizon_of, perform_live
from headway.experiment.native.runs import LiveRun, LiveRuns, case_of, how_of
from headway.experiment.native.slices import JOBS, REPORTED, SHARES, SOURCES, Slice
from headway.kube.api.errors import ApiError
from headway.lab import LabError
from headway.record.results import Outcome

FAR, LONG_SECONDS = 3.0, 600.0
"""A job was done much later than with PodGroups: beyond so many times as long, and by so much."""
TOLD_JOBS = 40
"""So many of these are named."""
ROUND = len(SOURCES) * len(SHARES)


@dataclass(frozen=True, slots=True)
class ProofPlan:
    slices: tuple[Slice, ...] = REPORTED
    contenders: tuple[str, ...] = tuple(CONTENDERS)
    jobs: int = JOBS
    repeats: int = 1
    times: float = 0.0
    """So many times as fast as the machine's clock; 0: time stands while the scheduler works."""

    def only(self, slices: Sequence[str], contenders: Sequence[str]) -> ProofPlan:
        """The part of it with slices that begin so, and with these contenders; nothing named means all. Raises
        UserError.
        """
        of = tuple(one for one in self.slices if not slices or one.name.startswith(tuple(slices)))
        by = tuple(one for one in self.contenders if not contenders or one in contenders)
        if not of:
            raise UserError(f"--slices {','.join(slices)}: choose from {', '.join(one.name for one in self.slices)}")
        if len(by) < len(set(contenders)) or not by:
            raise UserError(f"--by {','.join(contenders)}: choose from {', '.join(self.contenders)}")
        return replace(self, slices=of, contenders=by)


@dataclass(frozen=True, slots=True)
class SliceFigures:
    run: LiveRun
    live: LiveResult | None
    simulated: FloatArray | None
    """Completion times of its twin in virtual time."""
    failed: str = ""
    """Why the live run gave nothing."""


def prove(
    plan: ProofPlan, live: LiveRuns, kept: KeptRuns | None, tell: Callable[[int, float], None], *, only_kept: bool
) -> list[SliceFigures]:
    """All runs; those that are kept are not made again. With `only_kept` none is made in a lab. `tell` gets a bar and
    its share: virtual time, then the live runs.
    """
    wanted = _wanted(plan)
    twins = []
    for number, run in enumerate(wanted):
        twins.append(_twin(run, kept))
        tell(0, (number + 1) / len(wanted))
    found = list[SliceFigures]()
    for number, (run, twin) in enumerate(zip(wanted, twins, strict=True)):
        result, failed = live.get(run), ""
        if result is None and not only_kept:
            contender = CONTENDERS[run.name]
            try:
                result = perform_live(
                    case_of(run, contender), contender, how_of(run, live),
                    lambda share, at=number: tell(1, (at + share) / len(wanted)),  # type: ignore[misc]
                )  # fmt: skip
                live.put(run, result)
            except (TimeoutError, LabError, ApiError) as error:
                failed = str(error) or "no answer in time"
        found.append(SliceFigures(run, result, twin, failed))
        tell(1, (number + 1) / len(wanted))
    return found


def _wanted(plan: ProofPlan) -> list[LiveRun]:
    """In order: each source at each share once, the variants on these, then the next."""
    runs = [
        LiveRun(one, name, plan.jobs, repeat, plan.times)
        for repeat, one, name in itertools.product(range(1, plan.repeats + 1), plan.slices, plan.contenders)
        if one not in REPORTED[CONTENDERS[name].slices :]
    ]
    variant = {name: CONTENDERS[name].slices < len(REPORTED) for name in plan.contenders}
    return sorted(runs, key=lambda run: (run.repeat, plan.slices.index(run.slice) // ROUND, variant[run.name]))


def _twin(run: LiveRun, kept: KeptRuns | None) -> FloatArray | None:
    contender = CONTENDERS[run.name]
    if not contender.twin:
        return None
    case = case_of(run, contender)
    key = sha256(repr(("native", run.name, contender.twin, content(case))).encode()).hexdigest()[:32]
    found: Outcome | None = kept.get(key) if kept is not None else None
    if found is None:
        found = perform(case, Task(policy=contender.twin, make=contender.policy))
        if kept is not None:
            kept.put(key, found)
    horizon = horizon_of(case)
    late = np.array([horizon - job.submit for job in case.trace.jobs])
    times: FloatArray = np.minimum(np.where(found.finished, found.completion, math.inf), late)
    return times


# ── what follows ────────────────────────────────────────────────────────────────────────────────────────────


def told(plan: ProofPlan, found: Sequence[SliceFigures]) -> dict[str, Any]:
    """Ready for JSON."""
    by_slice: dict[str, dict[str, list[SliceFigures]]] = {}
    for one in found:
        if one.live is not None:
            by_slice.setdefault(one.run.slice.name, {}).setdefault(one.run.name, []).append(one)
    slices = [_slice(name, by_slice[name]) for name in by_slice]
    sources = {one.live.source for one in found if one.live is not None}
    return {
        "slices": slices,
        "against": {name: _against(name, slices) for name in plan.contenders if name != BASELINE},
        "missing": [one.run.key for one in found if one.live is None],
        "failed": {one.run.key: one.failed for one in found if one.failed},
        "other versions": len(sources - {source()}),
        "titles": {name: CONTENDERS[name].title for name in plan.contenders},
    }


def joined(before: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """What an earlier report told, with what was found since in its place. Of runs that were not made together no
    single jobs are compared.
    """
    slices = {one["slice"]: one for one in before["slices"]}
    for one in found["slices"]:
        runs = slices.get(one["slice"], {}).get("runs", {}) | one["runs"]
        slices[one["slice"]] = one | {"runs": {name: runs[name] for name in CONTENDERS if name in runs}}
    order = {one.name: number for number, one in enumerate(REPORTED)}
    together = sorted(slices.values(), key=lambda one: order.get(one["slice"], len(order)))
    for one in together:
        base = one["runs"].get(BASELINE)
        for run in one["runs"].values() if base is not None else ():
            run.setdefault("ratio", run["mean"] / base["mean"])
    titles = before["titles"] | found["titles"]
    there = {(one["slice"], name) for one in together for name in one["runs"]}
    missing = [
        run.key
        for run in _wanted(ProofPlan(contenders=tuple(name for name in CONTENDERS if name in titles)))
        if (run.slice.name, run.name) not in there
    ]
    return {**found, "slices": together, "titles": titles, "missing": missing,
            "against": {name: _against(name, together) for name in titles if name != BASELINE}}  # fmt: skip


def _slice(name: str, by: Mapping[str, Sequence[SliceFigures]]) -> dict[str, Any]:
    run = next(iter(by.values()))[0].run
    case = run.slice.case(run.jobs)
    base = by.get(BASELINE)
    return {
        "slice": name, "jobs": len(case.trace.jobs), "nodes": len(case.nodes),
        "gpus": sum(dict(node.capacity).get(GPU, 0) for node in case.nodes),
        "runs": {who: _figures(runs, base) for who, runs in by.items()},
    }  # fmt: skip


def _figures(runs: Sequence[SliceFigures], base: Sequence[SliceFigures] | None) -> dict[str, Any]:
    """Means over repeats. The noise is the standard deviation of the repeats' means, as a share."""
    results = [one.live for one in runs if one.live is not None]
    times = np.mean([one.completion for one in results], axis=0)
    said: dict[str, Any] = {
        "mean": float(times.mean()), "p99": float(np.percentile(times, 99)),
        "repeats": [one.mean for one in results],
        "unfinished": float(np.mean([(1 - one.finished).mean() for one in results])),
        "half gangs": float(np.mean([(one.half > 0).sum() for one in results])),
        "deadlocked": float(np.mean([one.stuck for one in results])), "cut": any(one.cut for one in results),
        "decision": [float(np.mean([one.decided[n] for one in results])) for n in (0, 1)],
        "real": float(np.mean([one.real_seconds for one in results])),
    }  # fmt: skip
    if len(results) > 1:
        said["noise"] = float(np.std(said["repeats"], ddof=1) / np.mean(said["repeats"]))
    twin = runs[0].simulated
    if twin is not None:
        said["simulated"] = float(twin.mean())
        said["same"] = float((np.abs(results[0].completion - twin) <= 1.0).mean())
    if base is not None and base[0].live is not None:
        before = np.mean([one.live.completion for one in base if one.live is not None], axis=0)
        far = (times > FAR * before) & (times > before + LONG_SECONDS)
        said["ratio"] = float(times.mean() / before.mean())
        said["worse"] = float((times > 1.05 * before).mean())
        said["much later"] = int(far.sum())
        said["far"] = [
            {"job": int(number), "seconds": float(times[number]), "podgroup": float(before[number])}
            for number in far.nonzero()[0][:TOLD_JOBS]
        ]
        if twin is not None and base[0].simulated is not None:
            said["simulated ratio"] = float(twin.mean() / base[0].simulated.mean())
    return said


def _against(name: str, slices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One contender against PodGroups and against native, over the slices that both have run."""
    said: dict[str, Any] = {}
    for other in (BASELINE, "native"):
        pairs = [(one["runs"][name], one["runs"][other]) for one in slices if {name, other} <= one["runs"].keys()]
        if other == name or not pairs:
            continue
        logs = np.array([math.log(mine["mean"] / theirs["mean"]) for mine, theirs in pairs])
        said[other] = {"slices": len(pairs), "ratio": float(np.exp(logs.mean())), "worst": float(np.exp(logs.max())),
                       "chance": sign_flip(logs)}  # fmt: skip
        twins = [(mine, theirs) for mine, theirs in pairs if "simulated" in mine and "simulated" in theirs]
        if twins:
            simulated = np.mean([math.log(mine["simulated"] / theirs["simulated"]) for mine, theirs in twins])
            said[other]["simulated"] = float(np.exp(simulated))
    if CONTENDERS[name].kind == HEADWAY:
        jobs = sum(one["jobs"] for one in slices if name in one["runs"])
        later = sum(one["runs"][name].get("much later", 0) for one in slices if name in one["runs"])
        said["far"] = later / max(1, jobs)
    return said


def sign_flip(logs: FloatArray) -> float:
    """How likely a mean as low as this is if better and worse were chance: the share of all flips of signs."""
    if len(logs) > 20:
        signs = np.random.default_rng(1).choice([-1.0, 1.0], size=(1 << 18, len(logs)))
    else:
        bits = np.arange(1 << len(logs))[:, None] >> np.arange(len(logs)) & 1
        signs = 1.0 - 2.0 * bits
    means = (signs * np.abs(logs)).mean(axis=1)
    return float((means <= logs.mean() + 1e-12).mean())
