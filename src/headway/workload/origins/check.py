"""Whether a folder has the published traces: which are there, as published, and readable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.core.errors import UserError
from headway.workload.errors import WorkloadError
from headway.workload.open import open_workload
from headway.workload.origins.convert import content_of, digest
from headway.workload.origins.table import Origin

State = Literal["ok", "missing", "differs", "unreadable"]


@dataclass(frozen=True, slots=True)
class Checked:
    origin: Origin
    state: State
    says: str = ""
    jobs: int | None = None
    """How many its reader found."""

    @property
    def serves(self) -> bool:
        """Experiments can run with it, if not on the same jobs."""
        return self.state in ("ok", "differs")


def check(folder: Path, wanted: Sequence[Origin], tell: Callable[[float], None]) -> tuple[Checked, ...]:
    """Reads every file."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    found = []
    for number, one in enumerate(wanted):
        tell(number / len(wanted))
        found.append(_look(folder / one.file, one))
    return tuple(found)


def _look(path: Path, one: Origin) -> Checked:
    if not path.exists():
        return Checked(one, "missing")
    try:
        same = digest(content_of(path)) == one.sha256
        jobs = None if one.jobs is None else len(open_workload(path).jobs)
    except WorkloadError as error:
        return Checked(one, "unreadable", str(error))
    if same and jobs == one.jobs:
        return Checked(one, "ok", "", jobs)
    amount = "" if jobs == one.jobs else f", {jobs:,} jobs instead of {one.jobs:,}"
    return Checked(one, "differs", f"{path}: not the content that was published{amount}", jobs)


def lacking(needs: Iterable[str], found: Mapping[str, Checked]) -> list[Checked]:
    """What keeps an experiment with these needs from running. A reader's table counts with its trace."""
    files = dict.fromkeys(needs)
    files |= dict.fromkeys(found[file].origin.beside for file in files if found[file].origin.beside)
    return [found[file] for file in files if not found[file].serves]
