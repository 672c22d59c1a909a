"""Lists of jobs by type of accelerators: what a job adds, what a type costs, and when a job has its turn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.policies.value.lists import Costs, Demand, members, prices
from headway.policies.value.turns import turns


def _demand(seconds, width=None, slots=(1, 1), first=None, at=None, fixed=None):
    times = np.array(seconds, float)
    count = len(times)
    return Demand(
        times, np.array(width or [1] * count, float), np.array(slots, float), np.array(first or [0] * count),
        np.array(at or [-1] * count), np.array(fixed or [False] * count), times,
    )  # fmt: skip


def _sum_of_ends(times):
    return sum(itertools.accumulate(sorted(times)))


columns = st.lists(
    st.tuples(st.integers(1, 10_000), st.integers(1, 10_000)), min_size=2, max_size=12, unique_by=(lambda x: x[0],)
)


@settings(max_examples=50, deadline=None)
@given(columns, st.data())
def test_on_one_accelerator_what_a_job_adds_is_exact(seconds, data):
    member = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(seconds), max_size=len(seconds))))
    found = Costs(_demand(seconds))(member)
    for job, kind in itertools.product(range(len(seconds)), range(2)):
        others = [one[kind] for number, one in enumerate(seconds) if member[number] == kind and number != job]
        if seconds[job][kind] not in others:  # of equals, either may come first
            adds = _sum_of_ends([*others, seconds[job][kind]]) - _sum_of_ends(others)
            assert found[job, kind] == pytest.approx(adds)


def test_who_loses_least_leaves_the_type_that_all_want():
    demand = _demand([[3600.0, 5400.0], [3600.0, 28_800.0]])
    assert members(demand).tolist() == [1, 0]


def test_a_type_that_all_want_is_dear():
    price = prices(_demand([[100.0, 1000.0]] * 20))
    assert price[0] / price[1] == pytest.approx(10.0, rel=0.25)


def test_a_job_that_runs_nowhere_else_stays_in_its_list():
    demand = _demand([[np.inf, 500.0], [100.0, np.inf], [100.0, 100.0]])
    found = members(demand)
    assert found[:2].tolist() == [1, 0]


def test_the_shortest_come_first_and_wide_jobs_wait_for_all_their_accelerators():
    demand = _demand([[100.0], [60.0], [300.0]], width=[1, 2, 1], slots=[2])
    assert turns(demand, np.zeros(3, int), tail=0.0).tolist() == [0.0, 100.0, 160.0]


def test_a_long_job_starts_so_that_it_does_not_end_last_and_alone():
    seconds = [[100.0]] * 20 + [[1100.0]]
    demand = _demand(seconds, slots=[2])
    late, early = (turns(demand, np.zeros(21, int), tail=tail)[-1] for tail in (0.0, 1.0))
    assert late == 1000.0
    assert early <= 500.0


def test_a_higher_class_chooses_first():
    demand = _demand([[3600.0, 5400.0], [3600.0, 28_800.0]], first=[0, 1])
    assert members(demand)[0] == 0


def test_a_higher_class_has_its_turn_before_all_others():
    demand = _demand([[100.0], [900.0]], slots=[1], first=[1, 0])
    assert turns(demand, np.zeros(2, int)).tolist() == [900.0, 0.0]
