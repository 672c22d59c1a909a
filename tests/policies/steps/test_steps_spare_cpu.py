"""Lending idle cpu, and taking it back."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.plan import Resize
from headway.policies.steps.spare_cpu import lend_cpu, take_back_cpu
from make import a_job, a_role, a_snapshot, amounts, running, some_nodes


def up(limit=4.0, held=None, touched=0.0, replicas=1, **job):
    role = a_role(replicas=replicas, cpu=1, memory=10, limit=amounts(cpu=limit))
    requests = None if held is None else ((held, 10),)
    return running(a_job("a", roles=[role], **job), [0] * replicas, requests=requests, touched=touched)


def resized(step, entry, cpu=8.0):
    draft = Draft(a_snapshot(entry, nodes=some_nodes(1, gpus=0, cpu=cpu, memory=100), now=100.0))
    step(draft)
    return [decision.cpu for decision in draft.plan().decisions if isinstance(decision, Resize)], draft.plan().until


LEND = [
    ("up to the limit", up(), 8.0, [4000]),
    ("what the node has idle", up(), 2.5, [2500]),
    ("shared by the replicas on it", up(replicas=2), 5.0, [2500]),
    ("less than a tenth is not worth it", up(), 1.05, []),
    ("no limit above the request", up(limit=1.0), 8.0, []),
    ("the job forbids it", up(can=Can.STOP), 8.0, []),
    ("it rests", up(touched=90.0), 8.0, []),
]


@pytest.mark.parametrize(("why", "entry", "cpu", "lent"), LEND)
def test_idle_cpu_is_lent(why, entry, cpu, lent):
    assert resized(lambda draft: lend_cpu(draft, 60.0), entry, cpu)[0] == lent, why


TAKE = [("what it did not ask for", up(held=4000), [1000]), ("nothing where it holds its request", up(held=1000), [])]


@pytest.mark.parametrize(("why", "entry", "left"), TAKE)
def test_lent_cpu_is_taken_back(why, entry, left):
    cpus, until = resized(take_back_cpu, entry)
    assert cpus == left, why
    assert until == (101.0 if left else float("inf"))
