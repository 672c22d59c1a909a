"""When the jobs of a cluster start and are done, as foreseen in the background while it is scheduled."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headway.cli.cluster.followed_settings import FollowedPolicy
from headway.cli.screen.clock_times import FEWEST_DRAWS, LooksAhead
from headway.cli.wiring import make_policy
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.forecast.times import Eta, Forecast, Range

if TYPE_CHECKING:
    from headway.kube.cluster import KubeCluster
    from headway.kube.views.foreseen import Foreseen

START_SECONDS = SAVE_SECONDS = 10.0
"""What starts and saves of pods are taken to take."""
MOST_FORESEEN = 2000
"""Of more unfinished jobs nothing is foreseen: simulating them ahead would take minutes."""
EVERY = 60.0
"""Where nothing changes, it looks ahead this often. After a change at once, unless it has just looked."""
OLD_SECONDS = 900.0
"""What was foreseen longer ago is not told any more."""


class Foreseeing:
    """Looks ahead while jobs wait, and gives the cluster what it finds, for statuses of jobs that wait or start."""

    def __init__(self, cluster: KubeCluster, name: str, policy: Policy, settings: Sequence[str]) -> None:
        """`policy` decides, and was made by this name with these settings: another one is made to look ahead."""
        self._cluster, self._name, self._policy, self._settings = cluster, name, policy, settings
        self._ahead, self._with = self._looks_ahead(), self._settings_now()
        self._changed, self._next = True, -math.inf
        self._found: Forecast | None = None

    def look(self, snapshot: Snapshot) -> None:
        """Call it after the log has the cycle: it keeps what was asked of the estimates."""
        self._changed |= bool(snapshot.changed)
        cluster, now = self._cluster, snapshot.now
        if cluster.board.unfinished > MOST_FORESEEN:
            cluster.foresee({}, math.inf)
            return
        if not cluster.following.waiting:
            cluster.foresee(self._told(now), math.inf)
            return
        if (settings := self._settings_now()) is not self._with:
            self._ahead, self._with, self._changed = self._looks_ahead(), settings, True
        if (self._changed or now >= self._next) and self._ahead.due_in == 0.0:
            self._changed, self._next = False, now + EVERY
            self._begin(snapshot)
        if (newest := self._ahead.newest) is not None:
            self._found = newest.forecast
        again = now + self._ahead.due_in if self._changed else self._next
        cluster.foresee(self._told(now), again)

    def _told(self, now: float) -> Foreseen:
        found = self._found
        return _foreseen(found) if found is not None and found.now >= now - OLD_SECONDS else {}

    def _begin(self, snapshot: Snapshot) -> None:
        try:
            self._ahead.look(snapshot)
        except Exception as error:  # noqa: BLE001  jobs are scheduled all the same
            logging.getLogger("headway").warning("when jobs start and end is not foreseen: %r", error)

    def _settings_now(self) -> Sequence[str]:
        return self._policy.in_full if isinstance(self._policy, FollowedPolicy) else self._settings

    def _looks_ahead(self) -> LooksAhead:
        make, began = partial(make_policy, self._name, self._settings_now()), self._cluster.settings.began
        return LooksAhead(make, began, START_SECONDS, SAVE_SECONDS, self._cluster.foreseen_anew)


def _foreseen(found: Forecast) -> Foreseen:
    """Only jobs that will be done. Of too few futures no range is told."""
    few = found.draws < FEWEST_DRAWS
    return {job: _middle(eta) if few else eta for job, eta in found.jobs.items() if math.isfinite(eta.done.mid)}


def _middle(eta: Eta) -> Eta:
    starts, (_, mid, _) = eta
    return Eta(None if starts is None else Range(starts.mid, starts.mid, starts.mid), Range(mid, mid, mid))
