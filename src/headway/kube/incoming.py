"""A TrainingJob as it comes from the watch: its status as it is to be understood, and its user's orders."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headway.kube.api.objects import TrainingJob
from headway.kube.job.kept_status import KeptStatus, read_status, resumed
from headway.kube.job.orders import read_orders
from headway.kube.job.spec import submitted

log = logging.getLogger("headway.kube")


def kept_status_of(found: TrainingJob, began: float) -> KeptStatus | None:
    """What Headway wrote to this job. One that is suspended and shall go on, or be cancelled, counts as waiting."""
    try:
        kept = read_status(found.status, began)
    except Exception as error:  # noqa: BLE001  whatever it is, it is no status of ours
        log.warning("TrainingJob %s: its status is ignored, Headway did not write it: %s", found.metadata.name, error)
        return None
    if kept is None or not (kept.intent.suspended and kept.intent.is_over):
        return kept
    orders = read_orders(found.spec)
    return kept if orders.suspend and not orders.cancel else resumed(kept)


def by_age(objects: Iterable[TrainingJob]) -> list[TrainingJob]:
    """Oldest first."""
    return sorted(objects, key=lambda found: (submitted(found), found.metadata.namespace, found.metadata.name))
