"""`headway tune`: the default policy's settings on windows of one's own log; or: keep what you have."""

from __future__ import annotations

import json as json_
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headway.cli.learn.many_runs import ManyRuns, check_budget
from headway.cli.options import BeliefsFile, Cluster, ExecutorName, Format, Json, Processes, World, need_learn
from headway.cli.policy_settings import check_range
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, fitted
from headway.cli.wiring import beliefs_for, writable
from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.learn.tuning.runs import Setting
    from headway.learn.tuning.search import SearchSettings
    from headway.learn.tuning.verdict import Judged
    from headway.learn.tuning.windows import Windows
    from headway.policies.knobs import Knob


def tune(
    file: Annotated[
        Path, typer.Argument(metavar="LOG|TRACE", help="A log of run, schedule or simulate; a jobs file; a trace.")
    ],
    settings: Annotated[
        list[str],
        typer.Option("--set", help="Current settings, name=value. Default: as the log's run. Repeatable."),
    ] = [],  # noqa: B006  typer copies it
    only: Annotated[str, typer.Option(help="Tune these settings only: names separated by commas.")] = "",
    window: Annotated[int, typer.Option(help="Set the jobs of a window.", min=10)] = 150,
    budget: Annotated[int, typer.Option(help="Make at most this many runs of a window to search.", min=10)] = 240,
    tail: Annotated[
        str, typer.Option(help="Keep this from growing: slowest (mean of the slowest 5 %) or p99.")
    ] = "slowest",
    fairness: Annotated[str, typer.Option(help="Keep this from growing: finish-time or worst-user.")] = "finish-time",
    cluster: Cluster = "",
    format_: Format = "",
    world: World = None,
    beliefs: BeliefsFile = None,
    seed: Annotated[int, typer.Option(help="Seed the search.")] = 0,
    state: Annotated[
        Path | None, typer.Option(help="Keep finished runs in this file. Default: FILE.tune. A second start goes on.")
    ] = None,
    executor: ExecutorName = "",
    jobs: Processes = 0,
    json: Json = False,
) -> None:
    """Tune the settings of `headway`, the default policy, on windows of your own log; try them on later ones.

    It proposes a change only where the gain on windows that it did not see is significant. Else: keep what you have.
    """
    need_learn()
    from headway.learn.tuning.runs import FAIRNESS, TAILS, run_window
    from headway.learn.tuning.search import SearchSettings, as_setting, least_budget, search
    from headway.learn.tuning.verdict import judge
    from headway.learn.tuning.windows import WindowSettings, read_windows

    for option, word, offer in (("--tail", tail, TAILS), ("--fairness", fairness, tuple(FAIRNESS))):
        if word not in offer:
            raise UserError(f"{option} {word}: choose one of {', '.join(offer)}")
    now = _present(settings)
    kept = state or file.with_name(f"{file.name}.tune")
    writable(kept, "--state", [file, world, beliefs])
    found = read_windows(file, WindowSettings(
        jobs=window, cluster=cluster, format=format_, world=world, beliefs=beliefs_for("progress", beliefs)
    ))  # fmt: skip
    given = SearchSettings(
        knobs=_knobs(found, only), present={**found.present, **now}, budget=budget, tail=tail,
        fairness=fairness, seed=seed,
    )  # fmt: skip
    check_budget(budget, least_budget(len(found.tuned), len(given.knobs)))
    many = ManyRuns("tune", executor, jobs, kept, budget + 2 * len(found.held_out), json)
    with many.made_by(run_window) as runs:
        best = search(found.tuned, given, runs)
        present = as_setting(given.present)
        last = runs.all(found.held_out, [present, best.settings])
    judged = judge(best.settings, last[best.settings], last[present], given)
    _tell(judged, found, given, as_json=json)


def _knobs(found: Windows, only: str) -> tuple[Knob, ...]:
    from headway.policies.knobs import knob_named

    names = dict.fromkeys(name.strip() for name in only.split(",") if name.strip())
    return tuple(map(knob_named, names)) if names else found.knobs()


def _present(settings: list[str]) -> dict[str, float]:
    from headway.policies.knobs import knob_named
    from headway.policies.registry import ranges_of

    chosen = {}
    for item in settings:
        name, equals, value = item.partition("=")
        knob_named(name)
        try:
            chosen[name] = float(value if equals else "")
        except ValueError:
            chosen[name] = math.nan
        if not math.isfinite(chosen[name]):
            raise UserError(f"--set {item}: give a number, name=value")
        check_range(item, chosen[name], ranges_of("headway")[name])
    return chosen


def _tell(judged: Judged, found: Windows, given: SearchSettings, *, as_json: bool) -> None:
    diff = _diff(given.present, judged.settings)
    if as_json:
        print(json_.dumps({
            **judged.as_json(), "diff": [{"name": name, "from": old, "to": new} for name, old, new in diff],
            "tuned": len(found.tuned), "left_out": list(found.left_out), "tail_figure": given.tail,
            "fairness_figure": given.fairness,
        }))  # fmt: skip
        return
    print(f"tuned on {len(found.tuned)} windows, tried on {judged.windows} later ones that it did not see")
    for sentence in found.left_out:
        print(f"note: {sentence}")
    if not judged.change:
        print(f"keep what you have: {judged.why}")
        if diff:
            print(f"  the best settings found: {_effect(judged, given)}")
        return
    from rich.console import Console

    console = Console()
    columns = [TableColumn("setting", is_text=True), TableColumn("now"), TableColumn("proposed")]
    rows: list[list[str | Text]] = [[plain(name), f"{old:g}", f"{new:g}"] for name, old, new in diff]
    console.print(fitted("", columns, rows, console.width))
    print(f"gain: {_effect(judged, given)}")
    print("use it with:")
    for name, _, new in diff:
        print(f"  --set {name}={new:g}")


def _effect(judged: Judged, given: SearchSettings) -> str:
    low, high = sorted(judged.interval)
    return (
        f"mean completion {-judged.gain:+.1%} ({-high:+.1%} to {-low:+.1%}),\n"
        f"  {'slowest 5 %' if given.tail == 'slowest' else 'p99'} {judged.tail:+.1%}, "
        f"{given.fairness} {judged.fairness:+.1%}"
    )


def _diff(present: Mapping[str, float], settings: Setting) -> list[tuple[str, float, float]]:
    from headway.policies.knobs import BY_NAME

    before: dict[str, Any] = {name: present.get(name, knob.default) for name, knob in BY_NAME.items()}
    after = {**{name: knob.default for name, knob in BY_NAME.items()}, **dict(settings)}
    return [(name, before[name], after[name]) for name in BY_NAME if before[name] != after[name]]
