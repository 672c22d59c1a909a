"""The work of jobs whose pods pretend to run, worked by hand."""

from __future__ import annotations

import pytest

from headway.core.node import Node, Nodes
from headway.lab.work_ledger import Member, WorkLedger, parse_gang

NODES = Nodes.of([Node(name=f"n{number}", capacity=(("cpu", 8000), ("gpu", 4))) for number in range(3)])


def a_ledger(loss: float = 0.0) -> WorkLedger:
    """Speed is the share of the asked-for replicas that run."""

    def speed(job, placement, nodes):
        return placement.width() / job.replicas

    ledger = WorkLedger(NODES, speed, loss)
    ledger.advance(100.0)
    return ledger


def join(ledger: WorkLedger, job: str, pod: str, node: int, gang: str = "worker=2", role: str = "worker") -> None:
    ledger.join(job, pod, Member(role, node, 1), seconds=10.0, roles=parse_gang(gang, role))


def test_half_a_gang_does_no_work():
    ledger = a_ledger()
    join(ledger, "a", "a-0", 0)
    assert ledger.next_done() is None
    assert ledger.advance(1000.0) == []
    join(ledger, "a", "a-1", 1)
    assert ledger.next_done() == 10.0
    assert ledger.advance(1009.0) == []
    assert ledger.advance(1010.0) == [("a", ["a-0", "a-1"])]


def test_a_gang_that_needs_fewer_than_it_asks_for_works_slower():
    ledger = a_ledger()
    for number in range(2):
        join(ledger, "a", f"a-{number}", number, gang="worker=4/2")
    assert ledger.next_done() == 20.0


def test_work_done_is_kept_while_the_pods_are_away():
    ledger = a_ledger()
    join(ledger, "a", "a-0", 0, gang="worker=1")
    ledger.advance(104.0)
    ledger.leave("a", "a-0")
    ledger.advance(500.0)
    join(ledger, "a", "a-0-again", 2, gang="worker=1")
    assert ledger.next_done() == pytest.approx(6.0)


def test_neighbours_slow_each_other_and_recover():
    ledger = a_ledger(loss=0.3)
    join(ledger, "a", "a-0", 0, gang="worker=1")
    assert ledger.next_done() == pytest.approx(10.0)
    join(ledger, "b", "b-0", 0, gang="worker=1")
    assert ledger.work("a").rate == pytest.approx(1 - 0.3 / 3)
    assert ledger.work("b").rate == pytest.approx(1 - 0.3 / 3)
    ledger.leave("b", "b-0")
    assert ledger.work("a").rate == pytest.approx(1.0)
    assert ledger.work("b").rate == 0.0


def test_a_role_that_is_missing_altogether_stops_the_job():
    ledger = a_ledger()
    join(ledger, "a", "a-0", 0, gang="ps=1,worker=1")
    assert ledger.next_done() is None
    join(ledger, "a", "ps-0", 0, gang="ps=1,worker=1", role="ps")
    assert ledger.next_done() == 10.0


@pytest.mark.parametrize("text", ["worker", "worker=", "worker=x", "Worker=1", "worker=2,,ps=1"])
def test_a_gang_that_cannot_be_read_is_told(text):
    with pytest.raises(ValueError, match="is not of the form role=replicas"):
        parse_gang(text, "worker")
