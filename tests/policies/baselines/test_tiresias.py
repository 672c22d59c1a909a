"""Tiresias as its later authors compare with it."""

from __future__ import annotations

from headway.core.plan import Plan
from headway.policies.baselines.las import Las
from headway.policies.baselines.tiresias import Tiresias
from make import a_job, a_snapshot, decided, running, some_nodes, started


def test_tiresias_on_the_emptiest_nodes() -> None:
    snapshot = a_snapshot(running(a_job("x"), [0]), a_job("a"), nodes=some_nodes(2, gpus=4))
    assert Tiresias()(snapshot).decisions[0].placement.nodes == ((1,),)  # type: ignore[union-attr]


def test_tiresias_stops_a_later_job_of_the_same_queue_and_starts_when_it_is_gone() -> None:
    """A gap was filled by the later job; now the earlier one fits if that goes. Who would fit as it is waits too."""
    jobs = [a_job("early", gpus=3, submit=0.0), a_job("late", gpus=2, submit=1.0), a_job("last", submit=2.0)]
    up = running(jobs[1], [0, 0], touched=1.0)
    snapshot = a_snapshot(jobs[0], up, jobs[2], nodes=some_nodes(1, gpus=4), now=5.0)
    assert decided(Tiresias()(snapshot)) == {"late": "stop"}
    assert decided(Las()(snapshot)) == {"last": "start"}
    assert started(Tiresias()(a_snapshot(*jobs, nodes=some_nodes(1, gpus=4), now=5.0))) == ["early", "last"]


def test_tiresias_counts_starts_as_service_and_asks_to_be_called_at_the_fall() -> None:
    """Two replicas for 40 s are 80; with 10 s for the start they are 100, and the job has fallen behind the other."""
    up = running(a_job("up", gpus=2), [0, 0], touched=0.0, since=0.0)
    snapshot = a_snapshot(up, a_job("new", gpus=2, submit=1.0), nodes=some_nodes(1, gpus=2), now=40.0)
    assert Tiresias(threshold=100.0)(snapshot) == Plan((), 50.0)
    assert decided(Tiresias(threshold=100.0, start_seconds=10.0)(snapshot)) == {"up": "stop"}
