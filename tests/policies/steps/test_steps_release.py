"""Giving back what is not used: replicas and cpu."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.draft import Draft
from headway.core.plan import Resize, Scale
from headway.policies.steps.release import SETTLED, Idle, release_cpu, release_useless
from headway.policies.value.terms import Terms
from headway.policies.value.worth import Worth
from make import a_job, a_role, a_snapshot, running, some_nodes

NOW = 10_000.0


def flat_from(count):
    return lambda _job, counts: float(min(counts[0], count))


USELESS = [
    ("all help", 4, 0.0, None),
    ("the last two do not", 2, 0.0, 2),
    ("never below the min", 0, 0.0, 1),
    ("not while it rests", 2, NOW - 10.0, None),
]


@pytest.mark.parametrize(("why", "best", "touched", "count"), USELESS)
def test_replicas_that_do_not_help_go(why, best, touched, count):
    entry = running(a_job("a", 4, min=1, max=4), [0] * 4, touched=touched)
    speed = flat_from(best) if best else lambda _job, counts: 1.0 / counts[0]
    draft = Draft(a_snapshot(entry, nodes=some_nodes(1, gpus=4), now=NOW, left={"a": 5000.0}, speed=speed))
    release_useless(draft, Worth(draft.snapshot, Terms(cool_down=60.0)))
    scales = [len(one.nodes) for one in draft.plan().decisions if isinstance(one, Scale)]
    assert scales == ([] if count is None else [count]), why


CPU = [
    ("it uses most of it", 3.0, NOW - SETTLED, []),
    ("it uses a tenth: twice of that is left", 0.4, NOW - SETTLED, [800]),
    ("never below a tenth of a core", 0.01, NOW - SETTLED, [100]),
    ("not before it has settled", 0.4, NOW - SETTLED + 1.0, []),
]


@pytest.mark.parametrize(("why", "used", "since", "cut"), CPU)
def test_idle_cpu_is_cut(why, used, since, cut):
    entry = running(a_job("a", roles=[a_role(cpu=4, memory=10)]), [0], since=since, touched=0.0)
    snapshot = a_snapshot(entry, nodes=some_nodes(1, gpus=0, cpu=8, memory=100), now=NOW, left={"a": 5000.0})
    draft = Draft(replace(snapshot, used_cpu={0: used}))
    release_cpu(draft, [0], Worth(draft.snapshot, Terms()), Idle(0.2, 1.0))
    assert [one.cpu for one in draft.plan().decisions if isinstance(one, Resize)] == cut, why
