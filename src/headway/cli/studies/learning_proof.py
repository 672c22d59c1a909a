"""`headway experiment learning`: what it prints."""

from __future__ import annotations

import json as json_
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headway.cli.options import need_learn
from headway.cli.screen.live import Bars
from headway.cli.screen.tables import TableColumn, fitted
from headway.compare.executors import make_executor, running
from headway.compare.kept_runs import KeptRuns
from headway.compare.perform import Workers


def learning(*, quick: bool, workers: Workers, as_json: bool, report: Path | None = None, fresh: bool = False) -> None:
    """The plan is `experiment/learning/plan.json`; with `quick`, a few small generated windows."""
    need_learn()
    from headway.experiment.learning.plan import read_plan, small
    from headway.experiment.learning.proof import Workplace, keep_networks, looks, prove, told

    plan, digest = read_plan()
    store = KeptRuns.of_user(fresh=fresh)
    folder = store.folder / "learning"
    folder.mkdir(parents=True, exist_ok=True)
    if quick:
        plan, digest = small(plan), sha256(f"quick {digest}".encode()).hexdigest()
    pool = make_executor("", workers) if isinstance(workers, int) else workers
    with running(pool), Bars(["learn", "windows"], quiet=as_json) as bars:
        proof = prove(plan, digest, Workplace(pool, folder, store, workers), bars.set)
    networks = folder / f"networks-{digest[:12]}"
    kept = keep_networks(networks, proof.learnt)
    found = {**told(proof), "networks": kept, "looks": len([one for one in looks(folder) if one["plan"] == digest])}
    if report is not None:
        report.write_text(json_.dumps(found, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json_.dumps(found))
        return
    _show(found)
    best = next((one["file"] for one in kept.values() if one["best"]), "")
    print(f"networks: {networks}, of which {best} did best on the tasks that choose one")


def _show(found: dict[str, Any]) -> None:
    console = Console()
    for group, by_step in found["steps"].items():
        columns = [TableColumn("step", is_text=True),
                   *map(TableColumn, ("windows", "mean", "from", "to", "worst", "jobs worse"))]  # fmt: skip
        rows: list[list[str | Text]] = [
            [name, str(one["windows"]), *(f"{one[key] - 1:+.1%}" for key in ("ratio", "low", "high", "worst")),
             f"{one['worse jobs']:.0%}"]
            for name, one in by_step.items()
        ]  # fmt: skip
        console.print(fitted(f"sizes {group}: mean completion against the step before", columns, rows, console.width))
    for group, by_origin in found["means"].items():
        for origin, by_arm in by_origin.items():
            best = sorted(by_arm.items(), key=lambda one: one[1])
            print(f"{group}, {origin}: " + ", ".join(f"{name} {value:,.0f}" for name, value in best))
    for group, by_arm in found["gap to all-knowing"].items():
        print(f"{group}, over all-knowing: " + ", ".join(f"{name} {value:.3f}" for name, value in by_arm.items()))
    for group, by_arm in found["slowest over first-fit"].items():
        told = ", ".join(f"{name} {one['ratio']:.2f} (up to {one['high']:.2f})" for name, one in by_arm.items())
        print(f"{group}, slowest 5 % over first-fit's: {told}")
    if found["missing"]:
        print(f"MISSING, ended before they were run: {', '.join(found['missing'])}; the same command goes on")
    print(f"looks at these windows: {found['looks']}")
