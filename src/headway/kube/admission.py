"""Takes in TrainingJobs. A valid one goes on from the state in its status; an invalid one gets an error status."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from headway.core.board import Board
from headway.core.gang import SaveRound
from headway.core.job import Job, JobId
from headway.core.states import OVER, State
from headway.kube.adoption import by_owner, put_on_board, take_over
from headway.kube.amendment import pending, take_in, withdraw
from headway.kube.api.objects import Pod, PodRule, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.expiry import Expiry
from headway.kube.fence import FAULT, sentence
from headway.kube.held_back import HeldBack
from headway.kube.incoming import by_age, kept_status_of
from headway.kube.job.claims import check_own_template, settled
from headway.kube.job.intent import Intent
from headway.kube.job.kept_status import KeptStatus, suits
from headway.kube.job.orders import read_orders
from headway.kube.job.spec import JobSpec, SpecError, job_id, job_of, read_spec
from headway.kube.job.terms import stretched
from headway.kube.pod.constraints import Unplaceable
from headway.kube.refusals import Refusals
from headway.kube.rehearsal import Cast, Rehearsals, Rehearsed
from headway.kube.roster import PodRoster
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked
from headway.kube.versions import Versions
from headway.kube.worker import ApiWorker

log = logging.getLogger("headway.kube")
PASSING_SECONDS = 3.0
"""After this a job that lacks a claim or a volume is looked at again."""


class Admitted(NamedTuple):
    """A job that is not on the board yet, and what its status says."""

    tracked: Tracked
    kept: KeptStatus

    def nodes(self) -> list[str]:
        """The nodes that its status names."""
        return self.kept.intent.nodes()


@dataclass(slots=True)
class Admission:
    board: Board
    worker: ApiWorker
    settings: KubeSettings
    roster: PodRoster = field(default_factory=dict)
    """Which replica each pod of these jobs is."""
    jobs: dict[str, Tracked] = field(default_factory=dict)
    """By the TrainingJob's uid: all jobs that this process follows."""
    ids: set[JobId] = field(default_factory=set)
    ready: bool = False
    """Whether jobs wait until their pods are rehearsed."""
    _pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    """Of jobs that are taken over at the start, by their uid."""
    rehearsals: Rehearsals = field(init=False)
    held_back: HeldBack = field(init=False)
    refusals: Refusals = field(init=False)

    def __post_init__(self) -> None:
        self.rehearsals = Rehearsals(self.settings.pods)
        self.held_back = HeldBack(self.worker, self.rehearsals)
        self.refusals = Refusals(self.worker, self.settings.began)

    expiry: Expiry = field(default_factory=Expiry)
    _versions: Versions = field(default_factory=Versions)
    _later: dict[JobId, TrainingJob] = field(default_factory=dict)
    """Jobs that wait for an earlier job of the same name to be deleted."""

    def first(self, objects: Sequence[TrainingJob], pods: Iterable[Pod] = ()) -> list[Admitted]:
        """Takes in all jobs at the start, also those that are over: some of their pods may be left. Jobs that have no
        pods yet come in with the answers to their dry runs.
        """
        for found in objects:
            self._versions.take(found.metadata)
            self.expiry.see(found, self._kept(found))
        self._pods = by_owner(pods, {found.metadata.uid for found in objects})
        admitted = [entry for found in by_age(objects) if (entry := self._admit(found)) is not None]
        self._pods = {}
        return admitted

    def in_order(self, admitted: Iterable[Admitted]) -> list[Admitted]:
        """Jobs of the start in the order of an earlier run with the same log, then by age."""
        serials, jobs = self.settings.serials, [(entry, entry.tracked.job) for entry in admitted]
        jobs.sort(key=lambda one: (serials.get(one[1].id, math.inf), one[1].submit, one[1].id))
        return [entry for entry, _ in jobs]

    def rehearse(self, objects: Iterable[TrainingJob]) -> Rehearsals:
        """Asks how pods of the jobs that have some would be, if they were made now; the answers come into the inbox."""
        for found in objects:
            with contextlib.suppress(Exception):  # what is wrong with it is said when it is taken in
                kept = self._kept(found)
                if kept is not None and kept.intent.state not in {*OVER, State.WAITING}:
                    spec = read_spec(found.spec)
                    job, meta = job_of(found, spec, self.settings.began), found.metadata
                    self.held_back.ask(meta, self.rehearsals.missing(self.rehearsals.parts(job, meta, spec.template)))
        self.ready = True
        return self.rehearsals

    def news(self, message: Any) -> list[Admitted]:
        """Takes in a message of the watch or a rehearsal; returns the jobs that are new."""
        match message:
            case Rehearsed():
                return self._new(self.held_back.answered(message))
            case Listed(kind=kind) | Changed(kind=kind) | Deleted(kind=kind) if kind is PodRule:
                self.rehearsals.forget()
            case Listed(objects=objects):
                there = {found.metadata.uid for found in objects}
                self._went_back(self._versions.compare(message).went_back)
                self.refusals.refused &= there
                self.held_back.keep(there)
                for uid, tracked in self.jobs.items():
                    if uid not in there:
                        withdraw(tracked)
                return self._new(objects)
            case Changed(object=found):
                self._versions.take(found.metadata)
                admitted = self._changed(found)
                return [] if admitted is None else [admitted]
            case Deleted(object=found):
                uid = found.metadata.uid
                self._versions.known.pop(uid, None)
                self.refusals.forget(uid)
                self.expiry.forget(uid)
                self.held_back.jobs.pop(uid, None)
                if uid in self.jobs:
                    withdraw(self.jobs[uid])
                self._later = {key: late for key, late in self._later.items() if late.metadata.uid != uid}
        return []

    def _went_back(self, uids: set[str]) -> None:
        """The server has lost what was written to these jobs: it is written again."""
        self.refusals.refused -= uids
        for tracked in (self.jobs[uid] for uid in uids if uid in self.jobs):
            tracked.written, tracked.attention.dirty = None, True

    def enrol(self, admitted: Admitted, now: float) -> bool:
        """Puts the job on the board and returns True, unless it is over: then only its pods matter.

        A job whose status makes no sense starts from the beginning. One that cannot be put there at all is refused.
        """
        try:
            return put_on_board(*admitted, self.settings, now)
        except Exception as error:  # noqa: BLE001  one job must not keep all others out
            tracked, why = admitted.tracked, sentence("go on from its status", error)
            log.warning("job %s: %s; it starts from the beginning", tracked.job.id, why)
        try:
            row = self.board.row(tracked.job.id)
            if row is None:
                return put_on_board(tracked, KeptStatus(Intent(since=tracked.job.submit)), self.settings, now)
            tracked.ended = None
            tracked.restore(Intent(since=tracked.job.submit), {})
        except Exception as error:  # noqa: BLE001
            self._refuse(tracked, sentence("take in this job", error))
            return False
        return True

    def _refuse(self, tracked: Tracked, why: str) -> None:
        row = self.board.row(tracked.job.id)
        if row is not None:
            self.board.restore(row, State.FAILED, None, None)
        self._drop(tracked)
        self.refusals.reject(tracked.meta, FAULT, why)

    def trust_users(self, since: float | None) -> None:
        """From this Unix time on the user that a job names is who submitted it; never, if None."""
        self.settings = replace(self.settings, claims=replace(self.settings.claims, users_since=since))

    def give_up(self, uid: str) -> None:
        """This object is not taken in again while this process lives."""
        self.refusals.refused.add(uid)

    def forget(self, tracked: Tracked) -> list[Admitted]:
        """Drops a job that is over and written. Returns the next job of the same name, if one waits."""
        self._drop(tracked)
        for uid in tracked.replicas:
            self.roster.pop(uid, None)
        late = self._later.pop(tracked.job.id, None)
        admitted = None if late is None else self._admit(late)
        return [] if admitted is None else [admitted]

    def _drop(self, tracked: Tracked) -> None:
        del self.jobs[tracked.meta.uid]
        self.ids.discard(tracked.job.id)

    def _new(self, objects: Iterable[TrainingJob]) -> list[Admitted]:
        return [entry for found in by_age(objects) if (entry := self._changed(found)) is not None]

    def _changed(self, found: TrainingJob) -> Admitted | None:
        meta, kept = found.metadata, self._kept(found)
        self.expiry.see(found, kept)
        over = kept is not None and kept.intent.is_over
        tracked = self.jobs.get(meta.uid)
        if tracked is not None:
            take_in(tracked, found, self.settings)
            if tracked.ended is not None and tracked.ended.suspended and not over:
                self._later[tracked.job.id] = found  # it is resumed before it was forgotten
            return None
        if meta.deletionTimestamp is not None or meta.uid in self.refusals.refused or over:
            return None
        key = job_id(meta.namespace, meta.name)
        if key in self.ids:
            self._later[key] = found
            return None
        return self._admit(found)

    def _is_over(self, found: TrainingJob) -> bool:
        kept = self._kept(found)
        return kept is not None and kept.intent.state in OVER

    def _admit(self, found: TrainingJob) -> Admitted | None:
        kept, orders = self._kept(found), read_orders(found.spec)
        if orders.holds_back and (kept is None or kept.intent.state is State.WAITING):
            self.held_back.jobs.pop(found.metadata.uid, None)
            self.refusals.rest(found.metadata, kept, orders)
            return None
        reason = why = ""
        cast: Cast | None = None
        try:
            spec, job, cast = self._read(found, kept)
        except SpecError as error:
            reason, why = "InvalidSpec", str(error)
        except Unplaceable as error:
            reason, why = "Unplaceable", f"spec.template.{error}"
        except Exception as error:  # noqa: BLE001  one object must not keep all others out
            reason, why = FAULT, sentence("read this job", error)
        if why:
            if kept is None or kept.intent.state not in OVER:
                self.refusals.reject(found.metadata, reason, why)
            return None
        if cast is None:
            return None
        if kept is not None and not suits(kept, job):
            log.warning("job %s: its status is ignored, it is of another job", job.id)
            kept = None
        tracked = Tracked(
            found.metadata, cast.job, spec.template, self.board, seats=cast.seats, roster=self.roster,
            marks=self.settings.marks, orders=orders, spec=spec, raw=bytes(found.spec),
        )  # fmt: skip
        tracked.saves = SaveRound(int(time.time() * 1000))  # not a number that an earlier process used
        if kept is not None:
            kept = take_over(tracked, kept, self._pods.get(found.metadata.uid, ()), self.settings)
            tracked.terms = pending(tracked, found, self.settings)
        self.jobs[found.metadata.uid] = tracked
        self.ids.add(job.id)
        return Admitted(tracked, kept or KeptStatus(Intent(since=job.submit)))

    def _read(self, found: TrainingJob, kept: KeptStatus | None) -> tuple[JobSpec, Job, Cast | None]:
        spec = read_spec(found.spec)
        job = job_of(found, spec, self.settings.began)
        job = settled(job, found.metadata, spec.template, self.settings.claims, earlier=kept is not None)
        if kept is not None and kept.terms is not None:
            job = kept.terms.of(job)
        if kept is not None and suits(kept, stretched(job, kept.intent.allocation)):
            job = stretched(job, kept.intent.allocation)
        if kept is None or kept.intent.state is State.WAITING:  # what has pods already goes on with them
            check_own_template(job, spec.template, self.settings.pods)
        return spec, job, self._cast(found, job, spec.template, kept)

    def _cast(self, found: TrainingJob, job: Job, template: Mapping[str, Any], kept: KeptStatus | None) -> Cast | None:
        """The job as its pods will really be; None until that is known. A job that has pods goes on as it is."""
        meta, rehearsals = found.metadata, self.rehearsals
        parts = rehearsals.parts(job, meta, template)
        if kept is not None and kept.intent.state is not State.WAITING:
            with contextlib.suppress(Unplaceable):
                return rehearsals.cast(job, parts)
            return Cast(job, {})
        if self.ready and (missing := rehearsals.missing(parts)):
            self.held_back.hold(found, missing)
            return None
        try:
            return rehearsals.cast(job, parts)
        except Unplaceable as error:
            if not error.passing:
                raise
            rehearsals.forget_parts(parts)
            self.held_back.hold(found, rehearsals.missing(parts), PASSING_SECONDS)
            self.refusals.tell(meta, f"spec.template.{error}")
            return None

    def _kept(self, found: TrainingJob) -> KeptStatus | None:
        return kept_status_of(found, self.settings.began)
