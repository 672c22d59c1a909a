"""What a job holds follows what it uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.plan import Resize
from headway.jobspec import RoleFields, role_of, stated
from headway.policies.steps.follow_use import follow_use
from make import a_job, a_role, a_snapshot, running, some_nodes


def resizes(used, *, asked=4000, held=None, settled=100.0, role=None, others=0):
    job = a_job("a", roles=(role or a_role("worker", cpu=asked / 1000),), can=Can.everything())
    entries = [running(job, [0], since=0.0, touched=0.0)]
    if others:
        entries.append(running(a_job("b", roles=(a_role("worker", cpu=others / 1000),)), [0], since=0.0))
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=0, cpu=8), now=settled)
    if held is not None:
        kind = snapshot.nodes.kinds.index("cpu")
        vector = [0] * len(snapshot.nodes.kinds)
        vector[kind] = held
        placement = snapshot.placements[0].with_request(0, tuple(vector))
        free = snapshot.free.copy()
        free[kind, 0] += asked - held
        snapshot = replace(snapshot, placements={**snapshot.placements, 0: placement}, free=free)
    draft = Draft(replace(snapshot, used_cpu={0: used}))
    follow_use(draft, 60.0)
    return {one.job: one.cpu for one in draft.plan().decisions if isinstance(one, Resize)}, draft


def test_cpu_that_a_job_leaves_idle_is_given_back_once_it_has_settled():
    assert resizes(1.2)[0] == {"a": 1236}
    early, draft = resizes(1.2, settled=30.0)
    assert early == {}
    assert draft.plan().until == pytest.approx(60.0)


@pytest.mark.parametrize("used", [3.9, 4.0, 3.7])
def test_a_job_that_uses_nearly_all_it_holds_keeps_it(used):
    assert resizes(used)[0] == {}


def test_it_rises_again_at_once_when_it_is_used_and_never_above_what_was_asked_for():
    assert resizes(1.24, held=1236, settled=1.0)[0] == {"a": 1854}
    assert resizes(3.9, held=1236, settled=1.0)[0] == {"a": 4000}


def test_it_rises_as_far_as_its_node_has_room():
    """The node has 8 cores; the other job holds 6.5 of them, so that 0.264 are left beside 1.236."""
    assert resizes(1.24, held=1236, settled=1.0, others=6500)[0] == {"a": 1500}


def test_a_role_that_names_nothing_counts_as_one_core_and_then_as_what_it_uses():
    role = stated(role_of("worker", RoleFields()))
    assert (role.unstated, dict(role.request)) == (True, {"cpu": 1000})
    assert resizes(0.2, asked=1000, role=role)[0] == {"a": 206}
    assert resizes(5.0, asked=1000, role=role)[0] == {"a": 5150}
    named = role_of("worker", RoleFields(cpu=2))
    assert stated(named) is named


def test_auto_replicas_say_that_the_script_is_data_parallel():
    auto = role_of("worker", RoleFields(replicas="auto"))
    assert (auto.min, auto.replicas, auto.max) == (1, 1, 64)
    bounded = role_of("worker", RoleFields(replicas="auto", min=2, max=6))
    assert (bounded.min, bounded.replicas, bounded.max) == (2, 2, 6)
    plain = role_of("worker", RoleFields())
    assert (plain.min, plain.replicas, plain.max) == (1, 1, 1)
