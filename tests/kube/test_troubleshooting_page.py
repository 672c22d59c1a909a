"""Every phase and every reason of a status is on the page of troubleshooting, and no other is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import headway.kube
from headway.core.plan import Because
from headway.core.reason import Code
from headway.core.states import STATES
from headway.kube.gangs import intent, outcome
from headway.kube.gangs.fault import FAULT
from headway.kube.pods import conditions
from headway.kube.views import explain, status

PAGE = Path(__file__).parents[2] / "docs/troubleshooting.md"
KUBE = Path(headway.kube.__path__[0])
POSITION = {"take_down": 2, "_running": 2, "_keep_running": 1, "_refuse": 2}
"""Functions that are given a reason, and as which argument."""
ELSEWHERE = {"NotSeenYet", "Unknown"}
"""Of `headway why`, and of the metrics."""


def words(heading: str) -> set[str]:
    """The names in the first column of the table below this heading."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def written() -> set[str]:
    """Reasons that the code of the gangs writes as words: given to a function, as `reason=` or under "reason"."""
    found = set()
    for room in ("gangs", "intake", "views"):
        for file in (KUBE / room).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                found |= set(_reasons(node))
    return {reason for reason in found if reason}


def _reasons(node: ast.AST):
    given: list[ast.expr | None] = []
    if isinstance(node, ast.Call):
        given += [one.value for one in node.keywords if one.arg == "reason"]
        place = POSITION.get(getattr(node.func, "attr", getattr(node.func, "id", "")))
        if place is not None and place < len(node.args):
            given.append(node.args[place])
    if isinstance(node, ast.Dict):
        given += [value for key, value in zip(node.keys, node.values, strict=True)
                  if isinstance(key, ast.Constant) and key.value == "reason"]  # fmt: skip
    for one in given:
        yield from (
            part.value for part in ast.walk(one) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )


def test_the_search_finds_what_is_known_to_be_there():
    assert {"Unplaceable", "Interrupted", "Released", "SizeChanged", "InvalidSpec", "SaveTimedOut"} <= written()
    assert written() >= status._BAD - {FAULT}


def test_every_reason_is_on_the_page_and_nothing_else_is():
    named = {value for name, value in vars(intent).items() if name in ("EVICTED", "QUOTA_FULL", "NAME_TAKEN")}
    named |= {FAULT, outcome.SUSPENDED[0], outcome.CANCELLED[0], *explain.WHYS}
    named |= {because.value.capitalize() for because in Because} | {conditions.camel(code) for code in Code}
    named |= {state.name.capitalize() for state in STATES}
    told = words("Why a job waits") | words("What became of a job")
    assert told == named | written() | ELSEWHERE


def test_every_phase_is_on_the_page():
    assert words("Phases") == {*status.PHASES.values(), status.SUSPENDED}


def test_the_reasons_of_pods_are_on_the_page():
    assert words("Pods") == {conditions.UNSCHEDULABLE, conditions.WAITING, conditions.HELD_BACK}


def test_what_waits_is_told_apart_from_what_became_of_it():
    assert words("Why a job waits") >= explain.WHYS
    assert words("What became of a job") & {conditions.camel(code) for code in Code} == set()
