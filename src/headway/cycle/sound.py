"""A policy that fails: it raises, or what it returns is no plan. The sentence that says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from numbers import Integral, Real
from types import TracebackType
from typing import Any

from headway.core.errors import UserError
from headway.core.placement import Placement
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.core.text import clean

KINDS = (Start, Scale, Resize, Move, Stop, Reserve)
LONGEST_TEXT = 200


class PolicyError(UserError):
    """A policy failed in one cycle. Example: `--policy mine.py:best: mine.py, line 7: ZeroDivisionError: …`."""

    def __init__(self, policy: str, why: str, place: str = "") -> None:
        super().__init__(f"--policy {policy}: {why}")
        self.policy, self.why = policy, why
        self.place = place or why
        """Failures at one place are told once."""


def raised(policy: str, error: BaseException, file: str = "") -> PolicyError:
    """The policy raised. Names the last line in `file`, or the last line at all if the policy is not of one file."""
    where = _last_line(error.__traceback__, file) or _last_line(error.__traceback__, "")
    return PolicyError(policy, f"{where}: {told(error)}", f"{where}: {type(error).__name__}")


def told(error: BaseException) -> str:
    """What somebody's code raised, on one line of bounded length: its kind and its text."""
    text = clean(" ".join(str(error).split()), LONGEST_TEXT)
    return f"{type(error).__name__}{': ' if text else ''}{text}"


def _last_line(trace: TracebackType | None, file: str) -> str:
    where = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if file in ("", name):
            where = f"{name.rpartition('/')[2]}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return where


def name_of(policy: Policy) -> str:
    return getattr(policy, "__name__", "") or type(policy).__name__


# ── is it a plan ────────────────────────────────────────────────────────────────────────────────────────────


def unsound(plan: object) -> str:
    """Why this is not a plan; empty if it is one. Whether it keeps the rules is for `core.check` to say."""
    if not isinstance(plan, Plan):
        return f"it returned {_shown(plan)}, not a Plan; return draft.plan()"
    until: object = plan.until
    decisions: object = plan.decisions
    if not _is_time(until):
        return f"its plan has until={_shown(until)}, which is not a time"
    if not isinstance(decisions, tuple | list):
        return f"its plan has decisions={_shown(decisions)}, not a tuple of decisions"
    return next(filter(None, map(_unsound_decision, decisions)), "")


def _unsound_decision(decision: Any) -> str:
    if type(decision) not in KINDS:
        return f"its plan has {_shown(decision)} among its decisions; use {', '.join(kind.__name__ for kind in KINDS)}"
    for field in fields(decision):
        value = getattr(decision, field.name)
        if not _FIELDS[field.name](value):
            return f"its plan has {type(decision).__name__} with {field.name}={_shown(value)}"
    return ""


def _is_time(value: object) -> bool:
    return isinstance(value, Real) and not math.isnan(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral)


def _whole_numbers(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(number, Integral) for number in value)


def _is_placement(value: object) -> bool:
    return (
        isinstance(value, Placement)
        and isinstance(value.nodes, tuple | list)
        and all(_whole_numbers(nodes) for nodes in value.nodes)
    )


_FIELDS: dict[str, Callable[[object], bool]] = {
    "job": _is_text, "role": _is_text, "placement": _is_placement, "nodes": _whole_numbers, "cpu": _is_whole,
    "memory": _is_whole, "because": lambda value: isinstance(value, Because), "until": _is_time,
}  # fmt: skip
"""What the fields of decisions must be."""


def _shown(value: object) -> str:
    """As a person reads it: None and numbers as they are, else the kind of thing."""
    return repr(value)[:LONGEST_TEXT] if value is None or isinstance(value, Real | str) else f"a {type(value).__name__}"


def plain(plan: Plan) -> Plan:
    """The same plan with Python's own numbers and tuples: numpy's cannot be written to a log."""
    return Plan(tuple(_plain_decision(decision) for decision in plan.decisions), float(plan.until))


def _plain_decision(decision: Decision) -> Decision:
    changed: dict[str, Any] = {}
    for field in fields(decision):
        value = getattr(decision, field.name)
        if isinstance(value, Placement):
            if any(type(node) is not int for nodes in value.nodes for node in nodes) or type(value.nodes) is not tuple:
                changed[field.name] = Placement(tuple(tuple(map(int, nodes)) for nodes in value.nodes), value.requests)
        elif field.name == "nodes":
            changed["nodes"] = tuple(map(int, value))
        elif field.name in ("cpu", "memory"):
            changed[field.name] = int(value)
        elif field.name == "until":
            changed["until"] = float(value)
    return replace(decision, **changed) if changed else decision


# ── does it do anything ─────────────────────────────────────────────────────────────────────────────────────


def stalls(snapshot: Snapshot, plan: Plan, safe: Policy) -> str:
    """Says that nothing runs and nothing is started although a job fits; empty if that is not so."""
    idle = not plan.decisions and plan.until == math.inf and not snapshot.placements and not snapshot.flights
    if not idle or not len(snapshot.jobs.waiting()):
        return ""
    fits = [decision.job for decision in safe(snapshot).decisions if isinstance(decision, Start)]
    if not fits:
        return ""
    return f"it starts nothing, although nothing runs and {fits[0]!r} fits; {len(snapshot.jobs.waiting())} wait"
