"""Columns follow the records, whoever asks for which of them when; the shortcuts say the same as the long way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.job import Can
from headway.core.jobs import columns as columns_module
from headway.core.jobs.row import MUTABLE, WRITE_ONCE, JobRow
from headway.core.jobs.table import Table
from headway.core.jobs.view import Jobs
from headway.core.states import State
from headway.policies.steps.order import FEW, by_key
from make import a_job, a_role, some_nodes


def _table(jobs: int) -> Table:
    table = Table(some_nodes())
    for number in range(jobs):
        table.append(a_job(f"j{number}", gpus=1 + number % 3), float(number))
    return table


def _computed(job: JobRow, serial: int) -> float:
    return 1000 * job.state + job.service + serial / 7


WRITES = st.lists(
    st.tuples(st.sampled_from(["state", "service", "size", "look", "view", "append", "compact"]), st.integers(0, 500)),
    max_size=80,
)


@given(WRITES)
def test_a_column_is_what_the_records_say_whenever_it_is_asked_for(writes):
    table = _table(70)
    for what, number in writes:
        row = number % table.count
        if what == "append":
            table.append(a_job(f"more{table.arrivals}"), 1.0)
        elif what == "compact":
            for dead in range(0, table.count, 2):
                table.set("state", dead, State.FINISHED)
                table.set("state", (dead + 1) % table.count, State.FINISHED if dead % 8 else State.WAITING)
            table.dead = int((table.column("state") == State.FINISHED).sum())
            table.compact()
        elif what == "view":
            Jobs(table)
        elif what == "look":
            Jobs(table).column(sorted(MUTABLE)[number % len(MUTABLE)])
            Jobs(table).computed("some", _computed)
        else:
            table.set(what, row, number % 7)
    view, rows = Jobs(table), table.columns.rows
    for name in MUTABLE:
        assert np.array_equal(view.column(name), [getattr(row, name) for row in rows], equal_nan=True), name
    for name in WRITE_ONCE:
        assert np.array_equal(view.column(name), [table.get(name, row) for row in range(table.count)], equal_nan=True)
    expected = [_computed(row, serial) for row, serial in zip(rows, view.serial.tolist(), strict=True)]
    assert np.array_equal(view.computed("some", _computed), expected)


def test_a_long_journal_is_worked_off_and_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(columns_module, "LONG", 20)
    table = _table(5)
    before = Jobs(table)
    then = before.size.copy()
    for number in range(200):
        table.set("size", number % 5, number)
        if number % 50 == 49:
            assert table.column("size").tolist() == [row.size for row in table.columns.rows]
            Jobs(table).computed("some", _computed)
    assert len(table.columns.journal) < 60
    assert Jobs(table).size.tolist() == [195, 196, 197, 198, 199]
    assert (before.size == then).all()


def test_an_older_view_works_out_what_was():
    table = _table(3)
    before = Jobs(table)
    table.set("service", 1, 5.0)
    assert before.computed("some", _computed).tolist() == pytest.approx([0.0, 1 / 7, 2 / 7])
    assert Jobs(table).computed("some", _computed).tolist() == pytest.approx([0.0, 5 + 1 / 7, 2 / 7])
    assert before.read(1).service == 0.0


def test_rows_are_found_by_arrival_number_as_long_as_they_are_there():
    table = _table(200)
    for row in range(150):
        table.set("state", row, State.FINISHED)
    table.dead = 150
    table.compact()
    view = Jobs(table)
    assert view.row_of_serial(150) == 0
    assert view.row_of_serial(199) == 49
    assert view.row_of_serial(3) is None
    table.append(a_job("later"), 1.0)
    assert view.row_of_serial(200) is None


def test_what_would_be_in_other_states_leaves_the_snapshot_alone():
    table = _table(3)
    view = Jobs(table)
    assert view.waiting().tolist() == [0, 1, 2]
    state = view.state.copy()
    state[1] = int(State.CANCELLED)
    assert view.with_state(state).waiting().tolist() == [0, 2]
    assert view.waiting().tolist() == [0, 1, 2]


def test_a_view_knows_whether_somebody_forbids_stopping_or_changes_size():
    table = _table(2)
    assert Jobs(table).all_can_stop
    assert not Jobs(table).any_elastic
    before = Jobs(table)
    table.append(a_job("fixed", can=Can.NOTHING), 0.0)
    table.append(a_job("elastic", roles=[a_role(replicas=2, min=1, max=4)]), 0.0)
    assert not Jobs(table).all_can_stop
    assert Jobs(table).any_elastic
    assert before.all_can_stop


def test_few_and_many_are_ranked_alike():
    chance = np.random.default_rng(1)
    key = chance.integers(0, 40, 3 * FEW) / 2.0
    key[::17], key[5::31] = np.inf, np.nan
    rows = np.arange(len(key))
    many = by_key(rows, key)
    for count in (1, FEW // 2, FEW):
        some = many[np.isin(many, rows[:count])]
        assert by_key(rows[:count], key[:count]).tolist() == some.tolist()
