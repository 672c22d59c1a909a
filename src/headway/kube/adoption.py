"""Takes a job over from an earlier process of Headway: what its status says and what its pods say, put together."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from headway.core.job import JobId
from headway.core.states import State
from headway.kube.api.objects import Pod
from headway.kube.fence import sentence
from headway.kube.job.intent import Allocation, Intent, adopted
from headway.kube.job.kept_status import KeptStatus, without_nodes
from headway.kube.job.pod_marks import is_marked, owner_uid
from headway.kube.job.replica import replica_of
from headway.kube.job.status import TrainingProgress
from headway.kube.reconcile.locate import locate
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked

log = logging.getLogger("headway.kube")


class Admitted(NamedTuple):
    """A job that is not on the board yet, and what its status says."""

    tracked: Tracked
    kept: KeptStatus

    def nodes(self) -> list[str]:
        """The nodes that its status names."""
        return self.kept.intent.nodes()


def by_owner(pods: Iterable[Pod], uids: Container[str]) -> Mapping[str, Sequence[Pod]]:
    """By the uid of a TrainingJob: the pods that say that they belong to it."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if (uid := owner_uid(pod)) in uids:
            found[uid].append(pod)
    return found


def take_over(tracked: Tracked, kept: KeptStatus, pods: Iterable[Pod], settings: KubeSettings) -> KeptStatus:
    """Gives the job what its status remembers; returns the status with the nodes of its pods."""
    tracked.savers, tracked.unmarked = set(kept.savers), not kept.marked
    tracked.size_changed = kept.intent.allocation is not None  # what its replicas were told is unknown
    tracked.change_refused = kept.refused
    if kept.step:
        tracked.reports.progress = tracked.reports.written = TrainingProgress(kept.step, tracked.job.steps)
    meta, began = tracked.meta, settings.began
    trusted = [pod for pod in pods if tracked.owns(pod) and (pod.spec.nodeName or is_marked(pod, meta, tracked.marks))]
    mine = [replica_of(pod, meta.name, began) for pod in trusted]
    replicas = {replica.uid: replica for replica in mine if replica is not None}
    asked = replace(tracked, replicas=replicas).view(kept.intent, time.time() - began, frozenset(), settings)
    found = locate(asked)
    tracked.written = found if without_nodes(found) == kept.intent else kept.intent
    columns = dict(kept.columns)
    if found.reason == "Interrupted" != kept.intent.reason and "saved" in columns:
        columns["attained"] = columns["saved"]  # the work since the last checkpoint is lost
    if found.state in (State.STARTING, State.MOVING):
        tracked.lacking = _lacking(kept.intent.target, found.target)
    if found.state is State.WAITING is not kept.intent.state and found.attempt != kept.intent.attempt:
        columns["stops"] = columns.get("stops", 0) + 1
    return replace(kept, intent=found, columns=columns)


def in_order(admitted: Iterable[Admitted], serials: Mapping[JobId, int]) -> list[Admitted]:
    """Jobs of the start in the order of an earlier run with the same log, then by age."""
    jobs = [(entry, entry.tracked.job) for entry in admitted]
    jobs.sort(key=lambda one: (serials.get(one[1].id, math.inf), one[1].submit, one[1].id))
    return [entry for entry, _ in jobs]


def _lacking(meant: Allocation | None, found: Allocation | None) -> dict[str, int]:
    """By role: the replicas of a start of which no pod was made."""
    pairs = zip(meant or (), found or (), strict=True)
    missing = {share.role: len(share.nodes) - len(there.nodes) for share, there in pairs}
    return {role: count for role, count in missing.items() if count}


def put_on_board(admitted: Admitted, settings: KubeSettings, now: float) -> bool:
    """Returns False for a job that is over: then only its pods matter. A job whose status makes no sense starts from
    the beginning. Raises if it cannot be put there at all.
    """
    tracked, kept = admitted
    try:
        return _put(tracked, kept, settings, now)
    except Exception as error:  # noqa: BLE001  it comes from its status
        why = sentence("go on from its status", error)
        log.warning("job %s: %s; it starts from the beginning", tracked.job.id, why)
    anew = KeptStatus(Intent(since=tracked.job.submit))
    if tracked.board.row(tracked.job.id) is None:
        return _put(tracked, anew, settings, now)
    tracked.ended = None
    tracked.restore(anew.intent, {})
    return True


def _put(tracked: Tracked, kept: KeptStatus, settings: KubeSettings, now: float) -> bool:
    on_board = not kept.intent.is_over
    if on_board:
        serials, table = settings.serials, tracked.board.table
        after = max(serials.values(), default=-1) + 1
        table.arrivals = max(table.arrivals, serials.get(tracked.job.id, after))
        tracked.board.add(tracked.job, now)
    tracked.restore(adopted(kept.intent, now, settings.timeouts), kept.columns)
    return on_board
