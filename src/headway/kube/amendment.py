"""A job whose user changes its terms while it lives: checked as at its submission, then taken over where it is.

Example: a job that trains with two workers may have four from now on. It goes on, and policies may let it grow. One
that must have four is saved and stopped first, and starts again with four.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

from headway.core.job import Can, Job
from headway.core.states import State
from headway.core.text import clean
from headway.kube.api.objects import TrainingJob
from headway.kube.fence import sentence
from headway.kube.job.claims import settled
from headway.kube.job.orders import read_orders
from headway.kube.job.spec import SpecError, job_of, read_spec
from headway.kube.job.terms import check_fixed, has_room, under
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked

log = logging.getLogger("headway.kube")
LONGEST_TEXT = 1000


def take_in(tracked: Tracked, found: TrainingJob, settings: KubeSettings) -> None:
    """A job that is followed was changed by its user, or only its status was by us."""
    if found.metadata.deletionTimestamp is not None and not tracked.withdrawn:
        withdraw(tracked)
    orders = read_orders(found.spec)
    if orders != tracked.orders:
        tracked.orders, tracked.attention.dirty = orders, True
    amend(tracked, found, settings)


def withdraw(tracked: Tracked) -> None:
    """The TrainingJob was deleted."""
    tracked.withdrawn = tracked.attention.dirty = True


def amend(tracked: Tracked, found: TrainingJob, settings: KubeSettings) -> None:
    """Takes in the spec of a job that is followed. A change that is refused is told, and the old terms go on."""
    raw = bytes(found.spec)
    if raw == tracked.raw:
        return
    tracked.raw, tracked.attention.dirty, before = raw, True, tracked.change_refused
    try:
        spec = read_spec(raw)
        check_fixed(tracked.spec or spec, spec)
        asked = settled(
            job_of(found, spec, settings.began), found.metadata, spec.template, settings.claims, earlier=False
        )
    except SpecError as error:
        tracked.change_refused = clean(f"{error}; the job goes on as it was", LONGEST_TEXT)
    except Exception as error:  # noqa: BLE001  one object must not end all others
        tracked.change_refused = sentence("read the change of this job", error)
    else:
        tracked.change_refused, tracked.spec = "", spec
        wanted = under(tracked.job, asked)
        tracked.terms, tracked.stays = None if wanted == tracked.job else wanted, False
    if tracked.change_refused != before:
        tracked.written = None
    if tracked.change_refused:
        log.warning("job %s: a change is refused: %s", tracked.job.id, tracked.change_refused)


def pending(tracked: Tracked, asked: Job) -> Job | None:
    """The job as its spec asks for it, if it was taken over with sizes that allow its present gang; else None."""
    if tracked.change_refused:
        return None
    wanted = under(tracked.job, asked)
    wanted = replace(wanted, priority=tracked.job.priority, deadline=tracked.job.deadline, queue=tracked.job.queue)
    return None if wanted == tracked.job else wanted


def apply_terms(job: Tracked, now: float) -> bool:
    """Takes new terms over if the job is in a state for that. Returns whether it did."""
    if job.terms is None or job.ended is not None or job.state not in (State.WAITING, State.RUNNING):
        return False
    counts = {share.role: len(share.nodes) for share in job.intent.allocation or ()}
    if job.state is State.RUNNING and not has_room(job.terms, counts):
        return False
    job.board.replace(job.row, job.terms, now)
    job.job, job.terms, job.written = job.terms, None, None
    job.board.note(job.job.id, "it was changed: it goes on under its new terms")
    log.info("job %s goes on under new terms", job.job.id)
    return True


def apply_cast(job: Tracked, now: float) -> bool:
    """Books a job that waits as its pods will be from now on. Returns whether that is something else."""
    cast, job.recast = job.recast, None
    if cast is None or job.ended is not None or job.state is not State.WAITING:
        return False
    job.seats = cast.seats
    if cast.job == job.job:
        return False
    job.board.replace(job.row, cast.job, now)
    job.job, job.explained_at = cast.job, -math.inf
    log.info("job %s is booked as its pods will be from now on", job.job.id)
    return True


def must_stop(job: Tracked) -> bool:
    """Whether it has to be saved and stopped for its new size; once: one that cannot save goes on at its old size."""
    if job.terms is None or job.stays or job.ended is not None or job.state is not State.RUNNING:
        return False
    job.stays = True
    can = job.job.checkpoints and bool(job.job.can & Can.STOP) and bool(job.savers)
    if not can:
        why = "its new size counts from its next start: it cannot be saved and stopped"
        job.memory, job.written = replace(job.memory, message=why), None
    return can
