"""drf: the user with the smallest dominant share is next."""

from __future__ import annotations

from headway.policies.registry import POLICIES
from make import a_job, a_role, a_snapshot, running, some_nodes, started


def test_users_take_turns_by_share() -> None:
    """ann holds a quarter already: bob gets two before she gets one, and then they are even."""
    snapshot = a_snapshot(
        running(a_job("up", 2, user="ann"), [0, 0]),
        *(a_job(f"a{i}", 1, user="ann") for i in range(4)),
        *(a_job(f"b{i}", 1, user="bob") for i in range(4)),
        nodes=some_nodes(1, gpus=8),
    )
    assert started(POLICIES["drf"]()(snapshot)) == ["b0", "b1", "a0", "b2", "a1", "b3"]


def test_the_paper_s_example() -> None:
    """9 cpu and 18 GiB; ann asks for 1 cpu and 4 GiB, bob for 3 cpu and 1 GiB: three of ann's and two of bob's."""
    ann, bob = a_role(cpu=1, memory=4096), a_role(cpu=3, memory=1024)
    snapshot = a_snapshot(
        *(a_job(f"a{i}", roles=[ann], user="ann") for i in range(9)),
        *(a_job(f"b{i}", roles=[bob], user="bob") for i in range(9)),
        nodes=some_nodes(1, gpus=0, cpu=9, memory=18 * 1024),
    )
    got = started(POLICIES["drf"]()(snapshot))
    assert sorted(name[0] for name in got) == ["a", "a", "a", "b", "b"]


def test_a_job_that_does_not_fit_does_not_block_its_user() -> None:
    snapshot = a_snapshot(a_job("wide", 9, user="ann"), a_job("one", 1, user="ann"), nodes=some_nodes(1, gpus=4))
    assert started(POLICIES["drf"]()(snapshot)) == ["one"]
