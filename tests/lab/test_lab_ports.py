"""Ports of labs that know nothing of each other."""

from headway.lab import control_plane


def test_two_labs_that_know_nothing_of_each_other_look_at_different_ports(monkeypatch):
    begins = iter((20_500, 27_000))
    monkeypatch.setattr(control_plane.random, "randrange", lambda first, last: next(begins))
    assert not set(control_plane.free_ports(6, ())) & set(control_plane.free_ports(6, ()))


def test_a_search_that_begins_near_the_end_goes_on_at_the_beginning(monkeypatch):
    monkeypatch.setattr(control_plane.random, "randrange", lambda first, last: control_plane.LAST_PORT - 2)
    ports = control_plane.free_ports(6, ())
    assert len(set(ports)) == 6
    assert any(port < 20_200 for port in ports)


def test_ports_of_other_labs_are_left_out(monkeypatch):
    monkeypatch.setattr(control_plane.random, "randrange", lambda first, last: 21_000)
    assert not {21_000, 21_001} & set(control_plane.free_ports(4, (21_000, 21_001)))
