"""How a gang ends: one table of cases, run against the rule itself and against all three clusters.

docs/gangs.md shows the same table to people.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.job import Job, JobId, Role, Success
from headway.core.restarts import Restarts

GRACE = 1.0
"""Seconds that the clusters give in these tests."""
KILL, TERM, USR1, SEGV = 128 + 9, 128 + 15, 128 + 10, 128 + 11
NODE, MEMORY = "its node is gone", "it runs out of memory"


@dataclass(frozen=True)
class Exit:
    role: str
    index: int
    after: float
    """Seconds after the gang is up."""
    code: int | str


@dataclass(frozen=True)
class Case:
    name: str
    roles: tuple[Role, ...]
    exits: tuple[Exit, ...]
    outcome: str
    """finished, failed, or restarted: it starts again and then finishes."""
    success: Success = Success()
    not_before: float = 0.0
    """Seconds that the gang goes on at least."""
    every_attempt: bool = False
    restarts: Restarts = Restarts()

    @property
    def job(self) -> Job:
        return Job(id=JobId("gang"), roles=self.roles, success=self.success, restarts=self.restarts, seconds=30.0)


def _role(name: str, replicas: int = 1, after: tuple[str, ...] = ()) -> Role:
    return Role(
        name=name, replicas=replicas, min=replicas, max=replicas, request=(("cpu", 100),), after=after
    )  # fmt: skip


WORKERS = (_role("worker", 2),)
SERVED = (_role("ps"), _role("worker", 2, after=("ps",)))
LED = (_role("chief"), _role("worker", 2, after=("chief",)))
JUDGED = (_role("worker", 2), _role("evaluator"))


def _workers(first: float = 0.4, second: float = 0.4, code: int | str = 0) -> tuple[Exit, Exit]:
    return Exit("worker", 0, first, code), Exit("worker", 1, second, 0)


def _one(role: str, code: int | str, after: float = 0.4) -> tuple[Exit, ...]:
    return (Exit(role, 0, after, code),)


CASES = [
    Case("all replicas end well", WORKERS, _workers(), "finished"),
    Case("the workers end well, their ps serves on", SERVED, _workers(), "finished", not_before=GRACE),
    Case("one of two workers ends well, the other later", WORKERS, _workers(0.4, 3.0), "finished", not_before=2.5),
    Case("the ps ends well, the workers later", SERVED, (*_one("ps", 0), *_workers(3.0, 3.0)), "finished",
         not_before=2.5),
    Case("the chief ends well, the workers go on", LED, _one("chief", 0), "finished", not_before=GRACE),
    Case("any replica is enough, one ends well", WORKERS, _one("worker", 0), "finished", Success(any_replica=True)),
    Case("the role named in success ends well", JUDGED, _one("evaluator", 0), "finished",
         Success(roles=("evaluator",))),
    Case("a worker fails after the chief ended well", LED, (*_one("chief", 0), *_one("worker", 1, 0.8)), "finished"),
    Case("a worker ends with exit code 1", WORKERS, _one("worker", 1), "failed"),
    Case("a worker ends with exit code 128", WORKERS, _one("worker", 128), "failed"),
    Case("a worker calls sys.exit(-1): code 255", WORKERS, _one("worker", 255), "failed"),
    Case("a worker ends with code 200, which is not listed", WORKERS, _one("worker", 200), "failed"),
    Case("a worker dies by a fault of its own, SEGV: code 139", WORKERS, _one("worker", SEGV), "failed"),
    Case("a worker runs out of memory", WORKERS, _one("worker", MEMORY), "failed"),
    Case("a worker is killed, KILL: code 137", WORKERS, _one("worker", KILL), "restarted"),
    Case("a worker is told to end, TERM: code 143", WORKERS, _one("worker", TERM), "restarted"),
    Case("a worker gets USR1: code 138", WORKERS, _one("worker", USR1), "restarted"),
    Case("the ps is killed", SERVED, _one("ps", KILL), "restarted"),
    Case("a worker is killed, and its peer fails for it", WORKERS,
         (Exit("worker", 0, 0.4, 1), Exit("worker", 1, 0.4, KILL)), "restarted"),
    Case("a worker's node is gone", WORKERS, _one("worker", NODE), "restarted"),
    Case("a worker is killed in every attempt, without progress", WORKERS, _one("worker", KILL), "failed",
         every_attempt=True),
    Case("a worker is killed, and its job allows no loss", WORKERS, _one("worker", KILL), "failed",
         restarts=Restarts(losses=0)),
]  # fmt: skip
