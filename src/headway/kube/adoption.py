"""Takes a job over from an earlier process of Headway: what its status says and what its pods say, put together."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from headway.core.states import State
from headway.kube.api.objects import Pod
from headway.kube.job.intent import adopted
from headway.kube.job.kept_status import KeptStatus, without_nodes
from headway.kube.job.pod_marks import owner_uid
from headway.kube.job.replica import replica_of
from headway.kube.job.status import TrainingProgress
from headway.kube.reconcile.locate import locate
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked


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
    mine = [replica_of(pod, meta.name, began) for pod in pods if tracked.owns(pod)]
    replicas = {replica.uid: replica for replica in mine if replica is not None}
    asked = replace(tracked, replicas=replicas).view(kept.intent, time.time() - began, frozenset(), settings)
    found = locate(asked)
    tracked.written = found if without_nodes(found) == kept.intent else kept.intent
    columns = dict(kept.columns)
    if found.reason == "Interrupted" != kept.intent.reason and "saved" in columns:
        columns["attained"] = columns["saved"]  # the work since the last checkpoint is lost
    if found.state is State.WAITING is not kept.intent.state:
        columns["stops"] = columns.get("stops", 0) + 1
    return replace(kept, intent=found, columns=columns)


def put_on_board(tracked: Tracked, kept: KeptStatus, settings: KubeSettings, now: float) -> bool:
    """Returns False for a job that is over: then only its pods matter."""
    on_board = not kept.intent.is_over
    if on_board:
        serials, table = settings.serials, tracked.board.table
        after = max(serials.values(), default=-1) + 1
        table.arrivals = max(table.arrivals, serials.get(tracked.job.id, after))
        tracked.board.add(tracked.job, now)
    tracked.restore(adopted(kept.intent, now, settings.timeouts), kept.columns)
    return on_board
