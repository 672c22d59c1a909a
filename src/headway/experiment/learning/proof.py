"""The proof: what each step brings against the one before it, on windows that nothing was tuned or taught on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from headway import __version__
from headway.compare.kept_runs import KeptRuns
from headway.compare.perform import Workers, perform_all
from headway.experiment.learning.plan import ProofPlan, Window, windows_of
from headway.experiment.learning.proof_runs import (
    KNOWING,
    OTHERS,
    Learnt,
    ProofContext,
    kept_run,
    labels,
    learn_all,
    run_item,
)
from headway.experiment.learning.proof_stats import change, interval, mean_of, slowest_of
from headway.learn.tuning.runs import Runs
from headway.record.results import Outcome
from headway.trained.file import TrainedPolicy, write_trained

Found = Mapping[tuple[Window, str], Outcome]


@dataclass(frozen=True, slots=True)
class Proof:
    plan: ProofPlan
    digest: str
    found: Found
    learnt: Learnt

    def windows(self, sizes: str, part: str) -> list[Window]:
        """Those that were run under all arms."""
        missing = self.missing()
        return [one for one in windows_of(self.plan)
                if one.sizes == sizes and one.part == part and one not in missing]  # fmt: skip

    def missing(self) -> dict[Window, list[str]]:
        """Windows that were not run under all arms, and the arms that they lack."""
        lacks = {one: [label for label in labels(self.plan, one.sizes) if (one, label) not in self.found]
                 for one in windows_of(self.plan)}  # fmt: skip
        return {one: found for one, found in lacks.items() if found}


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where runs are made and kept."""

    pool: Executor
    folder: Path
    kept: KeptRuns | None
    workers: Workers


def prove(plan: ProofPlan, digest: str, place: Workplace, tell: Callable[[int, float], None]) -> Proof:
    """Learns, then runs all windows under all arms. `tell` gets 0 for the learning, 1 for the windows, and a share.

    After Ctrl-C among the windows, what was run until then counts, and the rest is missing.
    """
    tell(0, 0.01)
    learnt = learn_all(plan, digest, Runs(place.pool, place.folder / f"proof-{digest[:12]}.runs"))
    tell(0, 1.0)
    look(place.folder, digest, plan)
    items = [(window, label) for window in windows_of(plan) for label in labels(plan, window.sizes)]
    done = np.zeros(len(items))

    def told(number: int, share: float) -> None:
        done[number] = share
        tell(1, float(done.mean()))

    context = ProofContext(plan, digest, learnt, place.kept)
    outcomes: Sequence[Outcome | None]
    try:
        outcomes = perform_all(run_item, context, items, place.workers, told)
    except KeyboardInterrupt:
        outcomes = [kept_run(context, item) for item in items]
    found = {item: one for item, one in zip(items, outcomes, strict=True) if one is not None}
    return Proof(plan, digest, found, learnt)


