from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.job import Role
from headway.core.node import Constraint, Node, Nodes
from headway.core.placement import Placement, resized, shape_of
from headway.core.suits import OPERATORS, Requirement, SelectorError, matches, read_selector, tolerated, write_selector
from make import a_job

LABELS = {"zone": "a", "memory": "40", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("zone in (a, b)", True),
        ("zone in (b)", False),
        ("zone=a", True),
        ("zone == b", False),
        ("zone != b", True),
        ("zone notin (a)", False),
        ("rack notin (a)", True),
        ("zone", True),
        ("rack", False),
        ("!rack", True),
        ("!zone", False),
        ("memory > 39", True),
        ("memory > 40", False),
        ("memory < 41", True),
        ("zone > 1", False),
        ("rack < 1", False),
        ("empty in ()", True),
        ("zone in (a), memory > 50", False),
        ("zone in (a), memory > 30, !spot", True),
        ("", True),
    ],
)
def test_a_selector_says_which_labels_a_node_must_have(selector, expected):
    assert matches(selector, LABELS) is expected


@pytest.mark.parametrize("selector", ["zone in", "zone in a", "a b", "zone = (a)", "!zone = a", "(a)", "zone in (a"])
def test_a_selector_that_cannot_be_read_is_refused(selector):
    with pytest.raises(SelectorError, match="cannot be read"):
        read_selector(selector)


@given(
    st.lists(
        st.builds(
            Requirement,
            st.sampled_from(["zone", "example.com/gpu-memory", "field:metadata.name"]),
            st.sampled_from(sorted(OPERATORS)),
            st.lists(st.sampled_from(["a", "", "b.c_d", "7"]), min_size=1, max_size=3).map(tuple),
        )
    )
)
def test_written_selectors_are_read_back(requirements):
    counts = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}
    plain = [one._replace(values=one.values[: counts.get(one.operator, 9)]) for one in requirements]
    assert list(read_selector(write_selector(plain))) == plain


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        ("slow", "slow", True),
        ("slow", "fast", False),
        ("team=vision:NoSchedule", "team", True),
        ("team=vision:NoSchedule", "team=vision", True),
        ("team=vision:NoSchedule", "team=audio", False),
        ("team=vision:NoSchedule", "team=vision:NoExecute", False),
        ("team=vision:NoExecute", "team:NoExecute", True),
        ("team:NoSchedule", "team=", True),
        ("team=x:NoSchedule", "team=", False),
        ("team=x:NoExecute", "*", True),
        ("team=x:NoSchedule", "*:NoExecute", False),
        ("slow", "slow:NoSchedule", True),
    ],
)
def test_taints_have_values_and_effects(taint, toleration, expected):
    assert tolerated(taint, [toleration]) is expected


def test_affinity_is_one_of_several_selectors_and_may_name_the_node():
    nodes = [Node(name=f"n{i}", capacity=(("cpu", 1),), labels=(("zone", "ab"[i % 2]),)) for i in range(4)]
    role = Role(name="worker", affinity=("zone in (b), field:metadata.name notin (n1)", "field:metadata.name in (n0)"))
    table, constraint = Nodes.of(nodes), Constraint.of(role)
    assert table.mask(constraint).tolist() == [True, False, False, True]
    assert "does not match zone in (b)" in constraint.refusal(nodes[1])


def test_overhead_is_held_beside_the_request_and_stays_in_a_resize():
    nodes = Nodes.of([Node(name="n", capacity=(("cpu", 8000), ("memory", 64), ("pods", 3)))])
    role = Role(name="worker", request=(("cpu", 1000),), overhead=(("cpu", 500), ("pods", 1)))
    shape = shape_of(a_job("a", roles=(role,)), nodes)
    kinds = nodes.kinds
    assert dict(zip(kinds, shape.roles[0].vector.tolist(), strict=True)) == {"cpu": 1500, "memory": 0, "pods": 1}
    changed = resized(Placement(((0,),)), shape, 0, kinds, {"cpu": 2000, "memory": 16})
    assert dict(zip(kinds, changed.vector(shape, 0).tolist(), strict=True)) == {"cpu": 2500, "memory": 16, "pods": 1}
    assert shape_of(a_job("b", roles=(Role(name="w", overhead=(("fpga", 1),)),)), nodes).missing == "fpga"
