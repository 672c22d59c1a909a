"""Rules that no linter holds: small files and functions, and a core without clock, chance, network or files."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/headway"
FILES = sorted(SOURCE.rglob("*.py"))
PURE = ["core", "cycle", "estimates", "policies"]
IMPURE = {
    "time", "datetime", "random", "secrets", "logging", "socket", "subprocess", "threading", "asyncio", "pathlib", "io",
    "os", "shutil", "tempfile", "urllib", "http", "sys",
}  # fmt: skip


def _imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_know_no_clock_chance_network_or_files(package):
    for file in (SOURCE / package).rglob("*.py"):
        tree = ast.parse(file.read_text())
        assert not _imports(tree) & IMPURE, f"{file.name} imports {_imports(tree) & IMPURE}"
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & {"open", "print", "input"}, f"{file.name} uses {names & {'open', 'print', 'input'}}"


def test_nobody_asks_whether_it_is_a_simulation():
    for file in FILES:
        text = file.read_text()
        assert "if simulate" not in text
        assert "is_simulation" not in text


MOST_LINES, MOST_FUNCTION_LINES = 500, 40
"""As CONTRIBUTING.md states them."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_files_and_functions_stay_small(file):
    lines = file.read_text().splitlines()
    assert len(lines) <= MOST_LINES, (
        f"{file.name} has {len(lines)} lines: is there a noun in it that wants its own file?"
    )
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - _body(node).lineno + 1
            assert length <= MOST_FUNCTION_LINES, f"{file.name}: {node.name} has {length} lines"


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    """Its first statement, behind the docstring."""
    return function.body[1 if ast.get_docstring(function) and len(function.body) > 1 else 0]


def test_contributing_states_the_limits_that_are_checked():
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text()
    assert f"at most {MOST_LINES} lines, function bodies at most {MOST_FUNCTION_LINES}" in text


ONE_TOPIC = (
    "beliefs",
    "compare",
    "core",
    "cycle",
    "estimates",
    "experiment",
    "kube",
    "progress_server",
    "record",
    "sim",
    "trained",
)
"""Rooms without files that are a part of one other file."""
MIN_LINES = 60


def test_a_file_is_a_topic():
    """A short file that one other file imports belongs into that."""
    importers: dict[str, set[Path]] = {}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    importers.setdefault(name, set()).add(file)
    for room in ONE_TOPIC:
        for file in (SOURCE / room).rglob("*.py"):
            module = ".".join(("headway", *file.relative_to(SOURCE).with_suffix("").parts))
            users = importers.get(module, set()) - {file}
            short = len(file.read_text().splitlines()) < MIN_LINES and file.name != "__init__.py"
            alone = len(users) == 1 and users.pop().is_relative_to(SOURCE / room)  # a part of another room it cannot be
            assert not (short and alone), f"{file} is a part of the file that imports it"


MOST_MODULES = 14


def test_no_room_of_the_live_scheduler_is_crowded():
    for folder in (one for one in (SOURCE / "kube").rglob("*") if one.is_dir()):
        count = sum(file.name != "__init__.py" for file in folder.glob("*.py"))
        assert count <= MOST_MODULES, f"{folder.name} has {count} modules"


def test_a_gang_is_changed_in_its_own_room_only():
    """Others give it messages: `take` and `step` say what becomes of it."""
    for file in (SOURCE / "kube").rglob("*.py"):
        if file.parent.name != "gangs":
            assert not gang_changes(file.read_text()), file


GANG_CHANGES = {"freezes", "becomes", "told_again"}


def gang_changes(text: str) -> list[int]:
    """The lines that call one of these, or `replace` something that is named a gang."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = {id(call): ast.unparse(call.func).rpartition(".")[2] for call in calls}
    return [
        call.lineno for call in calls
        if named[id(call)] in GANG_CHANGES
        or (named[id(call)] == "replace" and call.args and ast.unparse(call.args[0]).lower().endswith("gang"))
    ]  # fmt: skip


def test_a_change_of_a_gang_is_seen():
    assert gang_changes("x = replace(gang, job=1)\ny = replace(entry.gang, job=1)\nvalues.replace(new_gang)") == [
        1,
        2,
        3,
    ]
    assert gang_changes("gang.becomes(1)\nreplace(gang.job, can=0)\n'gang'.replace('a', 'b')") == [1]


def test_every_module_says_what_it_is_for():
    without = [str(file.relative_to(SOURCE)) for file in FILES if not ast.get_docstring(ast.parse(file.read_text()))]
    assert not without


def test_test_files_have_names_of_their_own():
    """Test folders are no packages: two files of one name cannot be collected together."""
    names = [file.name for file in Path(__file__).parent.rglob("*.py") if file.name != "conftest.py"]
    assert sorted(set(names)) == sorted(names), {name for name in names if names.count(name) > 1}


@pytest.mark.parametrize("file", sorted((SOURCE.parents[1] / "bench").glob("*.py")), ids=lambda file: file.name)
def test_benches_use_names_that_headway_has(file):
    """A bench is run rarely: nobody would notice that what it imports has moved."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "headway":
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or find_spec(f"{node.module}.{name}"), f"{node.module} has no {name}"
