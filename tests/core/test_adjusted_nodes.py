"""Nodes that change in place: the same board, and the same plans, as with a table made anew."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from headway.core.board import Board
from headway.core.job import Job, JobId, Role
from headway.core.node import Constraint, Node, Nodes
from headway.core.placement import Placement
from headway.core.states import State

KINDS = ("cpu", "memory", "gpu")
CONSTRAINTS = [
    Constraint.of(Role(name="any")),
    Constraint.of(Role(name="ssd", selector=(("disk", "ssd"),))),
    Constraint.of(Role(name="a", accelerator="A100")),
    Constraint.of(Role(name="team", tolerates=("team",))),
]


def a_node(name: str, dice: random.Random, *, domains: bool = True) -> Node:
    capacity = {kind: dice.randrange(0, 20) for kind in KINDS if dice.random() < 0.8}
    return Node(
        name=name, capacity=tuple(sorted(capacity.items())), ready=dice.random() < 0.7,
        labels=dice.choice([(), (("disk", "ssd"),)]), taints=dice.choice([(), (), ("team:NoSchedule",)]),
        domain=dice.choice(["", "x", "y"]) if domains else "", accelerator=dice.choice(["", "A100"]),
    )  # fmt: skip


def same_table(one: Nodes, two: Nodes) -> None:
    assert (one.nodes, one.kinds, one.index, one.domains) == (two.nodes, two.kinds, two.index, two.domains)
    for name in ("capacity", "ready", "domain"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
        assert not getattr(one, name).flags.writeable
    for constraint in CONSTRAINTS:
        assert np.array_equal(one.mask(constraint), two.mask(constraint)), constraint


@pytest.mark.parametrize("seed", range(20))
def test_replaced_nodes_are_the_table_made_anew(seed):
    dice = random.Random(seed)
    nodes = Nodes.of([a_node(f"n{number}", dice) for number in range(8)], KINDS)
    for _ in range(30):
        for constraint in CONSTRAINTS:
            nodes.mask(constraint)  # a mask that is kept must not outlive a change
        chosen = dice.sample(range(8), dice.randrange(0, 4))
        changes = {number: a_node(f"n{number}", dice, domains=dice.random() < 0.3) for number in chosen}
        before = nodes.nodes
        after = nodes.replaced(changes)
        assert nodes.nodes is before, "the old table is a snapshot's"
        same_table(after, Nodes.of([changes.get(number, node) for number, node in enumerate(before)], KINDS))
        nodes = after


def test_a_kind_that_the_table_lacks_makes_it_anew():
    nodes = Nodes.of([Node(name="a", capacity=(("cpu", 4),)), Node(name="b", capacity=(("cpu", 4),))], ("cpu",))
    more = Node(name="b", capacity=(("cpu", 4), ("gpu", 2)))
    same_table(nodes.replaced({1: more}), Nodes.of([nodes.nodes[0], more], ("cpu",)))


def a_board(nodes: Nodes, jobs: int) -> Board:
    board = Board(nodes)
    for number in range(jobs):
        role = Role(name="w", request=(("cpu", 2 + number), ("memory", 1)), max=4)
        row = board.add(Job(id=JobId(f"j{number}"), roles=(role,)), 0.0)
        board.restore(row, State.RUNNING, Placement((((number, (3 * number + 1) % len(nodes))),)), None)
    return board


@pytest.mark.parametrize("seed", range(20))
def test_an_adjusted_board_is_the_board_with_the_nodes_set(seed):
    dice = random.Random(seed)
    nodes = Nodes.of([a_node(f"n{number}", dice) for number in range(8)], KINDS)
    adjusted, whole = a_board(nodes, 4), a_board(nodes, 4)
    for turn in range(30):
        chosen = dice.sample(range(8), dice.randrange(1, 4))
        if dice.random() < 0.5:
            changes = {number: replace(nodes.nodes[number], ready=dice.random() < 0.5) for number in chosen}
        else:
            changes = {number: a_node(f"n{number}", dice) for number in chosen}
        nodes = nodes.replaced(changes)
        kept = adjusted.snapshot(float(turn))
        free = kept.free.copy()
        adjusted.adjust(nodes, chosen)
        whole.set_nodes(nodes)
        assert np.array_equal(kept.free, free), "a snapshot stays as it was"
        one, two = adjusted.snapshot(float(turn)), whole.snapshot(float(turn))
        assert np.array_equal(one.free, two.free)
        assert one.free.dtype == two.free.dtype
        same_table(one.nodes, two.nodes)
        for row in range(4):
            assert one.jobs.job(row) == two.jobs.job(row)
            assert adjusted.placement(row) == whole.placement(row)
            first, second = adjusted.table.shape_at(row), whole.table.shape_at(row)
            assert np.array_equal(first.roles[0].vector, second.roles[0].vector)
