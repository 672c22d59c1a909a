"""Roles start after the roles that they wait for, and in the file's order where that is free."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.job import Role, start_order


def roles(**after: tuple[str, ...]) -> tuple[Role, ...]:
    return tuple(Role(name=name, after=names) for name, names in after.items())


def test_the_file_s_order_holds_where_it_is_free():
    assert start_order(roles(a=(), b=(), c=())) == (0, 1, 2)
    assert start_order(roles(worker=("ps",), ps=(), evaluator=())) == (1, 0, 2)
    assert start_order(roles(chief=(), worker=("ps", "chief"), ps=())) == (0, 2, 1)


@given(st.lists(st.sets(st.integers(0, 5)), max_size=6))
def test_every_role_comes_once_and_after_the_roles_it_waits_for(waits: list[set[int]]):
    some = roles(**{f"r{n}": tuple(f"r{w}" for w in sorted(after) if w < n) for n, after in enumerate(waits)})
    order = start_order(some[::-1])
    assert sorted(order) == list(range(len(some)))
    names = [some[::-1][number].name for number in order]
    for role in some:
        assert all(names.index(name) < names.index(role.name) for name in role.after)


def test_a_circle_and_a_missing_role_are_told_in_a_sentence():
    with pytest.raises(ValueError, match=r"^role 'x' waits for itself through `after`$"):
        start_order(roles(w=("x",), x=("y",), y=("x",)))
    with pytest.raises(ValueError, match=r"^role 'x' waits for itself through `after`$"):
        start_order(roles(x=("x",)))
    with pytest.raises(ValueError, match=r"^role 'x' comes after 'y', which is no role of this job$"):
        start_order(roles(x=("y",)))
