"""`headway experiment native`: what it prints."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headway.cli.options import need_extra
from headway.cli.screen.live import Bars
from headway.cli.screen.say import say
from headway.cli.screen.tables import TableColumn, fitted
from headway.compare.kept_runs import KeptRuns
from headway.compare.perform import Workers
from headway.core.errors import UserError


def native(
    *, quick: bool, workers: Workers, as_json: bool, report: Path | None = None, fresh: bool = False, repeats: int = 1,
    times: float = 0.0, slices: str = "", by: str = "",
) -> None:  # fmt: skip
    """Live runs go one after another, each in a lab of its own; `workers` would only slow the scheduler down. In plain
    time a run of all slices would take days: it is made of the jobs of the quick one. A report that is there keeps the
    figures of runs that are not part of this one.
    """
    del workers
    need_extra()
    from headway.experiment.native.proof import ProofPlan, SliceFigures, joined, prove, told
    from headway.experiment.native.runs import LiveRuns
    from headway.experiment.native.slices import QUICK

    few = ProofPlan(QUICK, ("podgroup", "native", "headway"), 60, repeats, times)
    plan = (few if quick or times else ProofPlan(repeats=repeats)).only(named(slices), named(by))
    before = _earlier(report)
    store = KeptRuns.of_user(fresh=fresh)
    live = LiveRuns(store.folder / "native", fresh=fresh)

    def show(found: Sequence[SliceFigures]) -> None:
        result = told(plan, found)
        result = result if before is None else joined(before, result)
        if report is not None:
            report.write_text(json_.dumps(result, indent=1) + "\n", encoding="utf-8")
        if as_json:
            print(json_.dumps(result))
        else:
            _show(result)

    try:
        with Bars(["virtual time", "live"], quiet=as_json) as bars:
            found = prove(plan, live, store, bars.set, only_kept=False)
    except KeyboardInterrupt:
        show(prove(plan, live, store, lambda *_: None, only_kept=True))
        say("finished runs are kept: the same command without --fresh continues from there", error=True)
        raise
    show(found)


def named(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _earlier(report: Path | None) -> Mapping[str, Any] | None:
    """What a report of before has told."""
    if report is None or not report.exists() or not report.stat().st_size:
        return None
    try:
        found: Mapping[str, Any] = json_.loads(report.read_bytes())
    except ValueError:
        found = {}
    if not isinstance(found, dict) or not {"slices", "titles"} <= found.keys():
        raise UserError(f"{report}: it is no report of this experiment; name another file")
    return found


def _show(found: Mapping[str, Any]) -> None:
    console = Console()
    titles = found["titles"]
    columns = [
        TableColumn("contender", is_text=True), *map(TableColumn, ("mean", "of PodGroup", "simulated")),
        TableColumn("noise", drop=4), TableColumn("unfinished", drop=1), TableColumn("half gangs", drop=2),
        TableColumn("decision", drop=3),
    ]  # fmt: skip
    for one in found["slices"]:
        rows: list[list[str | Text]] = [
            [
                titles[name], f"{run['mean']:,.0f} s", _ratio(run.get("ratio")), _ratio(run.get("simulated ratio")),
                f"{run['noise']:.1%}" if "noise" in run else "",
                f"{run['unfinished']:.0%}", f"{run['half gangs']:.0f}", f"{1000 * run['decision'][0]:.0f} ms",
            ]
            for name, run in one["runs"].items()
        ]  # fmt: skip
        title = f"{one['slice']}: {one['jobs']} jobs, {one['nodes']} nodes, {one['gpus']} GPUs"
        console.print(fitted(title, columns, rows, console.width))
    for name, against in found["against"].items():
        for other in ("podgroup", "native"):
            if other in against:
                print(_sentence(titles[name], titles[other], against[other]))
        if against.get("far"):
            print(
                f"  {against['far']:.1%} of its jobs took beyond 3 times as long as with PodGroup, and ten minutes more"
            )
    if found["other versions"]:
        print("some kept runs are of another version of Headway; --fresh makes all of them anew")
    cut = [f"{one['slice']} {name}" for one in found["slices"] for name, run in one["runs"].items() if run.get("cut")]
    if cut:
        print(f"cut because they took too long, their means say nothing: {', '.join(cut)}")
    for key, why in found["failed"].items():
        print(f"{key} gave nothing: {why}")
    if found["missing"]:
        print(f"not run: {', '.join(found['missing'])}")


def _sentence(name: str, other: str, against: Mapping[str, Any]) -> str:
    simulated = f", {_ratio(against['simulated'])} in virtual time" if "simulated" in against else ""
    return (
        f"{name}: mean completion {_ratio(against['ratio'])} of that of {other}{simulated}; worst slice "
        f"{_ratio(against['worst'])}; chance {against['chance']:.4f}, {against['slices']} slices"
    )


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
