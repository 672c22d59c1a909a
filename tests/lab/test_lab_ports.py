"""Ports of labs that know nothing of each other."""

from headway.lab import control_plane


def test_two_labs_that_know_nothing_of_each_other_look_at_different_ports(monkeypatch):
    begins = iter((500, 7_000))
    monkeypatch.setattr(control_plane.secrets, "randbelow", lambda limit: next(begins))
    assert not set(control_plane.free_ports(6, ())) & set(control_plane.free_ports(6, ()))


def test_a_search_that_begins_near_the_end_goes_on_at_the_beginning(monkeypatch):
    monkeypatch.setattr(control_plane.secrets, "randbelow", lambda limit: limit - 2)
    ports = control_plane.free_ports(6, ())
    assert len(set(ports)) == 6
    assert any(port < 20_200 for port in ports)


def test_ports_of_other_labs_are_left_out(monkeypatch):
    monkeypatch.setattr(control_plane.secrets, "randbelow", lambda limit: 1_000)
    assert not {21_000, 21_001} & set(control_plane.free_ports(4, (21_000, 21_001)))
