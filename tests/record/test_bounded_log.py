"""What the writer of a log remembers, and what it writes, does not grow with the jobs and nodes of weeks."""

from __future__ import annotations

import gc
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from headway.core.board import Board
from headway.core.estimates import Beliefs
from headway.core.node import Node, Nodes
from headway.cycle.loop import run as run_loop
from headway.estimates.plain_books import NoEstimates
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.record.beliefs import WrittenBeliefs
from headway.record.lines import Head, NodesLine, nodes_line
from headway.record.log import LogWriter, read
from headway.record.metrics import Tally
from headway.record.replay import ReplayCluster, snapshots
from headway.sim.cluster import SimCluster, World
from make import a_job, a_role, some_nodes

HEAD = Head("sim", "x", "progress")


@pytest.mark.parametrize("policy", ["optimus", "fifo"])
def test_a_writer_forgets_jobs_that_are_over(tmp_path, policy, monkeypatch):
    monkeypatch.setattr("headway.record.log.MOST_STALE", 10)
    jobs = [a_job(f"j{n}", roles=[a_role(min=1, max=4)], submit=40.0 * n, seconds=30.0) for n in range(400)]
    cluster, writer = SimCluster(some_nodes(1), jobs, World()), LogWriter(tmp_path / "log", HEAD)

    def observe(decided):
        writer.cycle(decided.snapshot, decided.plan)
        assert len(writer._speeds) < 150
        assert len(writer._written_beliefs._table) < 300
        assert len(writer._stale) < 400

    run_loop(cluster, POLICIES[policy](), ProgressBook(), observe)
    writer.end(0.0, 0)
    replayed = ReplayCluster(tmp_path / "log")
    run_loop(replayed, POLICIES[policy](), NoEstimates())
    assert replayed.complete
    assert not replayed.differences


def test_beliefs_are_written_when_they_change_also_after_rows_were_renumbered():
    told = WrittenBeliefs()

    def fresh(serials, left):
        count = len(serials)
        zeros = np.zeros(count)
        beliefs = Beliefs(
            np.array(left), zeros, zeros > 0, zeros, zeros.astype(np.uint8), zeros, zeros.astype(np.uint8)
        )
        return [list(line)[:2] for line in told.fresh(np.array(serials, np.int64), beliefs)]

    assert fresh([], []) == []
    assert fresh([0, 1, 2], [1.0, 2.0, 3.0]) == [[0, 1.0], [1, 2.0], [2, 3.0]]
    assert fresh([0, 1, 2], [1.0, 2.5, 3.0]) == [[1, 2.5]]
    assert fresh([1, 2, 5], [2.5, 3.0, 4.0]) == [[5, 4.0]]
    assert fresh([5, 9], [4.0, 1.0]) == [[9, 1.0]]
    assert fresh([9], [1.0]) == []


def test_the_garbage_collector_does_not_follow_beliefs_that_are_written():
    nothing = np.zeros(1)
    none = nothing.astype(np.uint8)
    beliefs = Beliefs(nothing, nothing, nothing > 0, nothing, none, nothing, none)
    (line,) = WrittenBeliefs().fresh(np.zeros(1, np.int64), beliefs)
    assert not gc.is_tracked(line)
    assert msgspec.json.encode(line) == msgspec.json.encode(list(line)) == b"[0,0.0,0.0,false,0.0,0,0.0,0]"


def _nodes(*cpus: int) -> Nodes:
    return Nodes.of([Node(name=f"n{number}", capacity=(("cpu", cpu),)) for number, cpu in enumerate(cpus)])


def test_of_many_nodes_only_those_that_changed_are_written(tmp_path):
    board, writer = Board(_nodes(8, 8, 8, 8, 8)), LogWriter(tmp_path / "log", HEAD)
    tables = [_nodes(8, 8, 8, 8, 8), _nodes(8, 8, 5, 8, 8), _nodes(8, 8, 5, 8, 8, 9), _nodes(1, 1, 1, 8, 8, 9)]
    row = board.add(a_job("a"), 0.0)
    for number, table in enumerate(tables):
        board.set_nodes(table)
        board.touch(row)
        writer.cycle(board.snapshot(float(number)), replace(POLICIES["fifo"]()(board.snapshot(0.0)), decisions=()))
        board._cycle = number + 1
    writer.close()
    lines = [line for line in read(tmp_path / "log") if isinstance(line, NodesLine)]
    assert [line.at for line in lines] == [None, [2], [5], None]
    assert [snapshot.nodes.nodes for snapshot in snapshots(tmp_path / "log")] == [table.nodes for table in tables]
    tally = Tally()
    for line in read(tmp_path / "log"):
        tally(line)
    assert tally.nodes.nodes == tables[-1].nodes


def test_other_kinds_or_fewer_nodes_are_written_whole():
    assert nodes_line(_nodes(1, 2), _nodes(1, 2, 3)).at is None
    assert nodes_line(Nodes.of(_nodes(1, 2).nodes, ("cpu", "gpu")), _nodes(1, 2)).at is None
    assert nodes_line(_nodes(1, 2), _nodes(1, 2)).at == []
    with pytest.raises(IndexError):
        NodesLine([Node(name="x", capacity=())], ["cpu"], [7]).table(_nodes(1).nodes)
