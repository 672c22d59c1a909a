"""What the next leader goes on with: the files beside a run's log, mirrored in a Secret."""

from __future__ import annotations

import json
import os

import pytest
from small_cluster import SmallCluster

from headway.kube import state as state_module
from headway.kube.state import ClusterState, _part
from headway.kube.writes.write import KeepState


def parts_of(body: dict) -> dict[str, bytes]:
    return {name: _part(told) for name, told in body["data"].items()}


def a_state(folder, **more) -> ClusterState:
    return ClusterState("headway-system", folder / "run.log", **more)


def test_files_beside_the_log_come_to_the_next_leader(tmp_path):
    first = a_state(tmp_path / "one", began=1234.5)
    first.log.parent.mkdir()
    assert parts_of(first.changed(now=True)) == {"began": b"1234.5"}
    (tmp_path / "one/run.log.beliefs").write_bytes(b"what was learned" * 1000)
    (tmp_path / "one/run.log.guard").write_bytes(b'{"mode": "on"}')
    body = first.changed(now=True)
    assert len(json.dumps(body)) < 1000, "compressed"
    assert first.changed(now=True) is None, "nothing has changed"
    (tmp_path / "two").mkdir()
    second = a_state(tmp_path / "two")
    second.unpack(parts_of(body))
    assert (second.began, second.taken_over) == (1234.5, True)
    assert (tmp_path / "two/run.log.beliefs").read_bytes() == b"what was learned" * 1000
    assert (tmp_path / "two/run.log.beliefs").stat().st_mode & 0o777 == 0o600
    assert second.changed(now=True) is None, "the Secret has it already"
    (tmp_path / "two/run.log.speeds").write_bytes(b"new")
    assert set(parts_of(second.changed(now=True))) == {"began", "beliefs", "guard", "speeds"}


def test_schedulers_of_two_namespaces_have_keys_of_their_own(tmp_path):
    one, other = a_state(tmp_path, instance="team-a", began=1.0), a_state(tmp_path, instance="team-b", began=2.0)
    assert set(one.changed(now=True)["data"]).isdisjoint(other.changed(now=True)["data"])


@pytest.mark.parametrize("told", ["!!!", "AAAA", None, 7, ""])
def test_what_cannot_be_read_is_learned_anew(tmp_path, told):
    state = a_state(tmp_path)
    state.unpack({name: _part(told) for name in ("began", "beliefs", "speeds", "guard")})
    assert not state.taken_over
    assert not list(tmp_path.iterdir())


def test_what_has_no_room_is_left_out_and_told(tmp_path, caplog):
    state = a_state(tmp_path, began=1.0)
    (tmp_path / "run.log.guard").write_bytes(b"{}")
    (tmp_path / "run.log.speeds").write_bytes(os.urandom(state_module.MOST_BYTES + 1000))
    assert set(state.changed(now=True)["data"]) == {"began", "guard"}
    assert "has no room for speeds" in caplog.text


def test_only_the_newest_is_sent(tmp_path):
    small, state = SmallCluster(), a_state(tmp_path, began=1.0)
    small.cluster.keep(state)
    small.turn(2)
    (write,) = [one for one in small.api.sent if isinstance(one.what, KeepState)]
    assert (write.namespace, write.name) == ("headway-system", "headway-state")
    assert small.cluster.outbox.is_idle
    small.cluster.keep(state)
    small.turn()
    assert sum(isinstance(one.what, KeepState) for one in small.api.sent) == 1, "it is not written again unchanged"
