"""Plans wait for the log. While it cannot be written, nothing new is begun, and what runs goes on.

Example: the disk is full. The jobs train on, a sentence says why no other job starts, and as soon as there is room the
lines that were kept are written and the policy is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headway.core.cluster import Cluster
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.record.log import LogWriter

RETRY_SECONDS = 1.0


class LogGate:
    """Stands between the loop and its cluster. `say` tells a person when the log fails and when it is written again.

    `waits` holds the end of the run until there is room: for a cluster whose state is in the log only.
    """

    def __init__(self, cluster: Cluster, writer: LogWriter, say: Callable[[str], None], *, waits: bool = True) -> None:
        self._cluster, self._writer, self._say, self._waits = cluster, writer, say, waits
        self._now = 0.0
        self._told = False

    def next_snapshot(self) -> Snapshot | None:
        snapshot = self._cluster.next_snapshot()
        if snapshot is not None:
            self._now = snapshot.now
        elif self._waits and not self._may_begin():  # the end of the last job is known to this process only
            self._say("nothing runs any more; headway ends as soon as the log can be written; Ctrl-C ends it at once")
            while not self._may_begin():
                time.sleep(RETRY_SECONDS)
                self._writer.retry()
        return snapshot

    def apply(self, plan: Plan) -> None:
        self._cluster.apply(plan if self._may_begin() else Plan((), self._now + RETRY_SECONDS))

    def _may_begin(self) -> bool:
        trouble = self._writer.trouble
        if trouble and not self._told:
            self._say(f"{trouble}; what runs goes on, and nothing else starts until it can be written")
        elif self._told and not trouble:
            self._say("the log is written again")
        self._told = bool(trouble)
        return not trouble
