"""The jobs that a file wants beside those that are known, and what becomes of each.

One comparison for both cases: between two runs the log is what is known, during a run the board is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from headway.core.job import Job, JobId, Role
from headway.core.states import OVER, State
from headway.record.env_marks import same_env
from headway.record.lines import pack_job, unpack_job


@dataclass(frozen=True, slots=True)
class Differences:
    """Every job that is known or wanted, except those that are over and no longer wanted."""

    finished: list[JobId] = field(default_factory=list)
    unfinished: list[JobId] = field(default_factory=list)
    """As they were, and not over."""
    again: list[JobId] = field(default_factory=list)
    """Failed or cancelled before; they go on from their checkpoints."""
    edited: list[JobId] = field(default_factory=list)
    """Not over. The file says something else of them, but they run the same: they go on under their new terms."""
    other_arguments: list[JobId] = field(default_factory=list)
    """They run the same program with other arguments, over before or not: they go on from their checkpoints."""
    afresh: list[JobId] = field(default_factory=list)
    """They run something else than before."""
    new: list[JobId] = field(default_factory=list)
    removed: list[JobId] = field(default_factory=list)
    """Not over, and no longer in the file."""


SCRIPTS = (".py", ".sh", ".pl", ".rb", ".jl", ".lua", ".R", ".js")
Known = Mapping[JobId, tuple[Job, State]]


def differences(known: Known, jobs: Sequence[Job], key: bytes = b"") -> Differences:
    """`key` is that of the marks that known jobs may have in place of env values."""
    found, wanted = Differences(), {job.id for job in jobs}
    for job in jobs:
        getattr(found, _kind(job, known, key)).append(job.id)
    found.removed.extend(job_id for job_id, (_, state) in known.items() if job_id not in wanted and state not in OVER)
    return found


def _kind(job: Job, known: Known, key: bytes) -> str:
    """The list of `Differences` that it belongs to."""
    if job.id not in known:
        return "new"
    old, state = known[job.id]
    if not keeps_checkpoint(job, old, key):
        return "afresh"
    if not runs_the_same(job, old, key):
        return "other_arguments"
    if state in OVER:
        return "finished" if state is State.FINISHED else "again"
    return "unfinished" if same_terms(job, old) else "edited"


def runs_the_same(one: Job, other: Job, key: bytes = b"") -> bool:
    """Whether they are the same roles with the same commands and env."""
    return _alike(one, other, key, lambda command: command)


def keeps_checkpoint(job: Job, old: Job, key: bytes = b"") -> bool:
    """Whether the job goes on from a checkpoint of the old one: the same roles with the same programs and env.

    Example: `python train.py --steps 400` becomes `--steps 600`. A job may say that it starts afresh then.
    """
    return _alike(job, old, key, (lambda command: command) if job.fresh else program)


def program(command: tuple[str, ...]) -> tuple[str, ...]:
    """The words that say what runs, without its arguments: up to the script, else the first word.

    Example: `python -u train.py --steps 400` is `python -u train.py`. The text after `-c` is a program.
    """
    for number, word in enumerate(command):
        if word.endswith(SCRIPTS) or (number and command[number - 1] in ("-m", "-c")):
            return command[: number + 1]
    return command[:1]


def _alike(one: Job, other: Job, key: bytes, of: Callable[[tuple[str, ...]], tuple[str, ...]]) -> bool:
    roles, others = _as_logged(one).roles, _as_logged(other).roles
    if [(role.name, of(role.command)) for role in roles] != [(role.name, of(role.command)) for role in others]:
        return False
    return all(same_env(a.env, b.env, key) for a, b in zip(one.roles, other.roles, strict=True))


def same_terms(one: Job, other: Job) -> bool:
    """Whether they differ at most in what they run and in when they were submitted."""
    return _terms(one) == _terms(other)


def as_edited(job: Job, old: Job) -> Job:
    """The job as the file has it now. It stays submitted when it was, and its deadline counts from then."""
    same = _deadline_after(job) == _deadline_after(old)
    deadline = old.deadline if same or job.deadline is None else job.deadline - job.submit + old.submit
    return replace(job, submit=old.submit, deadline=None if job.deadline is None else deadline)


def submitted_at(job: Job, now: float) -> Job:
    """The job with its times counted from now."""
    return replace(job, submit=job.submit + now, deadline=None if job.deadline is None else job.deadline + now)


def _terms(job: Job) -> Job:
    """All but what it runs, with its deadline counted from its submission; the submission may have been shifted."""
    return replace(_as_logged(job), submit=0.0, deadline=_deadline_after(job))


def _deadline_after(job: Job) -> float | None:
    return None if job.deadline is None else round(job.deadline - job.submit, 3)


def _as_logged(job: Job) -> Job:
    """The job as a log gives it back, without env."""
    bare = replace(job, roles=tuple(_without_env(role) for role in job.roles))
    try:
        return unpack_job(msgspec.json.decode(msgspec.json.encode(dict(pack_job(bare)))))
    except UnicodeEncodeError:  # a lone surrogate in a text
        return bare


def _without_env(role: Role) -> Role:
    return replace(role, env=()) if role.env else role
