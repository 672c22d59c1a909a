"""Jobs and pods that are not on the board yet, each with a stage. Namespaces take turns, so that none fills the intake.

Example: a tenant has submitted ten thousand jobs, each with a large template of its own. To read them all takes many
seconds. Another tenant's only job is read in the turn after it came. A job that is read waits for a dry run of its
pods, once per template; then it becomes a gang.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.core.job import Job, JobId
from headway.core.states import OVER, State
from headway.core.text import clean
from headway.kube.api.objects import Meta, Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.gangs.fault import FAULT, sentence
from headway.kube.gangs.gang import Around, Gang, Saving, Terms
from headway.kube.gangs.intent import Intent, as_written
from headway.kube.gangs.messages import Faulted, Message, Rebooked, StatusLost, TermsFound, Unbookable, Withdrawn
from headway.kube.gangs.outcome import CANCELLED, SUSPENDED
from headway.kube.gangs.recover import OwnPod, Recovered, fresh_round, recover
from headway.kube.gangs.take import take
from headway.kube.inbox import ClaimsRead
from headway.kube.intake.changes import edited, pending, stretched
from headway.kube.intake.dry_runs import RULES, Booking, DryRunDone, DryRuns, Mutators, RuleNews
from headway.kube.intake.entitlement import check_own_template, settled
from headway.kube.intake.foreign import is_for_us
from headway.kube.intake.groups import GroupRead
from headway.kube.intake.orders import Orders, read_orders
from headway.kube.intake.others import LONGEST_TEXT, PASSING_SECONDS, Others
from headway.kube.intake.reading import Reading, by_age
from headway.kube.intake.spec import JobSpec, SpecError, job_id
from headway.kube.intake.stages import AGAIN_SECONDS, Entry, Expiry, IntakeStage, Reads, Tells
from headway.kube.pods.constraints import Unplaceable
from headway.kube.settings import KubeSettings
from headway.kube.store.versions import Versions
from headway.kube.views.status import event_of, status_of
from headway.kube.views.status_read import KeptStatus, suits, without_nodes

log = logging.getLogger("headway.kube")
MIN_PER_TURN, MAX_PER_TURN = 8, 128
TURN_SECONDS = 0.05


@dataclass(slots=True)
class Intake:
    settings: KubeSettings
    reads: Reads
    tells: Tells
    gangs: Mapping[str, Gang]
    """By uid; the cluster's own."""
    ids: Mapping[JobId, str]
    """Of these: the uid of a gang by its job's id."""
    tell: Callable[[str, Message], None]
    """Gives a gang, by uid, a message."""
    now: Callable[[], float]
    own_pods: Callable[[Gang, Iterable[Pod]], tuple[list[OwnPod], frozenset[str]]]
    """Of pods that say they are of this gang: those that prove it, and the uids of others that hold a node."""
    joins: Callable[[Gang, Sequence[Pod]], None]
    """A pod of others has come to a gang that is on the board."""
    epoch: int = 0
    leader: Callable[[], int] = lambda: 0
    """The epoch of this scheduler."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """By uid."""
    dry_runs: DryRuns = field(init=False)
    mutators: Mutators = field(default_factory=Mutators)
    clock: Callable[[], float] = time.monotonic
    waits_for_dry_runs: bool = False
    _unread: dict[str, dict[str, None]] = field(default_factory=dict)
    """By namespace, uids. The namespace whose turn is next comes first."""
    _waiting_for: dict[str, set[str]] = field(default_factory=dict)
    """By the key of a dry run: entries and gangs that wait for the answer."""
    expiry: Expiry = field(default_factory=Expiry)
    _namesakes: dict[JobId, dict[str, None]] = field(default_factory=dict)
    """By the id of a job that is followed: uids of those that wait until it is forgotten."""
    _reading: Reading = field(init=False)
    _versions: Versions = field(default_factory=Versions)
    _pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    """At the start, by the uid of the job they say they are of."""
    _others: Others = field(init=False)
    _taken: int = 0
    _until: float = 0.0

    def __post_init__(self) -> None:
        self._reading = Reading(self.settings.began, self.settings.pods.template)
        self.dry_runs = DryRuns(self.settings.pods)
        self._others = Others(
            self.settings, self.reads, self.tells, self.gangs, self.ids, self.now, self.joins, self.entries, self._put,
            self._waits,
        )  # fmt: skip

    # ── what is heard ──

    def begin(self, objects: Sequence[TrainingJob], pods: Mapping[str, Sequence[Pod]]) -> None:
        """The first list. Jobs that hold something are asked for first."""
        self._reading.begin(objects)
        self._pods, self.waits_for_dry_runs = pods, True
        for found in objects:
            with contextlib.suppress(Exception):  # what is wrong with it is said when it is taken in
                kept = self._reading.status(found)
                if kept is not None and kept.holds:
                    spec, job = self._reading.job(found, tolerant=True)
                    self._ask(
                        found.metadata, self.dry_runs.missing(self.dry_runs.parts(job, found.metadata, spec.template))
                    )

    def first(self, objects: Sequence[TrainingJob]) -> list[Recovered]:
        """Takes in the jobs that hold something, also those that are over and have pods left. The others are unread."""
        admitted = []
        for found in by_age(objects):
            meta = found.metadata
            self._versions.take(meta)
            kept = self._reading.status(found)
            self.expiry.see(found, kept)
            over = kept is not None and kept.intent.state in OVER
            if meta.uid in self._pods or (kept is not None and kept.holds):
                if (entry := self._admit(found)) is not None:
                    admitted.append(entry)
            elif not over:
                self._put(found)
        self._pods = {}
        self._reading.end()
        return admitted

    def hear(self, message: Any) -> None:
        match message:
            case DryRunDone():
                self._answered(message)
            case ClaimsRead() | GroupRead():
                self._others.hear(message)
            case Listed(kind=kind) | Changed(kind=kind) | Deleted(kind=kind) if kind in RULES:
                self._rules_changed(message)
            case Listed():
                self._listed(message)
            case Changed(object=found):
                if self._versions.take(found.metadata):
                    self._see(found)
            case Deleted(object=found):
                uid = found.metadata.uid
                self._versions.known.pop(uid, None)
                self.gone(found.metadata)
                self._withdrawn(uid)

    def _withdrawn(self, uid: str) -> None:
        if uid in self.gangs:
            self.tell(uid, Withdrawn())
        else:
            self.tells.forget(uid)

    def gone(self, meta: Meta) -> None:
        """The object is gone."""
        self._drop(meta)
        self.expiry.forget(meta.uid)

    def _drop(self, meta: Meta) -> None:
        """It waits for nothing any more."""
        self.entries.pop(meta.uid, None)
        self._others.gone(meta.uid)
        waiting = self._unread.get(meta.namespace, {})
        waiting.pop(meta.uid, None)
        if not waiting:
            self._unread.pop(meta.namespace, None)

    def _listed(self, message: Listed[TrainingJob]) -> None:
        there = {found.metadata.uid for found in message.objects} | set(message.unread)
        compared = self._versions.compare(message)
        for uid in compared.went_back:
            if (entry := self.entries.get(uid)) is not None and entry.stage is IntakeStage.REFUSED:
                del self.entries[uid]
            if uid in self.gangs:
                self.tell(uid, StatusLost())
        for entry in list(self.entries.values()):
            if isinstance(entry.found, TrainingJob) and entry.meta.uid not in there:
                self.gone(entry.meta)
        for uid in compared.gone:
            self._versions.known.pop(uid, None)
            self._withdrawn(uid)
        for uid, gang in list(self.gangs.items()):
            if uid not in there and not gang.is_foreign:
                self.tell(uid, Withdrawn())
        for found in by_age(message.objects if message.went_back else compared.there):
            self._see(found)

    def _see(self, found: TrainingJob) -> None:
        """Takes in what is new about a job. One that is no gang yet is read in its turn, if it is to be read at all."""
        meta, kept = found.metadata, self._reading.status(found)
        self.expiry.see(found, kept)
        over = kept is not None and kept.intent.is_over
        gang, entry = self.gangs.get(meta.uid), self.entries.get(meta.uid)
        if gang is not None:
            if meta.deletionTimestamp is not None and not gang.terms.withdrawn:
                self.tell(meta.uid, Withdrawn())
            self.tell(meta.uid, edited(gang, found, self.settings))
            if kept is not None and kept.epoch < self.leader() and not _is_told(gang, kept):
                self.tell(meta.uid, StatusLost())  # a late word of the last leader, which the next would believe
            self.entries.pop(meta.uid, None)
            if gang.is_over and gang.wanted.suspended and not over:
                self._waits(Entry(found), gang.job.id)  # resumed before it was forgotten
        elif meta.deletionTimestamp is not None or over or (entry and entry.stage is IntakeStage.REFUSED):
            if entry is None or entry.stage is not IntakeStage.REFUSED:
                self._drop(meta)
        else:
            self._put(found)

    def see_pod(self, pod: Pod) -> None:
        """A pod of others that is no gang: it is read in its turn if Headway is to bind it."""
        entry = self.entries.get(pod.metadata.uid)
        if not is_for_us(pod, self.settings):
            if entry is not None:
                self.gone(pod.metadata)
        elif entry is None or entry.stage in (IntakeStage.UNREAD, IntakeStage.REFUSED, IntakeStage.GROUP):
            self._put(pod)
        else:
            entry.found = pod

    # ── turns ──

    @property
    def waiting(self) -> bool:
        """Whether something is to be read now."""
        return bool(self._unread)

    @property
    def to_come(self) -> bool:
        """Whether jobs are known that are not taken in yet."""
        stages = (IntakeStage.UNREAD, IntakeStage.DRY_RUN, IntakeStage.VOLUMES, IntakeStage.NAMESAKE)
        return bool(self._unread) or any(entry.stage in stages for entry in self.entries.values())

    def new_turn(self) -> None:
        self._taken, self._until = 0, self.clock() + TURN_SECONDS

    def some(self) -> Iterator[Recovered]:
        """Gangs that are ready, as many as this turn has time for."""
        while self._unread and self._taken < (MAX_PER_TURN if self.clock() < self._until else MIN_PER_TURN):
            self._taken += 1
            namespace = next(iter(self._unread))
            uids = self._unread.pop(namespace)
            uid = next(iter(uids))
            del uids[uid]
            if uids:
                self._unread[namespace] = uids  # now the last
            entry = self.entries.get(uid)
            if entry is None:
                continue
            found = self._others.taken(entry) if isinstance(entry.found, Pod) else self._job(entry)
            if found is not None:
                for taken in (uid, *(pod.metadata.uid for pod in found.pods)):
                    self.entries.pop(taken, None)
                yield found

    def _put(self, found: TrainingJob | Pod) -> None:
        """A job that is waiting already keeps its place, and is read as it is now."""
        meta = found.metadata
        entry = self.entries.get(meta.uid)
        self.entries[meta.uid] = Entry(found, told="" if entry is None else entry.told)
        self._unread.setdefault(meta.namespace, {})[meta.uid] = None

    def _waits(self, entry: Entry, job: JobId) -> None:
        """Until an earlier gang of this name is forgotten."""
        entry.stage = IntakeStage.NAMESAKE
        self.entries[entry.meta.uid] = entry
        self._namesakes.setdefault(job, {})[entry.meta.uid] = None

    def forgotten(self, job: JobId) -> None:
        """A gang is followed no more: one of the same name may come."""
        for uid in self._namesakes.pop(job, ()):
            if (entry := self.entries.get(uid)) is not None and entry.stage is IntakeStage.NAMESAKE:
                self._put(entry.found)

    # ── TrainingJobs ──

    def _job(self, entry: Entry) -> Recovered | None:
        found = entry.found
        assert isinstance(found, TrainingJob)
        if (job := job_id(found.metadata.namespace, found.metadata.name)) in self.ids:
            self._waits(entry, job)
            return None
        return self._admit(found)

    def _admit(self, found: TrainingJob) -> Recovered | None:
        meta, kept, orders = found.metadata, self._reading.status(found), read_orders(found.spec)
        if orders.holds_back and (kept is None or kept.intent.state is State.WAITING) and meta.uid not in self._pods:
            self._drop(meta)
            self._rest(meta, kept, orders)
            return None
        try:
            read = self._read(found, kept)
        except SpecError as error:
            self._refuse(found, kept, "InvalidSpec", str(error))
            return None
        except Unplaceable as error:
            self._refuse(found, kept, "Unplaceable", f"spec.template.{error}")
            return None
        except Exception as error:  # noqa: BLE001  one object must not keep all others out
            self._refuse(found, kept, FAULT, sentence("read this job", error))
            return None
        if read is None:
            return None
        spec, asked, booking = read
        if kept is not None and not suits(kept, booking.job):
            job = booking.job.id
            log.warning("job %s: its status is ignored, it is of another job", job, extra={"job": job})
            kept = None
        gang = Gang(
            meta=meta, job=booking.job, rules=booking.rules, samples=booking.parts,
            terms=Terms(spec, bytes(found.spec), spec.template, orders, withdrawn=meta.deletionTimestamp is not None),
            saving=Saving(round=fresh_round(self.epoch)), unmarked=kept is not None and not kept.marked,
        )  # fmt: skip
        return self._recovered(gang, kept, asked)

    def _recovered(self, gang: Gang, kept: KeptStatus | None, asked: Job) -> Recovered:
        own, unproven = self.own_pods(gang, self._pods.get(gang.uid, ()))
        now, around = self.now(), Around(timeouts=self.settings.timeouts, limits=self.settings.claims.limits)
        try:
            found = recover(gang, kept, own, unproven, around, now)
        except Exception as error:  # noqa: BLE001  it comes from its status
            why = sentence("go on from its status", error)
            log.warning("job %s: %s", gang.job.id, why, extra={"job": gang.job.id})
            found = recover(gang, None, (), frozenset(), around, now)
            if own:  # its pods stay, and it is told
                found = Recovered(take(found.gang, Faulted(why, now, again=math.inf)), {})
        if kept is None:
            return found
        return Recovered(take(found.gang, TermsFound(pending(found.gang, asked))), found.columns)

    def _read(self, found: TrainingJob, kept: KeptStatus | None) -> tuple[JobSpec, Job, Booking] | None:
        """Its spec, the job as it asks for it, and as its pods will be; None until that is known."""
        holds = (kept is not None and kept.holds) or found.metadata.uid in self._pods
        spec, asked = self._reading.job(found, tolerant=holds)
        earlier = holds or (kept is not None and kept.admitted is not None)
        job = settled(asked, found.metadata, spec.template, self.settings.claims, earlier=earlier)
        if kept is not None and kept.terms is not None:
            job = kept.terms.of(job)
        if kept is not None and suits(kept, stretched(job, kept.intent.allocation)):
            job = stretched(job, kept.intent.allocation)
        if not holds:  # what has pods already goes on with them
            check_own_template(job, spec.template, self.settings.pods)
        booking = self._book(found, job, spec.template, holds=holds)
        return None if booking is None else (spec, asked, booking)

    def _book(self, found: TrainingJob, job: Job, template: Mapping[str, Any], *, holds: bool) -> Booking | None:
        """The job as its pods will really be; None until that is known. A job that has pods goes on as it is."""
        meta, dry_runs = found.metadata, self.dry_runs
        parts = dry_runs.parts(job, meta, template)
        if holds:
            with contextlib.suppress(Unplaceable):
                return dry_runs.book(job, parts)
            return Booking(job, {})
        if self.waits_for_dry_runs and (missing := dry_runs.missing(parts)):
            self._wait(found, missing)
            return None
        try:
            return dry_runs.book(job, parts)
        except Unplaceable as error:
            if not error.passing:
                raise
            dry_runs.forget_parts(parts)
            told = self.entries[meta.uid].told if meta.uid in self.entries else ""
            self._wait(found, dry_runs.missing(parts), PASSING_SECONDS)
            self._tell_waiting(meta, told, f"spec.template.{error}")
            return None

    def _wait(self, found: TrainingJob, missing: Mapping[str, dict[str, Any]], after: float = 0.0) -> None:
        self.entries[found.metadata.uid] = Entry(found, IntakeStage.DRY_RUN)
        for key in missing:
            self._waiting_for.setdefault(key, set()).add(found.metadata.uid)
        self._ask(found.metadata, missing, after)

    def _tell_waiting(self, meta: Meta, told: str, why: str) -> None:
        """Says in the status of a job what it waits for before it is taken in."""
        self.entries[meta.uid].told = why
        if told != why:
            self.tells.status(meta, {"reason": "Unplaceable", "message": clean(why, LONGEST_TEXT)})

    # ── dry runs ──

    def _ask(self, meta: Meta, bodies: Mapping[str, dict[str, Any]], after: float = 0.0) -> None:
        for key in bodies.keys() - self.dry_runs.asked.keys():
            self.dry_runs.asked[key] = after
            self.reads.dry_run(key, meta.namespace, bodies[key], after)

    def _answered(self, answer: DryRunDone) -> None:
        if not self.dry_runs.take(answer):
            return
        uids = self._waiting_for.pop(answer.key, set())
        entries = [entry for uid in uids if (entry := self.entries.get(uid)) and entry.stage is IntakeStage.DRY_RUN]
        gangs = [gang for uid in uids if (gang := self.gangs.get(uid)) is not None and gang.waits]
        metas = [*(gang.meta for gang in gangs), *(entry.meta for entry in entries)]
        if answer.pod is None and metas:  # the server could not answer, as with a full quota
            self._waiting_for[answer.key] = {meta.uid for meta in metas}
            self._ask(metas[0], self.dry_runs.body(answer.key), AGAIN_SECONDS)
        for found in by_age(entry.found for entry in entries if isinstance(entry.found, TrainingJob)):
            self._put(found)
        for gang in gangs:
            self._rebook(gang)

    def _rebook(self, gang: Gang) -> None:
        if self.dry_runs.missing(gang.samples):
            return  # of several answers the last decides
        try:
            self.tell(gang.uid, Rebooked(self.dry_runs.book(gang.job, gang.samples)))
        except Unplaceable as error:
            if not error.passing:
                self.tell(gang.uid, Unbookable(f"spec.template.{error}"))

    def _rules_changed(self, news: RuleNews) -> None:
        """Asks again how pods of the jobs that wait will be, where something has changed that changes pods.

        Example: a mesh is installed while a hundred jobs wait. From now on its webhook adds a sidecar of 2 cpu to every
        pod, so the jobs are booked with it. One dry run for each template shows that.
        """
        namespaces = self.mutators.take(news)
        if not namespaces:
            return
        self.dry_runs.forget()
        for gang in self.gangs.values():
            if gang.waits and not gang.is_foreign and (gang.meta.namespace in namespaces or "" in namespaces):
                missing = self.dry_runs.missing(gang.samples)
                self._ask(gang.meta, missing)
                for key in missing:
                    self._waiting_for.setdefault(key, set()).add(gang.uid)
        for entry in list(self.entries.values()):
            if entry.stage is IntakeStage.DRY_RUN:
                self._put(entry.found)

    # ── what is told to jobs that do not come in ──

    def _refuse(self, found: TrainingJob, kept: KeptStatus | None, reason: str, why: str) -> None:
        """Writes the error to the job's own status. Other jobs are not affected. What has pods keeps them."""
        meta, why = found.metadata, clean(why, LONGEST_TEXT)
        holds = meta.uid in self._pods or (kept is not None and kept.holds)
        self.entries[meta.uid] = Entry(found, IntakeStage.UNREADABLE if holds else IntakeStage.REFUSED)
        job = job_id(meta.namespace, meta.name)
        if holds:
            log.error("TrainingJob %s cannot be followed, its pods stay: %s", job, why, extra={"job": job})
            self.tells.status(meta, {"reason": FAULT, "message": f"{why}; its pods stay as they are"})
        elif kept is None or kept.intent.state not in OVER:
            log.warning("TrainingJob %s is refused: %s", job, why, extra={"job": job})
            intent = Intent(state=State.FAILED, since=self.now(), reason=reason, message=why)
            self._tell_end(meta, KeptStatus(Intent()), intent, {"progress": None})

    def _rest(self, meta: Meta, kept: KeptStatus | None, orders: Orders) -> None:
        """A job that is no gang and has no pods is suspended or cancelled by writing that."""
        reason, message = CANCELLED if orders.cancel else SUSPENDED
        kept = kept or KeptStatus(Intent())
        intent = Intent(
            state=State.CANCELLED, suspended=not orders.cancel, attempt=kept.intent.attempt,
            losses=kept.intent.losses, since=self.now(), reason=reason, message=message,
        )  # fmt: skip
        self._tell_end(meta, kept, intent, {})

    def _tell_end(self, meta: Meta, kept: KeptStatus, intent: Intent, more: dict[str, Any]) -> None:
        began = self.settings.began
        self.tells.status(meta, status_of(intent, kept.columns, (), began, kept.admitted) | more)
        self.tells.event(meta.namespace, event_of(meta, kept.intent, intent, began))


def _is_told(gang: Gang, kept: KeptStatus) -> bool:
    """Whether the status says what the API server is known to have."""
    known = gang.written.intent
    return known is None or without_nodes(known) == without_nodes(as_written(kept.intent))
