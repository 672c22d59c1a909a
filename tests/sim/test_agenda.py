"""The agenda of expected events: order, replaced events, forgotten jobs."""

from __future__ import annotations

import math

from headway.sim.agenda import Agenda


def _all(agenda: Agenda, now: float) -> list[tuple[str, bool]]:
    found = []
    while (event := agenda.take(now)) is not None:
        found.append(event)
    return found


def test_events_come_in_order_and_not_before_their_time():
    agenda = Agenda()
    agenda.expect(5.0, "late", agenda.ends)
    agenda.expect(2.0, "early", agenda.ends)
    agenda.expect(2.0, "same time", agenda.landings)
    assert agenda.next() == 2.0
    assert _all(agenda, 1.9) == []
    assert _all(agenda, 2.0) == [("early", False), ("same time", True)], "equal times: in the order of `expect`"
    assert agenda.next() == 5.0


def test_a_new_time_replaces_the_old_one_also_if_it_is_later():
    agenda = Agenda()
    for at in (3.0, 7.0):
        agenda.expect(at, "a", agenda.ends)
    assert agenda.next() == 7.0
    assert _all(agenda, 6.0) == []
    assert _all(agenda, 7.0) == [("a", False)]


def test_an_end_and_a_landing_of_one_job_are_two_events():
    agenda = Agenda()
    agenda.expect(4.0, "a", agenda.ends)
    agenda.expect(1.0, "a", agenda.landings)
    assert _all(agenda, 4.0) == [("a", True), ("a", False)]


def test_a_forgotten_job_has_no_events():
    agenda = Agenda()
    agenda.expect(1.0, "a", agenda.ends)
    agenda.expect(2.0, "a", agenda.landings)
    agenda.forget("a")
    agenda.forget("never seen")
    assert agenda.next() == math.inf
    assert agenda.take(9.0) is None
