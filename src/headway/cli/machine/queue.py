"""The queue of this user on this machine, and runs beside it: which one a command means, and how its jobs are."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from headway.cli.machine.jobs_watch import some
from headway.cli.machine.queue_status import SUSPENDED, TO_COME, JobStatus, QueueStatus, read_status
from headway.cli.screen.clock_times import times_of
from headway.cli.screen.say import say
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, cut, deadline_cell, fitted
from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.text import lasting
from headway.jobspec import mistyped
from headway.local.added import AddedJob, added_jobs, card_of
from headway.local.claims import running_folders
from headway.local.state_folder import disk_is_full, folder_of, home_of_user, is_locked

MOST_OVER = 10
"""Jobs that are over and shown in the table; `--all` shows all that are known."""
COUNTS_SAID = "counts-said"
"""A file in the folder of a run in which it was said what jobs count as that name no resources."""
COLUMNS = (
    TableColumn("job", is_text=True), TableColumn("state", left=True), TableColumn("step", drop=3),
    TableColumn("loss", drop=4), TableColumn("left", drop=2), TableColumn("done", drop=1), TableColumn("deadline"),
    TableColumn("since", drop=5),
    TableColumn("why", is_text=True, one_line=True, least=21),
)  # fmt: skip


def queue_home() -> Path:
    """Where the queue of this user keeps its files."""
    return home_of_user() / "queue"


def meant_folder(state: Path | None = None, file: Path | None = None, option: str = "--to") -> Path:
    """The state folder that a command means.

    That of `--state` or of the named jobs file; else the queue, if it is up; else the run that goes on; else the queue,
    if there is one, or the only run of the current folder.
    """
    if state is not None:
        return folder_of(Path(), state)
    if file is not None:
        if not file.exists() and not folder_of(file).exists():
            raise UserError(f"{option} {file}: does not exist")
        return folder_of(file)
    home, running = queue_home(), running_folders()
    if is_locked(home):
        return home
    if len(running) > 1:
        raise UserError(f"{len(running)} runs go on ({', '.join(map(str, running))}); name one with --state")
    if running:
        return running[0]
    here = sorted(path.parent for path in Path(".headway").resolve().glob("*/run.log"))
    if len(here) == 1:
        return here[0]
    return home


def status_of(folder: Path) -> QueueStatus:
    """How the jobs are. One that was added, and that the run has not seen yet, waits."""
    if not folder.is_dir():
        raise UserError("there is no queue yet: `headway up` starts one, and `headway add -- COMMAND` adds to it")
    status, added = read_status(folder), added_jobs(folder, {})
    known = {job.name: job for job in status.jobs}
    for job, (asked, _) in added.items():
        before = known.get(job)
        again = before is not None and before.is_over and asked.asked / 1e9 > before.since
        if before is None or again or before.state == TO_COME:
            word = SUSPENDED if asked.suspended else TO_COME if asked.job.get("submit") else "waiting"
            known[job] = JobStatus(job, word, deadline=_due(asked))
    status.jobs = [*known.values()]
    for one in status.jobs if not is_locked(folder) else ():
        if not one.is_over and one.state != SUSPENDED:
            one.state, one.left, one.where, one.why = "waiting", None, "", "Headway does not run"
            one.starts = one.done = None
    return status


def _due(added: AddedJob) -> float | None:
    deadline = added.job.get("deadline")
    return added.asked / 1e9 + deadline if isinstance(deadline, int | float) else None


def the_jobs(folder: Path, names: Iterable[str]) -> list[JobStatus]:
    """The jobs of these names."""
    known = {job.name: job for job in status_of(folder).jobs}
    for name in names:
        if name not in known:
            raise UserError(f"{name}: there is no such job{mistyped(name, known)}; `headway jobs` lists them")
    return [known[name] for name in names]


def say_what_counts(folder: Path, jobs: Iterable[Job]) -> None:
    """What a job counts as whose user names no resources; said once in each queue or run."""
    bare = [job.id for job in jobs if any(role.unstated for role in job.roles)]
    if not bare or (folder / COUNTS_SAID).exists():
        return
    with contextlib.suppress(OSError):
        (folder / COUNTS_SAID).touch()
    names, each = ("names", "it") if len(bare) == 1 else ("name", "each")
    say(f"{some(bare)}: {names} no resources; {each} counts as one core and a share of memory until it was measured, "
        "then as what it uses (cpu: and memory: say more)", error=True)  # fmt: skip


def need_added(folder: Path, names: Iterable[str]) -> None:
    """Raises a UserError for a job of a jobs file: a command cannot change that."""
    for name in names:
        if not (folder / "added" / f"{name}.json").exists():
            card = card_of(folder)
            file = card.files[0] if card and card.files else "the jobs file"
            raise UserError(f"{name}: is a job of {file}; change it by editing that file")


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


def show_jobs(folder: Path, *, everything: bool) -> None:
    """Prints the table of `headway jobs`."""
    console, jobs = Console(), status_of(folder).jobs
    alive = [job for job in jobs if not job.is_over]
    over = [job for job in jobs if job.is_over]
    shown = over if everything else over[-MOST_OVER:]
    if jobs:
        console.print(fitted("", COLUMNS, [_row(job) for job in [*shown, *alive]], console.width))
    say(_summary(folder, jobs, len(over) - len(shown)))


def _summary(folder: Path, jobs: Sequence[JobStatus], hidden: int) -> str:
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.state] = counts.get(job.state, 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in counts.items()) or "no jobs"
    parts = [told + (f" ({hidden} of them not shown: --all)" if hidden else "")]
    if not is_locked(folder):
        parts.append("the queue is down: `headway up` goes on" if folder == queue_home() else "the run does not go on")
    elif disk_is_full(folder):
        at = time.strftime("%H:%M:%S", time.localtime(read_status(folder).at))
        parts.append(f"its disk is full: this is as it was at {at}, and no other job starts until there is room")
    return "; ".join(parts)


def _row(job: JobStatus) -> list[str | Text]:
    now = time.time()
    step = "" if job.step is None else f"{job.step}/{job.steps or '?'}"
    loss = "" if job.loss is None else f"{job.loss:.4g}"
    left = "" if job.left is None else lasting(job.left)
    state = Text(job.state, style="red" if job.state == "failed" else "")
    since = lasting(max(0.0, now - job.since)) if job.since else ""
    why = job.why or (_ending(job) if job.is_over or job.state == SUSPENDED else job.where)
    _, done = times_of(job, now)
    return [plain(cut(job.name)), state, step, loss, left, done, _deadline(job, now), since, plain(why)]


def _ending(job: JobStatus) -> str:
    """How it ended, in few words: `exit code 1: ImportError: …`."""
    if job.state == "finished":
        return ""
    return re.sub(r"^\S+ ended with |; its output is in .*|^.*: field ", "", job.note)


def _deadline(job: JobStatus, now: float) -> Text:
    if job.deadline is None or job.state == "cancelled":
        return Text()
    if job.is_over:
        late = job.state != "finished" or job.since > job.deadline
        return Text("missed" if late else "met", style="red" if late else "")
    return deadline_cell(job.deadline - now, job.left)
