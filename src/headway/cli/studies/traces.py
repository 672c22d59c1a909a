"""`headway traces`: where published traces come from, and whether a folder has them."""

from __future__ import annotations

import json as json_
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from headway.cli.options import Json
from headway.cli.screen.live import Bars
from headway.cli.screen.say import say, wrapped
from headway.cli.screen.tables import TableColumn, fitted, folded
from headway.core.errors import UserError
from headway.experiment.trace_folder import VARIABLE
from headway.experiment.trace_needs import files_by_experiment
from headway.workload.origins.check import Checked, check, lacking
from headway.workload.origins.convert import WAYS, Converted
from headway.workload.origins.convert import convert as make
from headway.workload.origins.table import COLLECTIONS, Origin, Repository, origins

HELP = "Tell where published traces come from, make the folder that experiments read, and check it."
INTRODUCTION = (
    "Traces that experiments read. None is part of Headway. To make the folder, clone the repositories into one place "
    "and convert: `headway traces convert CLONES FOLDER` (it prints the git commands for those that are not there). "
    f"Then {VARIABLE}=FOLDER. `headway traces check` says what is there."
)
LABEL = 11
SHOWN = 5
"""More missing files of one collection than these are counted."""

app = typer.Typer(invoke_without_command=True, help=HELP)
Folder = Annotated[Path | None, typer.Argument(help=f"The folder of traces. Default: {VARIABLE}.")]


@app.callback()
def traces(
    context: typer.Context,
    json: Json = False,
) -> None:
    """Tell where published traces come from, make the folder that experiments read, and check it."""
    if context.invoked_subcommand is not None:
        return
    users = _users()
    if json:
        print(json_.dumps([_as_json(name, list(files), users) for name, files in _by_collection()]))
        return
    print(wrapped(INTRODUCTION, _width()))
    for name, files in _by_collection():
        print()
        for line in _block(name, list(files), users):
            print(line)


@app.command("check")
def check_(folder: Folder = None, json: Json = False) -> None:
    """Say which traces a folder has: as published, readable, with as many jobs; and which experiments can run.

    Exit code 1 if a file is missing or differs.
    """
    place = _folder(folder)
    with Bars([str(place)], quiet=json) as bars:
        found = check(place, origins(), lambda share: bars.set(0, share))
    by_file = {one.origin.file: one for one in found}
    runs = {name: [one.origin.file for one in lacking(files, by_file)] for name, files in files_by_experiment().items()}
    if json:
        told = [
            {"file": one.origin.file, "state": one.state, "says": one.says, "jobs": one.jobs} for one in found
        ]  # fmt: skip
        print(json_.dumps({"folder": str(place), "files": told, "experiments": {n: not f for n, f in runs.items()}}))
    else:
        _tell_check(found, runs)
    raise typer.Exit(int(any(one.state != "ok" for one in found)))


