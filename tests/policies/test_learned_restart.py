"""`learned_restart`: a change costs what changes have cost here, and a replay of the log decides the same."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from headway.cycle.loop import Book, decide, run
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.plain_books import NoEstimates
from headway.estimates.progress import ProgressBook
from headway.policies.elastic import Elastic
from headway.policies.headway import Headway
from headway.record.lines import CycleLine, Head
from headway.record.log import LogWriter, read
from headway.record.replay import ReplayCluster
from headway.sim.cluster import Costs, Reports, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_role, some_nodes

POLICIES = [Headway, Elastic]
MODELS = ["resnet-50", "vgg-16", "bert", "cifar10"]


def _cluster(start, count=25):
    chance = random.Random(5)
    jobs = [
        a_job(f"j{n}", roles=[a_role(replicas=chance.choice([1, 2, 4]), least=1, most=16)], submit=90.0 * n,
              steps=1000, model=chance.choice(MODELS))
        for n in range(count)
    ]  # fmt: skip
    lengths = {job.id: chance.choice([60.0, 300.0, 1200.0, 5000.0]) for job in jobs}
    world = World(costs=Costs(start=start, save=10.0, scale=start), reports=Reports(seconds=20.0),
                  speed=Speed(profiles=BUILT_IN), work=lambda job: lengths[job.id])  # fmt: skip
    return SimCluster(some_nodes(4), jobs, world)


def _plans(policy, book, start=30.0):
    found = []
    run(_cluster(start), policy, book, lambda decided: found.append((decided.snapshot.now, decided.plan)))
    return found


@dataclass(frozen=True)
class Telling:
    """Believes progress, and always says that a change takes as long."""

    book: Book
    seconds: float | None

    def fold(self, snapshot):
        return Telling(self.book.fold(snapshot), self.seconds)

    def annotate(self, snapshot):
        told = self.book.annotate(snapshot)
        told.estimates.with_restart(lambda: self.seconds)
        return told


@pytest.mark.parametrize("policy", POLICIES)
def test_it_decides_as_if_what_was_learned_had_been_set(policy):
    learned = _plans(policy(learned_restart=True), Telling(ProgressBook(), 600.0))
    assert learned == _plans(policy(restart=600.0), ProgressBook())
    assert learned != _plans(policy(), ProgressBook())


@pytest.mark.parametrize("policy", POLICIES)
def test_before_enough_was_seen_it_costs_what_was_set(policy):
    learned = _plans(policy(learned_restart=True, restart=90.0), Telling(ProgressBook(), None))
    assert learned == _plans(policy(restart=90.0), ProgressBook())


@pytest.mark.parametrize("policy", POLICIES)
def test_it_tells_why_by_the_same_number(policy):
    cluster, book = _cluster(30.0), ProgressBook()
    for _ in range(60):
        snapshot = cluster.next_snapshot()
        book = book.fold(snapshot)
        cluster.apply(decide(policy(), book.annotate(snapshot)).plan)
    told = [Telling(book, 600.0).annotate(snapshot), book.annotate(snapshot)]
    for row in range(snapshot.jobs.count):
        assert policy(learned_restart=True).explain(told[0], row) == policy(restart=600.0).explain(told[1], row)


def _logged(path, policy, *, fresh=True):
    cluster = _cluster(300.0)
    writer = LogWriter(path, Head("sim", "headway", "progress"), fresh=fresh)
    run(cluster, policy, ProgressBook(), lambda decided: writer.cycle(decided.snapshot, decided.plan, decided.refusals))
    writer.end(cluster.now, cluster.board.unfinished)


def _differences(path, policy):
    cluster = ReplayCluster(path)
    run(cluster, policy, NoEstimates())
    assert cluster.complete
    return len(cluster.differences)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_replay_decides_the_same_also_after_a_second_run(tmp_path, policy):
    path = tmp_path / "run.log"
    _logged(path, policy(learned_restart=True))
    told = [line.restart for line in read(path) if isinstance(line, CycleLine) and line.restart is not None]
    assert told[-1] == pytest.approx(310.0, rel=0.05)
    assert _differences(path, policy(learned_restart=True)) == 0
    assert _differences(path, policy()) > 0, "the number matters"
    _logged(path, policy(learned_restart=True), fresh=False)
    assert _differences(path, policy(learned_restart=True)) == 0, "the second begins with nothing"


@pytest.mark.parametrize("policy", POLICIES)
def test_where_it_is_off_the_log_says_nothing_of_it(tmp_path, policy):
    path = tmp_path / "run.log"
    _logged(path, policy())
    assert b'"restart"' not in path.read_bytes()
    assert _differences(path, policy()) == 0
