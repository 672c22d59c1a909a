"""`headway replay`: run a policy on a recorded log and show where its plans differ."""

from __future__ import annotations

import json as json_
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Json, Set
from headway.cli.screen.asides import asides
from headway.cli.screen.say import say
from headway.cli.trained_policy import is_another
from headway.cli.wiring import make_policy, safe_policy_for, warn
from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.cycle.loop import run
from headway.estimates.models.scaling import plain_speed
from headway.estimates.plain_books import NoEstimates
from headway.record.replay import Difference, ReplayCluster

MOST_SHOWN = 5
"""Differing plans that are shown."""


def replay(
    log: Annotated[Path, typer.Argument(help="A log written by simulate, run or schedule.")],
    policy: Annotated[str, typer.Option("--policy", help="Run this policy instead of the recorded one.")] = "",
    settings: Set = [],  # noqa: B006  typer copies it
    json: Json = False,
) -> None:
    """Replay a log. With the recorded policy, exit with code 1 if any plan differs."""
    cluster, names = ReplayCluster(log, plain_speed), list[str]()
    for head in cluster.parts():
        name = policy or head.policy
        asked = list(settings) or ([] if policy else head.settings.get("set", []))
        if not policy and not settings:
            warn(filter(None, [is_another(head)]))
        with asides():
            run(cluster, make_policy(name, asked), NoEstimates(), safe=safe_policy_for(asked))
        names.append(name)
    if not names:
        raise UserError(f"{log}: this is not a headway log: it has no head line")
    recorded, replayed = (
        ", ".join(dict.fromkeys(head.policy for head in cluster.heads)),
        ", ".join(dict.fromkeys(names)),
    )
    differences, where = cluster.differences, cluster.heads[0].cluster
    if json:
        print(json_.dumps({
            "policy": replayed, "recorded": recorded, "cluster": where, "cycles": cluster.cycles,
            "differences": [{"cycle": d.cycle, "now": d.now} for d in differences],
        }))  # fmt: skip
    else:
        _show(f"{cluster.cycles} cycles of a {where} run under {recorded}, replayed under {replayed}", differences)
    if differences and not policy:
        raise typer.Exit(1)


def _show(what: str, differences: Sequence[Difference]) -> None:
    """How many plans differ, and the first of them. Plans that decide otherwise come before those that only wait."""
    decided = [one for one in differences if one.recorded.decisions != one.replayed.decisions]
    of_them = f", {len(decided)} in what is decided, the others in when to ask again" if differences else ""
    say(f"{what}: {'1 plan differs' if len(differences) == 1 else f'{len(differences)} plans differ'}{of_them}")
    for one in (decided or list(differences))[:MOST_SHOWN]:
        say(f"  cycle {one.cycle} at {one.now:.1f} s")
        say(f"    recorded: {_words(one.recorded)}", hang=14)
        say(f"    replayed: {_words(one.replayed)}", hang=14)


def _words(plan: Plan) -> str:
    said = [f"{type(decision).__name__.lower()} {decision.job}" for decision in plan.decisions]
    again = "" if math.isinf(plan.until) else f"; asks again at {plan.until:.1f} s"
    return f"{', '.join(said) or 'nothing'}{again}"
