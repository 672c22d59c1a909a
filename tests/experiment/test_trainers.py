"""The trainer double: what kubelets and scripts do with the pods of simulated jobs."""

from __future__ import annotations

import math
from dataclasses import replace

from headway.experiment.native.trainers import (
    ComesUp,
    Connects,
    Effect,
    Ends,
    GivesUp,
    HangsUp,
    Leaves,
    PodSeen,
    Reports,
    Saved,
    Trainers,
)
from headway.sim.world import Costs, World
from headway.sim.world import Reports as ReportRules
from make import a_job, some_nodes

COSTS = Costs(start=30.0, scale=30.0, save=10.0)


def a_pod(
    job: str, index: int = 0, attempt: int = 0, node: str = "n0", *,
    leaving: bool = False, grace: float = 0.0, over: bool = False,
) -> PodSeen:  # fmt: skip
    name = f"{job}-{attempt}-{index}"
    return PodSeen(name, f"uid-{name}", job, "worker", index, attempt, node, leaving, grace, over)


def trainers(*jobs, rendezvous: float = math.inf, costs: Costs = COSTS) -> Trainers:
    world = World(costs=costs, reports=ReportRules(seconds=60.0), steps=lambda _job: 100)
    made = Trainers(world, some_nodes(2, gpus=4), rendezvous=rendezvous)
    for job in jobs:
        made.arrive(job)
    return made


def until(made: Trainers, moment: float) -> list[tuple[float, Effect]]:
    """All that happens up to then, each at its own moment."""
    found = []
    while made.next() <= moment:
        now = made.next()
        found += [(now, effect) for effect in made.advance(now)]
    return found


def test_a_gang_trains_when_all_its_pods_are_up_and_ends_when_its_work_is_done():
    made = trainers(a_job("a", 2, seconds=100.0))
    first, second = a_pod("a"), a_pod("a", 1)
    list(made.see(first, 0.0))
    list(made.see(second, 5.0))
    found = until(made, 1000.0)
    assert found[0] == (30.0, ComesUp(first))
    assert found[1:4] == [(35.0, ComesUp(second)), (35.0, Connects(first, 100)), (35.0, Connects(second, 100))]
    assert isinstance(found[4][1], Reports)
    ends = [(at, effect) for at, effect in found if isinstance(effect, Ends | HangsUp)]
    assert ends == [(135.0, Ends(first, well=True)), (135.0, Ends(second, well=True)),
                    (135.0, HangsUp(first)), (135.0, HangsUp(second))]  # fmt: skip
    assert (made.jobs["a"].began, made.jobs["a"].ended, made.jobs["a"].half_seconds) == (35.0, 135.0, 5.0)


def test_half_a_gang_does_no_work_and_gives_up_only_where_it_is_told_to():
    made = trainers(a_job("a", 2, seconds=100.0))
    list(made.see(a_pod("a"), 0.0))
    assert [effect for _, effect in until(made, 10_000.0)] == [ComesUp(a_pod("a"))]
    assert made.jobs["a"].half_until(1030.0) == 1000.0
    made = trainers(a_job("a", 2, seconds=100.0), rendezvous=900.0)
    list(made.see(a_pod("a"), 0.0))
    assert until(made, 10_000.0)[1:] == [(930.0, Ends(a_pod("a"), well=False)), (930.0, GivesUp("a"))]


def test_asked_to_save_it_trains_no_more_and_goes_on_from_there():
    made = trainers(a_job("a", 1, seconds=100.0))
    list(made.see(a_pod("a"), 0.0))
    until(made, 30.0)
    made.asked_to_save("a", 7, 70.0)
    assert until(made, 80.0)[0] == (80.0, Saved("a", 7, 40, 10.0))
    assert list(made.see(a_pod("a", leaving=True), 80.0)) == [HangsUp(a_pod("a")), Leaves(a_pod("a", leaving=True))]
    assert list(made.gone("a", a_pod("a").uid, 80.0)) == []
    again = a_pod("a", attempt=1)
    list(made.see(again, 200.0))
    found = until(made, 1000.0)
    assert found[0] == (230.0, ComesUp(again))
    assert made.jobs["a"].ended == 290.0, "60 of 100 s were left"


def test_a_save_delays_the_end_by_its_whole_time():
    made = trainers(a_job("a", 1, seconds=100.0))
    list(made.see(a_pod("a"), 0.0))
    until(made, 128.0)
    made.asked_to_save("a", 1, 128.0)
    until(made, 1000.0)
    assert made.jobs["a"].ended == 140.0, "2 s were left"


def test_asked_again_while_it_saves_it_saves_again_before_it_goes_on():
    made = trainers(a_job("a", 1, seconds=100.0))
    list(made.see(a_pod("a"), 0.0))
    until(made, 30.0)
    made.asked_to_save("a", 1, 70.0)
    made.asked_to_save("a", 2, 75.0)
    found = until(made, 1000.0)
    assert [one for one in found if isinstance(one[1], Saved)] == [
        (80.0, Saved("a", 1, 40, 10.0)), (90.0, Saved("a", 2, 40, 10.0)),
    ]  # fmt: skip
    assert made.jobs["a"].ended == 150.0