def look(folder: Path, digest: str, plan: ProofPlan) -> None:
    """Counts a look at the windows, before it is taken."""
    line = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "plan": digest,
        "windows": [one.name for one in windows_of(plan)],
    }  # fmt: skip
    with (folder / "ledger.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def keep_networks(folder: Path, learnt: Learnt) -> dict[int, dict[str, Any]]:
    """Writes each network as a file that `--policy learned` takes; by seed its file, hash and score, and the best."""
    folder.mkdir(parents=True, exist_ok=True)
    scores = {seed: float(one.scores["validation score"] or 0.0) for seed, one in learnt.networks.items()}
    best, found = min(scores, key=scores.__getitem__, default=None), {}
    for seed, one in learnt.networks.items():
        file = folder / f"seed-{seed}.npz"
        write_trained(file, TrainedPolicy(one.candidate.network(), one.trained_on, one.scores), __version__)
        digest = sha256(file.read_bytes()).hexdigest()
        found[seed] = {"file": file.name, "sha256": digest, "validation score": scores[seed], "best": seed == best}
    return found


def looks(folder: Path) -> list[dict[str, Any]]:
    file = folder / "ledger.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


# ── what came of it ─────────────────────────────────────────────────────────────────────────────────────────


def told(proof: Proof) -> dict[str, Any]:
    """Everything, ready for JSON."""
    plan = proof.plan
    groups = {f"{sizes}, {part}": proof.windows(sizes, part)
              for sizes in ("chosen", "fixed") for part in ("validation", "test")}  # fmt: skip
    return {
        "plan": proof.digest, "question": plan.question,
        "steps": {name: steps(proof, found) for name, found in groups.items() if found},
        "means": {name: means(proof, found) for name, found in groups.items() if found},
        "slowest over first-fit": {name: tails(proof, found) for name, found in groups.items() if found},
        "gap to all-knowing": {name: gap(proof, found) for name, found in groups.items() if found and "chosen" in name},
        "missing": {one.name: found for one, found in proof.missing().items()},
        "tuned": {sizes: dict(found) for sizes, found in proof.learnt.tuned.items()},
        "elastic, tuned": dict(proof.learnt.elastic), "left out": plan.left_out,
    }  # fmt: skip


def steps(proof: Proof, windows: Sequence[Window]) -> dict[str, Any]:
    plan, seeds = proof.plan, [f"learned {seed}" for seed in proof.plan.training.seeds]
    pairs: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        "0 -> beliefs": (["beliefs"], ["0"]), "0 -> beliefs of other origins": ([OTHERS], ["0"]),
        "beliefs -> tuned": (["tuned"], ["beliefs"]), "tuned -> learned": (seeds, ["tuned"]),
        "beliefs -> learned": (seeds, ["beliefs"]),
        **{f"beliefs -> {seed}": ([seed], ["beliefs"]) for seed in seeds},
    }  # fmt: skip
    given = plan.statistics
    level = 1.0 - (1.0 - given.level) / given.steps_corrected_for
    return {
        name: change(
            [_runs(proof, window, after) for window in windows], [_runs(proof, window, before) for window in windows],
            level, given.draws, int(proof.digest[:8], 16),
        ).as_json()
        for name, (after, before) in pairs.items()
    }  # fmt: skip


def means(proof: Proof, windows: Sequence[Window]) -> dict[str, dict[str, float]]:
    """By origin: geometric mean over its windows of mean completion, by arm; learned is the mean over seeds."""
    found: dict[str, dict[str, float]] = {}
    for origin in dict.fromkeys(window.origin for window in windows):
        here = [window for window in windows if window.origin == origin]
        found[origin] = {
            label: float(np.exp(np.mean([np.log(mean_of(proof.found[window, label])) for window in here])))
            for label in labels(proof.plan, here[0].sizes)
        }
    return found


def tails(proof: Proof, windows: Sequence[Window]) -> dict[str, dict[str, float]]:
    """The mean of the slowest jobs over first-fit's: ratio and interval, by step."""
    given, found = proof.plan.statistics, {}
    for label in ("0", "beliefs", "tuned", *(f"learned {seed}" for seed in proof.plan.training.seeds)):
        logs = np.log([
            slowest_of(proof.found[window, label], given.slowest_share)
            / slowest_of(proof.found[window, "first-fit"], given.slowest_share)
            for window in windows
        ])  # fmt: skip
        low, high = interval(logs, given.draws, given.level, int(proof.digest[:8], 16))
        found[label] = {"ratio": float(np.exp(logs.mean())), "low": low, "high": high}
    return found


def gap(proof: Proof, windows: Sequence[Window]) -> dict[str, float]:
    """Mean completion as a multiple of all-knowing headway's, in the median window."""
    return {
        label: float(np.median([
            mean_of(proof.found[window, label]) / mean_of(proof.found[window, KNOWING]) for window in windows
        ]))
        for label in ("0", "beliefs", OTHERS, "tuned", *(f"learned {seed}" for seed in proof.plan.training.seeds))
    }  # fmt: skip


def _runs(proof: Proof, window: Window, names: Sequence[str]) -> dict[str, Outcome]:
    return {name: proof.found[window, name] for name in names}
