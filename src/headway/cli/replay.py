"""`headway replay`: run a policy on a recorded log and show where its plans differ."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Json, Set
from headway.cli.say import say
from headway.cli.wiring import make_policy, safe_policy
from headway.core.errors import UserError
from headway.cycle.loop import run
from headway.estimates.models.scaling import plain_speed
from headway.estimates.plain_books import NoEstimates
from headway.record.lines import Head, pack_decision
from headway.record.log import read
from headway.record.replay import ReplayCluster


def replay(
    log: Annotated[Path, typer.Argument(help="A log written by simulate, run or schedule.")],
    policy: Annotated[str, typer.Option("--policy", help="Run this policy instead of the recorded one.")] = "",
    settings: Set = [],  # noqa: B006  typer copies it
    json: Json = False,
) -> None:
    """Replay a log. With the recorded policy, exit with code 1 if any plan differs."""
    head = next((line for line in read(log) if isinstance(line, Head)), None)
    if head is None:
        raise UserError(f"{log}: this is not a headway log: it has no head line")
    name = policy or head.policy
    chosen = make_policy(name, list(settings) or ([] if policy else head.settings.get("set", [])))
    cluster = ReplayCluster(log, plain_speed)
    run(cluster, chosen, NoEstimates(), safe=safe_policy)
    differences = cluster.differences
    if json:
        print(json_.dumps({
            "policy": name, "recorded": head.policy, "cluster": head.cluster, "cycles": cluster.cycles,
            "differences": [{"cycle": d.cycle, "now": d.now} for d in differences],
        }))  # fmt: skip
    else:
        differ = "1 plan differs" if len(differences) == 1 else f"{len(differences)} plans differ"
        say(f"{cluster.cycles} cycles of a {head.cluster} run under {head.policy}, replayed under {name}: {differ}")
        for difference in differences[:5]:
            print(f"  cycle {difference.cycle} at {difference.now:.1f} s")
            for title, plan in (("recorded", difference.recorded), ("replayed", difference.replayed)):
                say(f"    {title}: {[pack_decision(decision) for decision in plan.decisions]}", hang=14)
    if differences and not policy:
        raise typer.Exit(1)
