"""What starts and stops take is learned from what snapshots show."""

from __future__ import annotations

import random

import pytest

from headway.core.board import Board
from headway.core.placement import Placement
from headway.core.states import State
from headway.cycle.loop import decide
from headway.estimates.history import change_costs
from headway.estimates.history.change_costs import ALL, ChangeCosts, UsualSeconds
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.sim.cluster import Costs, Reports, SimCluster, World
from make import a_job, some_nodes

HERE = Placement(((0,),))


class Story:
    """One job on a board, told step by step; the book folds what a snapshot shows."""

    def __init__(self, book=None):
        self.board, self.book = Board(some_nodes(2)), book or ProgressBook()
        self.row = self.board.add(a_job("a", model="bert"), 0.0)

    def begin(self, state, now):
        self.board.begin(self.row, state, HERE if state is not State.STOPPING else None, now, now + 600.0)

    def settle(self, state, now):
        self.board.settle(self.row, state, HERE if state is State.RUNNING else None, now)

    def look(self, now):
        self.book = self.book.fold(self.board.snapshot(now))

    def change(self, state, then, begun, until, under_way=None):
        """Begins, is looked at meanwhile or not, ends and is looked at."""
        self.begin(state, begun)
        if under_way is not None:
            self.look(under_way)
        self.settle(then, until)
        self.look(until)

    @property
    def seen(self):
        """How many starts and stops."""
        costs = self.book.history.costs
        return tuple(len(usual.get(ALL, UsualSeconds()).last) for usual in (costs.starts, costs.stops))


@pytest.mark.parametrize("under_way", [15.0, None], ids=["seen under way", "not seen under way"])
def test_a_start_takes_from_the_decision_until_the_job_runs_and_counts_once(under_way):
    story = Story()
    story.look(0.0)
    story.change(State.STARTING, State.RUNNING, 10.0, 41.0, under_way)
    assert story.book.history.costs.starts["bert"].last == story.book.history.costs.starts[ALL].last
    assert UsualSeconds().add(31.0).last == story.book.history.costs.starts[ALL].last
    story.board.saved(story.row, 5.0)
    story.look(46.0)
    assert story.seen == (1, 0), "a checkpoint is no start"


@pytest.mark.parametrize("under_way", [701.0, None], ids=["seen under way", "not seen under way"])
def test_a_stop_and_the_start_after_it_are_told_apart_from_a_loss(under_way):
    story = Story()
    story.look(0.0)
    story.change(State.STARTING, State.RUNNING, 0.0, 30.0)
    story.settle(State.WAITING, 500.0)  # its node was lost
    story.look(500.0)
    assert story.seen == (1, 0)
    story.change(State.STARTING, State.RUNNING, 600.0, 630.0)
    assert story.seen == (2, 0)
    story.look(700.0)
    story.change(State.STOPPING, State.WAITING, 700.0, 712.0, under_way)
    assert story.seen == (2, 1)
    assert story.book.history.costs.stops["bert"] == UsualSeconds().add(12.0)


@pytest.mark.parametrize("state", [State.SCALING, State.MOVING, State.RESIZING])
def test_other_changes_teach_nothing(state):
    story = Story()
    story.look(0.0)
    story.change(State.STARTING, State.RUNNING, 0.0, 30.0)
    story.change(state, State.RUNNING, 100.0, 400.0, 101.0)
    assert story.seen == (1, 0)


def test_what_an_earlier_run_has_learned_from_does_not_count_again():
    story = Story(ProgressBook(since=40.0))
    story.begin(State.STARTING, 0.0)
    story.settle(State.RUNNING, 30.0)
    story.look(50.0)
    assert story.seen == (0, 0)


@pytest.mark.parametrize("place", range(12))
@pytest.mark.parametrize("odd", [0.0, 0.001, 9000.0])
def test_one_that_is_far_off_changes_next_to_nothing(place, odd):
    usual, chance = UsualSeconds(), random.Random(place)
    for number in range(12):
        usual = usual.add(odd if number == place else chance.uniform(27.0, 33.0))
    assert 26.0 < usual.seconds < 34.0


def test_nothing_is_told_before_five_were_seen_and_newer_ones_weigh_more():
    usual = UsualSeconds()
    for number in range(5):
        assert usual.seconds is None, number
        usual = usual.add(30.0)
    assert usual.seconds == pytest.approx(30.0)
    for _ in range(100):
        usual = usual.add(5.0)
    assert usual.seconds == pytest.approx(5.0, rel=0.02)


def test_models_are_bounded_and_all_together_stays(monkeypatch):
    monkeypatch.setattr(change_costs, "MOST_MODELS", 4)
    costs = ChangeCosts()
    for number in range(20):
        costs = costs.started(f"m{number}", 30.0)
    assert list(costs.starts) == ["m17", "m18", "m19", ALL]


@pytest.mark.parametrize("start", [0.0, 5.0, 300.0])
def test_a_simulated_cluster_is_known_after_some_jobs(start):
    chance = random.Random(1)
    jobs = [a_job(f"j{n}", gpus=chance.choice([1, 2, 4]), submit=60.0 * n, model="bert") for n in range(60)]
    world = World(costs=Costs(start=start, save=7.0, stop=3.0), reports=Reports(seconds=20.0),
                  work=lambda job: 60.0 + 3000.0 * (job.submit % 480 == 0))  # fmt: skip
    cluster, book, policy = SimCluster(some_nodes(2), jobs, world), ProgressBook(), POLICIES["srtf"]()
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot)
        cluster.apply(decide(policy, book.annotate(snapshot)).plan)
    costs = book.history.costs
    assert costs.starts["bert"].seconds == pytest.approx(max(start, change_costs.LEAST))
    assert costs.stops["bert"].seconds == pytest.approx(10.0)
    assert book.watch.states == {}, "nothing is under way at the end"
