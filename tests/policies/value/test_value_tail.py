"""The tail of completion times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.core.node import Nodes
from headway.policies.headway import Headway
from headway.policies.value.tail import in_tail
from make import a_job, a_node, a_role, a_snapshot, decided, running, some_nodes, started

PLAIN = Headway()


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_who_is_latest_does_not_depend_on_the_scale(scale):
    """A hundred like jobs, of which one is long: it is not stopped for short ones, and nobody else is spared."""
    left = np.array([40_000.0, *(1000.0 + 10 * n for n in range(99))]) * scale
    entries = [running(a_job(f"r{n}"), (0,), since=0.0) for n in range(20)] + [a_job(f"w{n}") for n in range(80)]
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=20), now=500.0 * scale)
    share = np.full(100, 1 / 20)
    first = in_tail(snapshot, np.arange(100), left, share, PLAIN.tail(sizing=False))
    assert first[0]
    assert first.sum() <= PLAIN.tail_share * 20
    assert not first[:20][np.argsort(left[:20])[:15]].any()


def test_a_wide_job_must_wait_longer_to_come_first():
    short = [a_job(f"s{i}", seconds=50_000.0, submit=19_000.0) for i in range(4)]
    wide = a_job("wide", 4, seconds=60_000.0)
    assert started(PLAIN(a_snapshot(wide, *short, nodes=some_nodes(1, gpus=4), now=20_000.0))) != ["wide"]
    assert started(PLAIN(a_snapshot(wide, *short, nodes=some_nodes(1, gpus=4), now=600_000.0))) != ["wide"]
    assert started(PLAIN(a_snapshot(wide, *short, nodes=some_nodes(1, gpus=4), now=2e6))) == ["wide"], "nobody starves"
    new = [replace(job, submit=590_000.0) for job in short]
    assert started(PLAIN(a_snapshot(wide, *new, nodes=some_nodes(1, gpus=4), now=600_000.0))) == ["wide"]


def test_a_long_job_is_not_in_the_way_of_a_short_one_that_needs_its_whole_node():
    """A job of eight minutes waited for 18 hours: a long job held one GPU of the node that was large enough."""
    nodes = Nodes.of([a_node("large", gpus=8), a_node("small", gpus=4), a_node("other", gpus=4)])
    long_ = running(a_job("long", seconds=60_000.0), (0,), since=0.0)
    others = [running(a_job(f"r{n}", seconds=9_000.0), (n % 3,), since=0.0) for n in range(10)]
    whole = a_job("whole", roles=[a_role(gpu=8)], seconds=440.0, submit=2_900.0)
    gang = a_job("gang", 8, seconds=440.0, submit=2_900.0)

    def stopped(job):
        plan = PLAIN(a_snapshot(long_, *others, job, nodes=nodes, now=3_000.0))
        return {name for name, what in decided(plan).items() if what == "stop"}

    assert stopped(whole) == {"long", "r0", "r3", "r6", "r9"}, "all jobs on the large node make room"
    assert stopped(gang)
    assert "long" not in stopped(gang), "a gang of single GPUs fits beside it"
    larger = a_job("larger", roles=[a_role(gpu=16)], seconds=440.0, submit=2_900.0)
    assert not stopped(larger), "what fits nowhere is in nobody's way"
