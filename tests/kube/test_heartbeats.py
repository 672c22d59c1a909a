"""A failure beside peers that hang is judged as soon as their nodes have given a sign of life."""

from __future__ import annotations

import pytest
from intents import BOTH, RUNNING, a_view
from small_cluster import BEGAN, MemoryApi, SmallCluster, a_node

from headway.core.gang import Phase
from headway.kube.api.objects import timestamp
from headway.kube.gangs.observe import suspects
from headway.kube.inbox import LeaseRead
from headway.kube.store.health import NodeHealth
from headway.kube.values import replace

PAIR = {"roles": {"worker": {"replicas": 2, "min": 2, "max": 2, "cpu": "3"}}}


class Asked:
    def __init__(self) -> None:
        self.nodes: list[str] = []

    def read_lease(self, node: str, now: float) -> None:
        self.nodes.append(node)


def test_a_node_was_alive_after_a_read_whose_answer_differs_from_the_next():
    asked = Asked()
    beats = NodeHealth()
    assert beats.ask(["n1"], 10.0, asked.read_lease) == 12.0
    assert beats.ask(["n1"], 11.0, asked.read_lease) == 13.0
    assert asked.nodes == ["n1"], "not more often than every two seconds"
    beats.take(LeaseRead("n1", "first", 10.0))
    beats.take(LeaseRead("n1", "first", 12.0))
    assert not beats.alive_after
    beats.take(LeaseRead("n1", "second", 14.0))
    assert beats.alive_after == {"n1": 12.0}, "it was renewed some time after this"
    beats.take(LeaseRead("n1", "first", 13.0))
    assert beats.alive_after == {"n1": 12.0}, "an answer that came late says nothing"
    beats.take(LeaseRead("n1", "", 20.0))
    assert beats.alive_after == {"n1": 12.0}, "it could not be read"


@pytest.mark.parametrize(
    ("alive", "expected"), [({}, {"n2"}), ({"n2": 989.0}, {"n2"}), ({"n2": 991.0}, set()), ({"n1": 999.0}, {"n2"})]
)
def test_suspects_are_nodes_without_a_sign_of_life_since_the_failure(alive, expected):
    failed = replace(BOTH[0], phase=Phase.FAILED, finished_at=990.0)
    assert suspects(a_view(RUNNING, failed, BOTH[1], alive_after=alive)) == expected
    assert suspects(a_view(RUNNING, *BOTH, alive_after=alive)) == set(), "nothing has failed"


def fail(small: SmallCluster, pod: dict, now: float) -> None:
    end = {"exitCode": 1, "finishedAt": timestamp(BEGAN + now), "reason": "Error"}
    pod["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": end}}]}
    small.api.tell(pod)


@pytest.mark.parametrize("alive", [True, False])
def test_a_gang_whose_peers_hang_has_failed_once_their_nodes_are_known_to_be_alive(alive):
    api = MemoryApi()
    api.nodes = [a_node("n0", "4"), a_node("n1", "4")]
    small = SmallCluster(api)
    uid = api.submit("gang", PAIR)
    small.turn(6)
    assert small.phase(uid) == "Running"
    first, second = api.pods_of("gang")
    now = small.cluster.now()
    fail(small, first, now - 3)
    for beat in range(4):
        api.leases = {second["spec"]["nodeName"]: f"beat {beat if alive else 0}"}
        small.cluster.store.health._asked.clear()
        small.hurry()
        small.turn(2)
    assert (small.phase(uid) == "Failed") is alive
