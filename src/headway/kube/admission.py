"""Takes in TrainingJobs. A valid one goes on from the state in its status; an invalid one gets an error status."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headway.core.board import Board
from headway.core.gang import SaveRound
from headway.core.job import Job, JobId
from headway.core.states import OVER, State
from headway.kube.adoption import Admitted, by_owner, put_on_board, take_over
from headway.kube.amendment import pending, take_in, withdraw
from headway.kube.api.objects import Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.expiry import Expiry
from headway.kube.fence import FAULT, sentence
from headway.kube.held_back import HeldBack
from headway.kube.incoming import Reading, by_age
from headway.kube.job.claims import check_own_template, settled
from headway.kube.job.intent import Intent
from headway.kube.job.kept_status import KeptStatus, suits
from headway.kube.job.orders import read_orders
from headway.kube.job.spec import JobSpec, SpecError, job_id
from headway.kube.job.terms import stretched
from headway.kube.newcomers import Newcomers
from headway.kube.pod.constraints import Unplaceable
from headway.kube.pod_rules import RULES
from headway.kube.recasting import Recasting
from headway.kube.refusals import Refusals
from headway.kube.rehearsal import Cast, Rehearsals, Rehearsed
from headway.kube.roster import PodRoster
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked
from headway.kube.versions import Versions
from headway.kube.worker import ApiWorker

log = logging.getLogger("headway.kube")
HOLD_NOTHING = frozenset({*OVER, State.WAITING})
PASSING_SECONDS = 3.0
"""After this a job that lacks a claim or a volume is looked at again."""


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
    """At the start, by the uid of the job."""
    _reading: Reading = field(init=False)
    rehearsals: Rehearsals = field(init=False)
    held_back: HeldBack = field(init=False)
    recasting: Recasting = field(init=False)
    refusals: Refusals = field(init=False)

    def __post_init__(self) -> None:
        self._reading = Reading(self.settings.began)
        self.rehearsals = Rehearsals(self.settings.pods)
        self.held_back = HeldBack(self.worker, self.rehearsals)
        self.recasting = Recasting(self.rehearsals, self.held_back)
        self.refusals = Refusals(self.worker, self.settings.began)

    expiry: Expiry = field(default_factory=Expiry)
    newcomers: Newcomers = field(default_factory=Newcomers)
    _versions: Versions = field(default_factory=Versions)
    _later: dict[JobId, TrainingJob] = field(default_factory=dict)
    """Jobs that wait for an earlier job of the same name to be deleted."""

    def first(self, objects: Sequence[TrainingJob], pods: Iterable[Pod] = ()) -> list[Admitted]:
        """Takes in the jobs that hold something at the start, also those that are over and have pods left. The others
        are newcomers: they come in by and by, with the answers to their dry runs.
        """
        self._pods = by_owner(pods, {found.metadata.uid for found in objects})
        admitted = []
        for found in by_age(objects):
            self._versions.take(found.metadata)
            kept = self._reading.status(found)
            self.expiry.see(found, kept)
            state = State.WAITING if kept is None else kept.intent.state
            if found.metadata.uid not in self._pods and state in HOLD_NOTHING:
                if state is State.WAITING:
                    self.newcomers.put(found)
            elif (entry := self._admit(found)) is not None:
                admitted.append(entry)
        self._pods = {}
        self._reading.end()
        return admitted

    def some(self) -> list[Admitted]:
        """Takes in newcomers, as many as this turn has time for."""
        return [entry for found in self.newcomers.this_turn() if (entry := self._come(found)) is not None]

    def rehearse(self, objects: Sequence[TrainingJob]) -> Rehearsals:
        """Asks how pods of the jobs that have some would be, if they were made now; the answers come into the inbox."""
        self._reading.begin(objects)
        for found in objects:
            with contextlib.suppress(Exception):  # what is wrong with it is said when it is taken in
                kept, meta = self._reading.status(found), found.metadata
                if kept is not None and kept.intent.state not in HOLD_NOTHING:
                    spec, job = self._reading.job(found)
                    self.held_back.ask(meta, self.rehearsals.missing(self.rehearsals.parts(job, meta, spec.template)))
        self.ready = True
        return self.rehearsals

    @property
    def to_come(self) -> bool:
        """Whether jobs are known that are not taken in yet."""
        return bool(self.newcomers.waiting or self.held_back.jobs)

    def news(self, message: Any) -> list[Admitted]:
        """Takes in a message of the watch or a rehearsal; returns new jobs, as many as this turn has time for."""
        self.hear(message)
        return self.some()

    def hear(self, message: Any) -> None:
        match message:
            case Rehearsed():
                late = self.held_back.answered(message)
                self.recasting.answered(message, self.jobs, late)
                self._see(late)
            case Listed(kind=kind) | Changed(kind=kind) | Deleted(kind=kind) if kind in RULES:
                if self.recasting.changed(message, self.jobs.values()):
                    self._see(list(self.held_back.jobs.values()))
            case Listed(objects=objects):
                there = {found.metadata.uid for found in objects}
                compared = self._versions.compare(message)
                self._went_back(compared.went_back)
                self.refusals.refused &= there
                self.held_back.keep(there)
                self.newcomers.keep(there)
                for uid, tracked in self.jobs.items():
                    if uid not in there:
                        withdraw(tracked)
                self._see(objects if message.went_back else compared.there)
            case Changed(object=found):
                self._versions.take(found.metadata)
                self._changed(found)
            case Deleted(object=found):
                uid = found.metadata.uid
                self.newcomers.drop(found.metadata)
                self._versions.known.pop(uid, None)
                self.refusals.forget(uid)
                self.expiry.forget(uid)
                self.held_back.jobs.pop(uid, None)
                if uid in self.jobs:
                    withdraw(self.jobs[uid])
                self._later = {key: late for key, late in self._later.items() if late.metadata.uid != uid}

    def _went_back(self, uids: set[str]) -> None:
        """The server has lost what was written to these jobs: it is written again."""
        self.refusals.refused -= uids
        for tracked in (self.jobs[uid] for uid in uids if uid in self.jobs):
            tracked.written, tracked.attention.dirty = None, True

    def enrol(self, admitted: Admitted, now: float) -> bool:
        """Puts the job on the board and returns True, unless it is over: then only its pods matter. One that cannot be
        put there is refused.
        """
        try:
            return put_on_board(admitted, self.settings, now)
        except Exception as error:  # noqa: BLE001  one job must not keep all others out
            self._refuse(admitted.tracked, sentence("take in this job", error))
            return False

    def _refuse(self, tracked: Tracked, why: str) -> None:
        row = self.board.row(tracked.job.id)
        if row is not None:
            self.board.restore(row, State.FAILED, None, None)
        self._drop(tracked)
        self.refusals.reject(tracked.meta, FAULT, why)

    def trust_users(self, since: float | None) -> None:
        """From this Unix time on the user that a job names is who submitted it; never, if None."""
        self.settings = replace(self.settings, claims=replace(self.settings.claims, users_since=since))

    def forget(self, tracked: Tracked) -> list[Admitted]:
        """Drops a job that is over and written. Returns the next job of the same name, if one waits."""
        self._drop(tracked)
        for uid in tracked.replicas:
            self.roster.pop(uid, None)
        late = self._later.pop(tracked.job.id, None)
        return [] if late is None or (admitted := self._admit(late)) is None else [admitted]

    def _drop(self, tracked: Tracked) -> None:
        del self.jobs[tracked.meta.uid]
        self.ids.discard(tracked.job.id)

    def _see(self, objects: Iterable[TrainingJob]) -> None:
        for found in by_age(objects):
            self._changed(found)

    def _changed(self, found: TrainingJob) -> None:
        """Takes in what is new about a job. One that is not followed is a newcomer, if it is to be read at all."""
        meta, kept = found.metadata, self._reading.status(found)
        self.expiry.see(found, kept)
        over = kept is not None and kept.intent.is_over
        tracked = self.jobs.get(meta.uid)
        if tracked is not None:
            take_in(tracked, found, self.settings)
            if tracked.ended is not None and tracked.ended.suspended and not over:
                self._later[tracked.job.id] = found  # it is resumed before it was forgotten
        elif meta.deletionTimestamp is not None or meta.uid in self.refusals.refused or over:
            self.newcomers.drop(meta)
        else:
            self.newcomers.put(found)

    def _come(self, found: TrainingJob) -> Admitted | None:
        key = job_id(found.metadata.namespace, found.metadata.name)
        if key in self.ids:
            self._later[key] = found
            return None
        return self._admit(found)

    def _admit(self, found: TrainingJob) -> Admitted | None:
        kept, orders = self._reading.status(found), read_orders(found.spec)
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
            found.metadata, cast.job, spec.template, self.board, seats=cast.seats, parts=cast.parts, roster=self.roster,
            marks=self.settings.marks, orders=orders, spec=spec, raw=bytes(found.spec),
        )  # fmt: skip
        tracked.saves = SaveRound(int(time.time() * 1000))  # not a number that an earlier process used
        if kept is not None:
            kept = take_over(tracked, kept, self._pods.get(found.metadata.uid, ()), self.settings)
            tracked.terms = pending(tracked, self._reading.job(found)[1])
        self.jobs[found.metadata.uid] = tracked
        self.ids.add(job.id)
        return Admitted(tracked, kept or KeptStatus(Intent(since=job.submit)))

    def _read(self, found: TrainingJob, kept: KeptStatus | None) -> tuple[JobSpec, Job, Cast | None]:
        spec, job = self._reading.job(found)
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