@app.command()
def convert(
    clones: Annotated[Path, typer.Argument(help="The folder with clones of the repositories, by their own names.")],
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Make the folder of traces from clones of the repositories that publish them. Nothing is downloaded.

    Files that are there stay as they are. Exit code 1 if a clone is not there or has other content.
    """
    if not clones.is_dir():
        raise UserError(f"{clones}: there is no such folder; make it, and clone the repositories into it")
    place = _folder(folder)
    with Bars([str(place)], quiet=json) as bars:
        found = make(clones, place, origins(), lambda share: bars.set(0, share))
    if json:
        told = {name: [one.file for one in getattr(found, name)] for name in ("made", "kept", "other")}
        print(json_.dumps({**told, "clone": [one.clone for one in found.absent]}))
    else:
        _tell_convert(clones, place, found)
    raise typer.Exit(int(bool(found.absent or found.other)))


def _folder(given: Path | None) -> Path:
    named = str(given or os.environ.get(VARIABLE, ""))
    if not named:
        raise UserError(f"name a folder of traces, or set {VARIABLE} to it; `headway traces` says where they come from")
    return Path(named)


# ── where they come from ──────────────────────────────────────────────────────────────────────────────────────


def _by_collection() -> Iterable[tuple[str, Iterable[Origin]]]:
    return groupby(origins(), lambda one: one.collection)


def _users() -> dict[str, list[str]]:
    """File to the experiments that read it."""
    found: dict[str, list[str]] = {}
    beside = {one.file: one.beside for one in origins() if one.beside}
    for name, files in files_by_experiment().items():
        for file in dict.fromkeys([*files, *(beside[file] for file in files if file in beside)]):
            found.setdefault(file, []).append(name)
    return found


def _block(name: str, files: Sequence[Origin], users: Mapping[str, Sequence[str]]) -> list[str]:
    known = COLLECTIONS[name]
    jobs = sum(one.jobs or 0 for one in files)
    lines = [_line(name, f"{known.about}. {jobs:,} jobs, {_size(files)}.")]
    for (repository, way), group in groupby(files, lambda one: (one.repository, one.way)):
        branch = f"branch {repository.branch}, " if repository.branch else ""
        lines += [_line("" if number else "  files", text) for number, text in enumerate(_groups(list(group)))]
        lines.append(_line("  from", f"{repository.url} ({branch}{repository.commit} of {repository.date})"))
        lines.append(_line("  licence", repository.licence))
        if way != "as published":
            lines.append(_line("  made", WAYS[way].about))
    read_by = {user for one in files for user in users.get(one.file, ())}
    scripts = [f"bench/{script}" for script in known.bench]
    lines.append(_line("  used by", ", ".join([*sorted(read_by), *scripts])))
    return lines


def _groups(files: Sequence[Origin]) -> list[str]:
    """A file, or a folder of several, with what it is in the repository."""
    found = []
    for folder, inside in groupby(files, lambda one: "/".join(one.file.split("/")[: 2 if one.jobs is None else -1])):
        together = list(inside)
        jobs = sum(one.jobs or 0 for one in together)
        amount = [f"{len(together)} files"] * (len(together) > 1) + [f"{jobs:,} jobs"] * (jobs > 0)
        ours = f"{folder}/" if len(together) > 1 else together[0].file
        found.append(f"{ours} of {_common(together)}{': ' if amount else ''}{', '.join(amount)}")
    return found


def _common(files: Sequence[Origin]) -> str:
    """Where they are in the repository."""
    if len(files) == 1:
        return files[0].published
    return f"{os.path.commonpath([Path(one.published).parent for one in files])}/"


def _line(label: str, text: str) -> str:
    """Text beside a label. Only a path that is too long for a line is broken."""
    room = _width() - LABEL - 1
    lines = [part for line in wrapped(text, room).splitlines() for part in folded(Text(line), room).plain.splitlines()]
    return "\n".join(f"{label if not number else '':{LABEL}} {line}" for number, line in enumerate(lines))


def _width() -> int:
    return min(shutil.get_terminal_size().columns, 120)


def _size(files: Sequence[Origin]) -> str:
    size = sum(one.bytes for one in files)
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"


def _as_json(name: str, files: Sequence[Origin], users: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    repositories: dict[str, Repository] = {one.repository.name: one.repository for one in files}
    return {
        "collection": name, "about": COLLECTIONS[name].about,
        "repositories": [
            {"repository": one.name, "url": one.url, "branch": one.branch, "commit": one.commit, "date": one.date,
             "licence": one.licence, "clone": one.clone}
            for one in repositories.values()
        ],
        "files": [
            {"file": one.file, "repository": one.repository.name, "published": one.published,
             "made": WAYS[one.way].about, "beside": one.beside, "jobs": one.jobs, "bytes": one.bytes,
             "sha256": one.sha256, "experiments": list(users.get(one.file, ()))}
            for one in files
        ],
        "bench": list(COLLECTIONS[name].bench),
    }  # fmt: skip


# ── what is there ─────────────────────────────────────────────────────────────────────────────────────────────


def _tell_check(found: Sequence[Checked], runs: Mapping[str, Sequence[str]]) -> None:
    console = Console()
    rows = []
    for name, group in groupby(found, lambda one: one.origin.collection):
        files = list(group)
        good = [one for one in files if one.state == "ok"]
        jobs = sum(one.jobs or 0 for one in files)
        rows.append([name, f"{len(good)} of {len(files)}", f"{jobs:,}" if jobs else "", _states(files)])
    columns = [TableColumn("collection", left=True), TableColumn("as published"), TableColumn("jobs"),
               TableColumn("", is_text=True)]  # fmt: skip
    console.print(fitted("", columns, rows, console.width))
    for line in _wrong(found):
        print(line)
    answers = [[name, "yes" if not files else f"no: {_listed(files)}"] for name, files in runs.items()]
    names = [TableColumn("experiment", left=True), TableColumn("can run", is_text=True)]
    console.print(fitted("", names, answers, console.width))


def _states(files: Sequence[Checked]) -> str:
    counted = {state: sum(one.state == state for one in files) for state in ("missing", "differs", "unreadable")}
    return ", ".join(f"{count} {state}" for state, count in counted.items() if count) or "complete"


def _wrong(found: Sequence[Checked]) -> list[str]:
    """Of each file what is wrong with it. Where a whole collection is not there, the table says so."""
    told = []
    for _, group in groupby(found, lambda one: one.origin.collection):
        files = list(group)
        missing = [one.origin.file for one in files if one.state == "missing"]
        if missing and len(missing) < len(files):
            told += [_line("missing", file) for file in missing[:SHOWN]]
            told += [_line("", f"and {len(missing) - SHOWN} more")] * (len(missing) > SHOWN)
        told += [_line(one.state, one.says) for one in files if one.state in ("differs", "unreadable")]
    return told


def _listed(files: Sequence[str]) -> str:
    more = len(files) - 1
    return files[0] + (f" and {more} more" if more else "")


def _tell_convert(clones: Path, place: Path, found: Converted) -> None:
    total = sum(map(len, (found.made, found.kept, found.other)))
    say(f"{place}: {total} of {len(origins())} files, {total - len(found.kept)} of them made now")
    for one in found.other:
        say(f"{one.file}: made, but {one.repository.name} has other content than Headway's figures are from")
    if found.absent:
        without = sum(map(len, found.absent.values()))
        say(f"{without} files are not in {clones}: a repository is not there, or at another branch. Run there:")
        for repository in found.absent:
            print(f"  {repository.clone}")
