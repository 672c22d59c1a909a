"""elastic: worked examples, and what it leaves alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from headway.core.estimates import Basis, Beliefs, Estimates
from headway.core.job import Can
from headway.core.plan import Resize, Scale, Start
from headway.core.snapshot import Snapshot
from headway.estimates.models.scaling import plain_speed
from headway.policies.elastic import Elastic
from make import a_job, a_role, a_snapshot, decided, running, some_nodes, waiting


def linear(job, counts):
    return counts[0] / job.roles[0].replicas


def knee(at):
    """Linear up to so many workers, slower beyond."""

    def speed(job, counts):
        return min(counts[0], 2.0 * at - counts[0]) / job.roles[0].replicas

    return speed


def two_models(job, counts):
    """`flat` gains a tenth per worker, the others all of it."""
    return 1.0 + 0.1 * (counts[0] - 1) if job.model == "flat" else float(counts[0])


def stepped(job, counts):
    """Four to a node, and whatever is beyond a node is half as fast."""
    return counts[0] * (1.0 if counts[0] <= 4 else 0.5)


def elastic_job(name, gpus=1, *, least=1, most=8, **more):
    return a_job(name, gpus, min=least, max=most, **more)


# ── growing ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_idle_capacity_goes_where_it_gains_most():
    """Both have an hour left and two GPUs are idle: the one that scales gets them, not the one that hardly does."""
    snapshot = a_snapshot(
        running(elastic_job("flat", model="flat"), [0]), running(elastic_job("steep"), [0]),
        nodes=some_nodes(1, gpus=4), now=1000.0, left={"flat": 3600, "steep": 3600}, speed=two_models,
    )  # fmt: skip
    assert Elastic()(snapshot).decisions == (Scale("steep", "worker", (0, 0, 0)),)


def test_among_equals_what_is_soon_done_grows_first():
    snapshot = a_snapshot(
        running(elastic_job("long"), [0]), running(elastic_job("short"), [0]),
        nodes=some_nodes(1, gpus=3), now=1000.0, left={"long": 9000, "short": 900}, speed=linear,
    )  # fmt: skip
    assert decided(Elastic()(snapshot)) == {"short": "scale"}


@pytest.mark.parametrize("at", [2, 3, 5])
def test_nobody_grows_past_the_knee(at):
    snapshot = a_snapshot(
        running(elastic_job("a"), [0]), nodes=some_nodes(1, gpus=8), now=1000.0, left={"a": 9000}, speed=knee(at)
    )
    assert Elastic()(snapshot).decisions == (Scale("a", "worker", (0,) * at),)


def test_nobody_grows_onto_a_node_that_costs_more_than_it_brings():
    """Three more would fit beside it on the next node, at half speed each and all: only what is beside it is taken."""
    busy = [running(a_job(f"b{node}", taken), [node] * taken) for node, taken in enumerate([0, 1]) if taken]
    snapshot = a_snapshot(
        running(elastic_job("a"), [0]), *busy, nodes=some_nodes(2, gpus=4), now=1000.0,
        left={"a": 9000}, speed=stepped,
    )  # fmt: skip
    assert Elastic()(snapshot).decisions == (Scale("a", "worker", (0, 0, 0, 0)),)


def test_a_change_must_save_more_than_it_costs():
    def at(left):
        up = running(elastic_job("a", most=2), [0])
        return Elastic(restart=30.0)(
            a_snapshot(up, nodes=some_nodes(1, gpus=2), now=1000.0, left={"a": left}, speed=linear)
        )

    assert at(50.0).decisions == ()
    assert decided(at(70.0)) == {"a": "scale"}


def test_a_job_is_left_alone_after_a_change_and_longer_the_longer_it_runs_where_beliefs_change():
    def at(now, basis=None):
        up = running(elastic_job("a"), [0], touched=1000.0, since=1000.0, attained=10_000.0)
        snapshot = a_snapshot(up, nodes=some_nodes(1, gpus=2), now=now)
        return Elastic(cool_down=60.0, cool_down_share=0.05)(
            believing(snapshot, lambda counts: float(counts[0]), basis=basis)
        )

    assert at(1059.0).decisions == ()
    assert at(1059.0).until == 1060.0
    assert decided(at(1060.0)) == {"a": "scale"}
    assert at(1060.0, Basis.STEPS).until == 1500.0
    assert decided(at(1500.0, Basis.STEPS)) == {"a": "scale"}


def test_a_job_grows_at_once_to_the_size_that_is_believed_to_be_best():
    """Whether the belief is the plain rule or a fit, it is the best there is."""

    def grown_by(speed):
        up = running(elastic_job("a", 3), [0] * 3)
        snapshot = a_snapshot(up, nodes=some_nodes(1, gpus=12), now=1000.0)
        (scale,) = Elastic(cool_down_share=0.0)(believing(snapshot, speed, basis=Basis.STEPS)).decisions
        return len(scale.nodes)

    assert grown_by(lambda counts: plain_speed(elastic_job("a", 3), counts)) == 8
    assert grown_by(lambda counts: counts[0] / 3) == 8
    assert grown_by(lambda counts: min(counts[0], 5) / 3) == 5


def test_a_newcomer_starts_at_the_size_that_is_believed_to_be_best():
    snapshot = a_snapshot(elastic_job("a", 3), nodes=some_nodes(1, gpus=8))
    plain = believing(snapshot, lambda counts: plain_speed(elastic_job("a", 3), counts), basis=Basis.HISTORY)
    assert [decision.placement.counts for decision in Elastic()(plain).decisions] == [(8,)]
    seen = believing(snapshot, lambda counts: counts[0] / 3, basis=Basis.HISTORY)
    assert [decision.placement.counts for decision in Elastic()(seen).decisions] == [(8,)]


# ── shrinking ───────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_given_up_is_not_taken_by_those_who_grow():
    """While room is made for the newcomer, nobody grows into the part of it that is free already."""
    snapshot = a_snapshot(
        running(elastic_job("a", 4, least=3), [0] * 4), running(elastic_job("b", 2), [0] * 2),
        waiting(a_job("new", 3)), nodes=some_nodes(1, gpus=8), now=1000.0,
        left={"a": 9000, "b": 9000, "new": 60}, speed=linear,
    )  # fmt: skip
    plan = Elastic()(snapshot)
    assert len(plan.decisions) == 1
    assert sum(len(decision.nodes) for decision in plan.decisions) in (1, 3)
    assert plan.until == 1001.0


# ── starting ────────────────────────────────────────────────────────────────────────────────────────────────


def test_newcomers_share_what_is_idle_by_what_they_gain():
    snapshot = a_snapshot(
        elastic_job("flat", model="flat"), elastic_job("steep"), nodes=some_nodes(1, gpus=6),
        left={"flat": 3600, "steep": 3600}, speed=two_models,
    )  # fmt: skip
    sizes = {decision.job: decision.placement.counts for decision in Elastic()(snapshot).decisions}
    assert sizes == {"flat": (1,), "steep": (5,)}


def test_a_gang_goes_on_one_node_rather_than_larger_on_two():
    """Each of two nodes has three GPUs idle. Six would be as fast as three, and four on two nodes slower."""
    others = [running(a_job(f"b{node}"), [node]) for node in (0, 1)]
    snapshot = a_snapshot(
        *others, elastic_job("new"), nodes=some_nodes(2, gpus=4), left={"new": 3600}, speed=stepped
    )  # fmt: skip
    (start,) = Elastic()(snapshot).decisions
    assert len(start.placement.used_nodes()) == 1
    assert start.placement.counts == (3,)


def test_servers_and_workers_are_spread_alike_over_the_fewest_nodes():
    roles = [a_role("ps", 2, cpu=4, near=("worker",)), a_role("worker", 4, cpu=4, near=("ps",))]
    snapshot = a_snapshot(a_job("a", roles=roles, seconds=100.0), nodes=some_nodes(4, gpus=0, cpu=16))
    (start,) = Elastic()(snapshot).decisions
    servers, workers = start.placement.nodes
    assert len(start.placement.used_nodes()) == 2
    assert sorted(workers.count(node) for node in set(servers)) == [2, 2]
    apart = Elastic(affinity=False)(snapshot).decisions[0].placement
    assert len(set(apart.nodes[0]) & set(apart.nodes[1])) < 2


def test_the_smallest_area_starts_first_unless_somebody_has_waited_long():
    def first(waited):
        return Elastic(patience=600.0)(
            a_snapshot(
                waiting(a_job("large", 4), since=1000.0 - waited), waiting(a_job("small", 4), since=990.0),
                nodes=some_nodes(1, gpus=4), now=1000.0, left={"large": 5000, "small": 50},
            )
        ).decisions[0].job  # fmt: skip

    assert first(10.0) == "small"
    assert first(600.0) == "large"


# ── giving back ─────────────────────────────────────────────────────────────────────────────────────────────


def test_workers_that_do_not_help_are_given_back():
    snapshot = a_snapshot(
        running(elastic_job("a"), [0] * 5), nodes=some_nodes(1, gpus=8), now=1000.0, left={"a": 9000}, speed=knee(3)
    )
    assert Elastic()(snapshot).decisions == (Scale("a", "worker", (0, 0, 0)),)


def using(cores, *, requests=None, most=2, **columns) -> Snapshot:
    job = a_job("a", roles=[a_role("worker", 2, min=2, max=most, cpu=8)], seconds=9000.0)
    snapshot = a_snapshot(
        running(job, [0, 0], requests=requests, **columns), nodes=some_nodes(1, gpus=0, cpu=32), now=1e3
    )
    return replace(snapshot, used_cpu={0: cores})


def test_cpu_is_cut_only_when_a_job_has_settled():
    assert Elastic()(using(2.0, since=900.0)).decisions == ()


CPU_CASES = [
    ("much is idle: twice of what is used is left", 2.0, None, {"worker": 2000}),
    ("a fifth is used: nothing is cut", 3.2, None, {}),
    ("cut, and as fast as before: it stays so", 2.0, ((2000,),), {}),
    ("cut, and it uses less than then: it was slowed down", 1.5, ((2000,),), {"worker": 7999}),
    ("cut, and it uses all it has", 3.9, ((2000,),), {"worker": 7999}),
    ("given back once: never cut again", 2.0, ((7999,),), {}),
    ("nothing was measured", 0.0, None, {}),
]


@pytest.mark.parametrize(("why", "cores", "requests", "cut"), CPU_CASES)
def test_idle_cpu_is_given_back(why, cores, requests, cut):
    plan = Elastic()(using(cores, requests=requests))
    assert {d.role: d.cpu for d in plan.decisions if isinstance(d, Resize)} == cut, why
    assert len(plan.decisions) == len(cut)
    assert Elastic(idle=0.0)(using(2.0)).decisions == ()


# ── what it does not know ───────────────────────────────────────────────────────────────────────────────────


def believing(snapshot: Snapshot, speed, left=9000.0, basis=None) -> Snapshot:
    count = snapshot.jobs.count
    nothing = np.full(count, np.nan)
    rich = {} if basis is None else {
        "spread": nothing, "growth": np.zeros(count, np.uint8), "growth_since": nothing,
        "basis": np.full(count, int(basis), np.uint8),
    }  # fmt: skip
    beliefs = Beliefs(np.full(count, left), np.full(count, snapshot.now), snapshot.jobs.training(), **rich)
    return snapshot.with_estimates(Estimates(lambda: beliefs, lambda _row, counts: speed(counts)))


GARBAGE = [
    ("no estimates", lambda snapshot: snapshot.with_estimates(Estimates()), "no estimates"),
    ("nobody knows how long", lambda s: believing(s, lambda c: c[0], left=math.nan), "how long"),
    ("forever", lambda s: believing(s, lambda c: c[0], left=math.inf), "how long"),
    ("speed is no number", lambda s: believing(s, lambda _: math.nan), "no usable number"),
    ("speed is endless", lambda s: believing(s, lambda _: math.inf), "no usable number"),
    ("speed is below zero", lambda s: believing(s, lambda c: -c[0]), "no usable number"),
]


@pytest.mark.parametrize(("why", "garbage", "told"), GARBAGE)
def test_nobody_is_scaled_on_garbage_and_it_says_so(why, garbage, told):
    """A running job keeps its size beside an idle node; a waiting one starts as it asked to."""
    known = a_snapshot(
        running(elastic_job("a", 2), [0, 0]), elastic_job("new", 3), nodes=some_nodes(2, gpus=8), now=1000.0
    )
    snapshot = garbage(known)
    plan = Elastic()(snapshot)
    assert [type(decision) for decision in plan.decisions] == [Start], why
    assert plan.decisions[0].placement.counts == (3,)
    assert told in Elastic().explain(snapshot, 0)["size"]


@pytest.mark.parametrize("odd", [basis for basis in Basis if basis.odd])
def test_a_job_that_is_not_believed_is_sized_as_one_that_never_reported(odd):
    """Else a script that reports nonsense would lose by it, or, in other places, win."""
    here = a_snapshot(
        running(elastic_job("a", 2), [0, 0]), elastic_job("new", 3), nodes=some_nodes(2, gpus=8), now=1000.0
    )
    silent, doubted = (Elastic()(believing(here, lambda c: c[0], basis=basis)) for basis in (Basis.HISTORY, odd))
    assert doubted == silent
    assert any(isinstance(decision, Scale) for decision in doubted.decisions)
    unknown = Elastic()(believing(here, lambda c: c[0], left=math.nan, basis=odd))
    assert [type(decision) for decision in unknown.decisions] == [Start], "nothing is known of it: it keeps its size"


def test_it_says_why_a_job_keeps_its_size():
    fixed = running(elastic_job("a", 2, can=Can.STOP), [0, 0])
    snapshot = a_snapshot(fixed, running(elastic_job("b"), [0]), nodes=some_nodes(1, gpus=8), left={"a": 9, "b": 9})
    assert "does not allow" in Elastic().explain(snapshot, 0)["size"]
    assert Elastic().explain(snapshot, 1) == {}
    assert "switched off" in Elastic(scaling=False).explain(snapshot, 1)["size"]


def test_a_job_of_unknown_length_counts_as_an_hour_and_is_told_so():
    """A job that is sooner done does not shrink for it; one that takes longer does."""

    def asked(left):
        wide, guest = running(elastic_job("wide", most=4), [0, 0, 0, 0]), waiting(a_job("guest", 2))
        return a_snapshot(wide, guest, nodes=some_nodes(1, gpus=4), now=1000.0, left={"wide": left}, speed=linear)

    assert decided(Elastic()(asked(300.0))) == {}
    assert decided(Elastic()(asked(36_000.0))) == {"wide": "scale"}
    told = Elastic().explain(asked(300.0), 1)["length"]
    assert "counts as an hour" in told["sentence"]
    assert told["remedy"] == "its seconds declared"
    assert Elastic(patience=math.inf).explain(asked(300.0), 1)["length"]["sentence"].endswith("shrink for it.")
    assert "length" not in Elastic().explain(asked(300.0), 0)
