"""A snapshot never changes, whatever happens to the table later and whichever columns were read before."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from headway.core.job import Job, JobId, Role
from headway.core.jobs.row import MUTABLE
from headway.core.jobs.table import Table
from headway.core.jobs.view import Jobs
from headway.core.node import Node, Nodes
from headway.core.states import State

NODES = Nodes.of([Node(name="n", capacity=(("gpu", 8),))])
ROLES = (Role(name="worker", request=(("gpu", 1),)),)
COLUMN = st.sampled_from(("state", "since", "stops"))


class Views(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = Table(NODES)
        self.kept: list[tuple[Jobs, dict[str, np.ndarray]]] = []

    @rule(many=st.sampled_from((1, 2, 70)))
    def append(self, many) -> None:
        for _ in range(many):
            number = self.table.arrivals
            self.table.append(Job(id=JobId(str(number)), roles=ROLES), float(number))

    @precondition(lambda self: self.table.count)
    @rule(name=COLUMN, row=st.integers(0, 300), value=st.integers(0, 9))
    def write(self, name, row, value) -> None:
        self.table.set(name, row % self.table.count, value)

    @rule()
    def view(self) -> None:
        self.kept.append((Jobs(self.table), {name: self.table.column(name).copy() for name in MUTABLE}))

    @precondition(lambda self: self.kept)
    @rule(name=COLUMN, which=st.integers(0, 20))
    def look(self, name, which) -> None:
        view, then = self.kept[which % len(self.kept)]
        assert np.array_equal(view.column(name), then[name])

    @precondition(lambda self: self.kept)
    @rule(name=COLUMN, which=st.integers(0, 20), row=st.integers(0, 300))
    def peek(self, name, which, row) -> None:
        view, then = self.kept[which % len(self.kept)]
        if view.count:
            row %= view.count
            assert view.value(row, name) == then[name][row]
            assert view.values(row, [name, "submit"])[0] == then[name][row]

    @precondition(lambda self: self.table.count)
    @rule()
    def compact(self) -> None:
        for row in range(0, self.table.count, 3):
            self.table.set("state", row, State.FINISHED)
            self.table.set("state", (row + 1) % self.table.count, State.FAILED)
        self.table.dead = int(np.isin(self.table.column("state"), [7, 8, 9]).sum())
        self.table.compact()

    def teardown(self) -> None:
        for view, then in self.kept:
            for name in MUTABLE:
                assert np.array_equal(view.column(name), then[name], equal_nan=True), name
                assert not view.column(name).flags.writeable


TestViews = Views.TestCase
TestViews.settings = settings(max_examples=60, deadline=None, stateful_step_count=40)
