"""A node's cpu is shared whole, never beyond limits, and ends are those of the fluid."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.estimates.models.sharing import Claim, Tenant, ends, level

claims = st.lists(
    st.builds(lambda r, more, n: Claim(r, r + more, n), st.integers(0, 2000), st.integers(0, 8000), st.integers(1, 3)),
    min_size=1, max_size=8,
)  # fmt: skip


@given(claims)
def test_all_of_the_node_is_used_or_everybody_has_his_limit(shared):
    capacity = 8000.0 + sum(claim.request * claim.count for claim in shared)
    reached = level(capacity, shared)
    parts = [claim.part(reached) for claim in shared]
    used = sum(part * claim.count for part, claim in zip(parts, shared, strict=True))
    assert all(claim.request <= part <= claim.limit + 1e-6 for part, claim in zip(parts, shared, strict=True))
    wanted = sum(claim.limit * claim.count for claim in shared)
    assert used == pytest.approx(min(capacity, wanted), rel=1e-6)


def test_a_full_node_gives_requests_and_no_more():
    assert [claim.part(level(2000, [Claim(1000, 8000, 2)])) for claim in [Claim(1000, 8000)]] == [1000.0]


def test_equals_share_and_the_short_one_leaves_the_rest_to_the_long():
    one, other = Tenant(Claim(100, 8000), 8000.0 * 10), Tenant(Claim(100, 8000), 8000.0 * 30)
    assert ends(8000.0, [one, other]) == pytest.approx([20.0, 40.0])


def test_who_comes_later_slows_from_then_on():
    first, second = Tenant(Claim(100, 8000), 8000.0 * 20), Tenant(Claim(100, 8000), 8000.0 * 20, begins=10.0)
    assert ends(8000.0, [first, second]) == pytest.approx([30.0, 40.0])


def test_a_narrow_job_leaves_the_rest():
    narrow, wide = Tenant(Claim(100, 2000), 2000.0 * 10), Tenant(Claim(100, 8000), 6000.0 * 10)
    assert ends(8000.0, [narrow, wide]) == pytest.approx([10.0, 10.0])


def test_without_work_it_is_done_and_without_cpu_never():
    assert ends(8000.0, [Tenant(Claim(100, 8000), 0.0)]) == [0.0]
    assert ends(8000.0, [Tenant(Claim(0, 0), 10.0)]) == [math.inf]
    endless = Tenant(Claim(100, 8000), math.inf)
    assert ends(8000.0, [endless, Tenant(Claim(100, 8000), 4000.0 * 10)]) == [math.inf, pytest.approx(10.0)]


@given(claims, st.data())
def test_work_is_conserved(shared, data):
    """The last end is no sooner than all work takes on a busy node, and no later than one after the other."""
    tenants = [Tenant(Claim(claim.request + 1, claim.limit + 1), data.draw(st.floats(1.0, 1e6))) for claim in shared]
    capacity = 8000.0 + sum(tenant.claim.request for tenant in tenants)
    found = ends(capacity, tenants)
    assert max(found) >= sum(tenant.work for tenant in tenants) / capacity - 1e-6
    assert max(found) <= sum(tenant.work / tenant.claim.request for tenant in tenants) + 1e-6
    assert all(end >= tenant.work / tenant.claim.limit - 1e-6 for end, tenant in zip(found, tenants, strict=True))
