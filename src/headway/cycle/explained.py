"""What a policy says about one job, as sentences for people. A policy may be anyone's: one that fails is told, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from headway.core.policy import Policy, explain_with
from headway.core.snapshot import Snapshot
from headway.core.text import lasting
from headway.cycle.sound import raised

Clock = Callable[[float], str]
"""From seconds of the run's clock to a time of day."""


def explained(policy: Policy, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
    """By topic. A policy that cannot explain is told in a sentence."""
    try:
        told: Any = explain_with(policy, snapshot, row)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a policy may be anyone's
        return {"policy": f"explain fails: {raised('', error, getattr(policy, 'file', '')).why}"}
    if not isinstance(told, Mapping):
        return {"policy": f"explain fails: it returned {type(told).__name__}, not a mapping of topics"}
    return told


def sentences(told: Mapping[str, Any], clock: Clock | None = None) -> list[tuple[str, str]]:
    """Topic and sentence; and one more for what would help, where the policy says so.

    Example: `{"score": {"total": 0.7, "user": 0.5, "wait": 0.2}}` is `("score", "0.700 = user 0.500 + wait 0.200")`.
    With a clock, a verdict has the time of day: `yes: In time with 4 replicas. Ends 14:20 ± 6 min.`
    """
    found = []
    for topic, value in told.items():
        remedy = ""
        if not isinstance(value, Mapping):
            sentence = str(value)
        elif "sentence" in value:
            sentence = f"{value['verdict']}: {value['sentence']}" if "verdict" in value else str(value["sentence"])
            sentence += _ends(value, clock)
            remedy = str(value.get("remedy", ""))
        elif "total" in value and all(isinstance(part, int | float) for part in value.values()):
            parts = " + ".join(f"{name} {part:.3f}" for name, part in value.items() if name != "total")
            sentence = f"{value['total']:.3f} = {parts}"
        else:
            sentence = ", ".join(f"{name} {part}" for name, part in value.items())
        found.append((str(topic).replace("_", " "), sentence))
        if remedy:
            found.append(("needs", remedy))
    return found


def _ends(value: Mapping[str, Any], clock: Clock | None) -> str:
    at, give = value.get("done_at"), value.get("give") or 0.0
    word = {"yes": "Ends", "no": "Earliest"}.get(str(value.get("verdict")))
    if clock is None or word is None or not isinstance(at, float) or not math.isfinite(at):
        return ""
    return f" {word} {clock(at)}{f' ± {lasting(give)}' if give >= 1.0 else ''}."


def explanation(policy: Policy, snapshot: Snapshot, row: int, clock: Clock | None = None) -> list[tuple[str, str]]:
    return sentences(explained(policy, snapshot, row), clock)
