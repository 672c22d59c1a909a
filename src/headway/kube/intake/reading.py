"""A TrainingJob as it comes from the watch: its status as it is to be understood, its user's orders, its spec."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.job import Job
from headway.kube.api.objects import Meta, TrainingJob
from headway.kube.intake.orders import read_orders
from headway.kube.intake.spec import JobSpec, job_of, read_spec, submitted
from headway.kube.views.status_read import KeptStatus, read_status, resumed

log = logging.getLogger("headway.kube")
MOST_TOLD = 100_000


@dataclass(slots=True)
class Reading:
    """Reads TrainingJobs. At the start, when there may be thousands, each is read once: what is read is kept until all
    that hold something are taken in.
    """

    began: float
    template: Mapping[str, Any] = field(default_factory=dict)
    """The cluster's."""
    _statuses: dict[str, KeptStatus | None] = field(default_factory=dict)
    _specs: dict[str, tuple[JobSpec, Job]] = field(default_factory=dict)
    """Both by uid."""
    _told: set[str] = field(default_factory=set)
    """The uids of jobs whose status is ignored: each is told once."""

    def begin(self, objects: Iterable[TrainingJob]) -> None:
        """Reads the statuses at the start."""
        ignored = list[str]()
        for found in objects:
            meta = found.metadata
            try:
                self._statuses[meta.uid] = _kept_status(found, self.began)
            except Exception as error:  # noqa: BLE001  whatever it is, it is no status of ours
                self._statuses[meta.uid] = None
                self._told.add(meta.uid)
                ignored.append(f"of {meta.namespace}/{meta.name}: {error}")
        if ignored:
            told = f"the statuses of {len(ignored)} TrainingJobs are ignored, Headway did not write them"
            log.warning("%s; %s", told, ignored[0])

    def end(self) -> None:
        """From now on jobs are read as they come."""
        self._statuses, self._specs = {}, {}

    def status(self, found: TrainingJob) -> KeptStatus | None:
        """What Headway wrote to this job. One that is suspended and shall go on, or be cancelled, counts as waiting."""
        if found.metadata.uid in self._statuses:
            return self._statuses[found.metadata.uid]
        try:
            return _kept_status(found, self.began)
        except Exception as error:  # noqa: BLE001  whatever it is, it is no status of ours
            self._tell(found.metadata, error)
            return None

    def _tell(self, meta: Meta, error: Exception) -> None:
        if meta.uid not in self._told:
            log.warning("TrainingJob %s: its status is ignored, Headway did not write it: %s", meta.name, error)
        if len(self._told) > MOST_TOLD:
            self._told.clear()
        self._told.add(meta.uid)

    def job(self, found: TrainingJob, *, tolerant: bool = False) -> tuple[JobSpec, Job]:
        """Its spec, and the job as its user asks for it. Raises SpecError if it cannot be one."""
        uid = found.metadata.uid
        if uid in self._specs:
            return self._specs[uid]
        spec = read_spec(found.spec, tolerant=tolerant)
        read = spec, job_of(found, spec, self.began, self.template)
        if uid in self._statuses:
            self._specs[uid] = read
        return read


def _kept_status(found: TrainingJob, began: float) -> KeptStatus | None:
    kept = read_status(found.status, began)
    if kept is None or not (kept.intent.suspended and kept.intent.is_over):
        return kept
    orders = read_orders(found.spec)
    return kept if orders.suspend and not orders.cancel else resumed(kept)


def by_age(objects: Iterable[TrainingJob]) -> list[TrainingJob]:
    """Oldest first."""
    return sorted(objects, key=lambda found: (submitted(found), found.metadata.namespace, found.metadata.name))