def test_pods_that_go_while_they_save_have_not_saved():
    made = trainers(a_job("a", 1, seconds=100.0))
    list(made.see(a_pod("a"), 0.0))
    until(made, 30.0)
    made.asked_to_save("a", 1, 70.0)
    list(made.gone("a", a_pod("a").uid, 71.0))
    list(made.see(a_pod("a", attempt=1), 71.0))
    assert not [one for _, one in until(made, 1000.0) if isinstance(one, Saved)], "nobody is there to answer"
    assert made.jobs["a"].ended == 201.0


def test_a_pod_with_a_grace_time_saves_before_it_leaves():
    """As virtual time counts a stop."""
    made = trainers(a_job("a", 1, seconds=100.0))
    list(made.see(a_pod("a"), 0.0))
    until(made, 30.0)
    leaving = a_pod("a", leaving=True, grace=30.0)
    assert list(made.see(leaving, 70.0)) == [HangsUp(a_pod("a"))]
    assert list(made.see(leaving, 75.0)) == [], "shown again"
    assert until(made, 1000.0) == [(80.0, Leaves(leaving))]
    list(made.gone("a", leaving.uid, 80.0))
    list(made.see(a_pod("a", attempt=1), 80.0))
    until(made, 1000.0)
    assert made.jobs["a"].ended == 170.0


def test_a_pod_without_a_grace_time_that_is_long_enough_loses_what_it_has_not_saved():
    for grace in (0.0, 9.0):
        made = trainers(a_job("a", 1, seconds=100.0))
        list(made.see(a_pod("a"), 0.0))
        until(made, 30.0)
        leaving = a_pod("a", leaving=True, grace=grace)
        assert list(made.see(leaving, 70.0)) == [HangsUp(a_pod("a")), Leaves(leaving)]
        list(made.gone("a", leaving.uid, 70.0))
        list(made.see(a_pod("a", attempt=1), 70.0))
        until(made, 1000.0)
        assert made.jobs["a"].ended == 200.0


def test_failed_pods_that_are_shown_again_are_no_part_of_the_next_gang():
    made = trainers(a_job("a", 2, seconds=100.0), rendezvous=900.0)
    list(made.see(a_pod("a"), 0.0))
    until(made, 930.0)
    assert list(made.see(a_pod("a", over=True), 930.0)) == []
    assert list(made.see(a_pod("a"), 930.0)) == [], "that it has a node is heard late"
    assert until(made, 1000.0) == []
    list(made.see(a_pod("a", 1, attempt=1), 930.0))
    until(made, 1100.0)
    assert made.jobs["a"].began is None, "half a gang, and a failed pod"
    list(made.see(a_pod("a", attempt=1), 1100.0))
    until(made, 2000.0)
    assert made.jobs["a"].ended == 1230.0


def test_what_was_not_saved_is_lost_with_the_pods():
    made = trainers(a_job("a", 1, seconds=100.0))
    list(made.see(a_pod("a"), 0.0))
    until(made, 30.0)
    list(made.gone("a", a_pod("a").uid, 120.0))
    list(made.see(a_pod("a", attempt=1), 120.0))
    until(made, 1000.0)
    assert made.jobs["a"].ended == 250.0


def test_a_job_that_grows_trains_on_and_is_faster_when_the_new_pods_are_up():
    made = trainers(a_job("a", 1, seconds=1000.0, min=1, max=2))
    list(made.see(a_pod("a"), 0.0))
    until(made, 30.0)
    list(made.see(a_pod("a", 1), 100.0))
    assert made.jobs["a"].rate == 1.0
    until(made, 130.0)
    assert made.jobs["a"].rate > 1.0
    list(made.gone("a", a_pod("a", 1).uid, 200.0))
    assert made.jobs["a"].rate == 1.0


def test_each_replica_connects_when_it_is_up_and_hangs_up_when_it_goes():
    """One that was made in the place of another, and did not connect, would be waited for before each save."""
    made = trainers(a_job("a", 2, seconds=1000.0, min=1, max=2))
    first, second = a_pod("a"), a_pod("a", 1)
    list(made.see(first, 0.0))
    list(made.see(second, 0.0))
    until(made, 30.0)
    assert list(made.gone("a", first.uid, 100.0)) == [HangsUp(first)]
    for _ in range(2):  # by each replica that is asked
        made.asked_to_save("a", 1, 110.0)
    assert [effect for _, effect in until(made, 130.0) if isinstance(effect, Saved)] == [Saved("a", 1, 7, 10.0)]
    again = replace(first, uid="again")
    list(made.see(again, 130.0))
    assert [effect for _, effect in until(made, 160.0)] == [ComesUp(again), Connects(again, 100)]


def test_reports_come_as_often_as_the_simulators():
    made = trainers(a_job("a", 1, seconds=1000.0))
    list(made.see(a_pod("a"), 0.0))
    until(made, 30.0)
    assert [type(one) for one in made.advance(60.0)] == [], "not before a minute has passed"
    (report,) = made.advance(91.0)
    assert isinstance(report, Reports)
    assert report.step == 6
