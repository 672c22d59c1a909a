"""Another tenant's thousands do not keep a job waiting: not at the start, and not in the turns of the loop."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from small_cluster import HEALTHY, MemoryApi, SmallCluster

from headway.kube import cluster as cluster_module
from headway.kube import incoming as incoming_module
from headway.kube import newcomers as newcomers_module
from headway.kube.admission import Admission
from headway.kube.api.errors import KubeError
from headway.kube.api.objects import Meta, TrainingJob
from headway.kube.attention import Attention
from headway.kube.fair import MOST_PER_TURN, in_turn
from headway.kube.inbox import Inbox
from headway.kube.job.spec import read_spec
from headway.kube.newcomers import Newcomers
from headway.kube.settings import KubeTimeouts

CROWD = "crowd"


class Slow(MemoryApi):
    """Dry runs of the crowd are answered only later."""

    slow = True

    def rehearse(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None:
        super().rehearse(key, namespace, body, after or (1.0 if namespace == CROWD and self.slow else 0.0))

    def pass_time(self) -> None:
        self.slow = False
        super().pass_time()


def a_crowd(api: MemoryApi, count: int, **role: Any) -> list[str]:
    """Jobs that all have templates of their own."""
    return [
        api.submit(f"c{n}", {"roles": {"worker": {"cpu": f"{n + 1}m", **role}}}, namespace=CROWD) for n in range(count)
    ]


def test_decisions_begin_though_dry_runs_of_others_have_no_answer():
    api = Slow(nodes=4)
    crowd = a_crowd(api, 5)
    good = api.submit("good", HEALTHY)
    small = SmallCluster(api, timeouts=KubeTimeouts(rehearsals=0.01))
    small.turn(5)
    assert small.phase(good) == "Running"
    assert [small.phase(uid) for uid in crowd] == [""] * 5, "nothing is held for a job before its pods are known"
    api.pass_time()
    small.turn(4)
    assert [small.phase(uid) for uid in crowd] == ["Running"] * 5


def test_jobs_that_have_pods_go_on_before_the_first_decision():
    api = Slow(nodes=4)
    crowd = a_crowd(api, 3)
    small = SmallCluster(api, timeouts=KubeTimeouts(rehearsals=0.01))
    api.pass_time()
    small.turn(4)
    small.start()
    assert [small.phase(uid) for uid in crowd] == ["Running"] * 3
    assert sorted(job.job.id for job in small.cluster._jobs()) == ["crowd/c0", "crowd/c1", "crowd/c2"]


def test_a_job_is_read_beside_thousands_that_are_not_read_yet():
    api = MemoryApi(nodes=20)
    a_crowd(api, 600)
    good = api.submit("good", HEALTHY)
    small = SmallCluster(api, timeouts=KubeTimeouts(rehearsals=0.0))
    small.turn(4)
    assert small.phase(good) == "Running"
    assert small.cluster._admission.newcomers.waiting, "the crowd is still being read"
    while small.cluster._admission.to_come:
        small.turn()
    assert len(list(small.cluster._jobs())) == 601


def test_a_list_shows_again_only_what_has_changed(monkeypatch):
    api = MemoryApi()
    a_crowd(api, 3)
    small = SmallCluster(api)
    small.turn(3)
    api.submit("good", HEALTHY)
    seen: list[str] = []
    monkeypatch.setattr(Admission, "_changed", lambda _, found: seen.append(found.metadata.name))
    api.inbox = small.cluster._worker.inbox = Inbox()
    api.begin()
    small.turn()
    assert seen == ["good"]


def test_of_newcomers_each_namespace_has_its_turn_until_the_time_is_over():
    now = 0.0
    newcomers = Newcomers(lambda: now)
    for name in [f"a{number}" for number in range(200)] + ["b0", "b1"]:
        newcomers.put(TrainingJob(Meta(name=name, namespace=name[0], uid=name)))
    newcomers.drop(Meta(namespace="b", uid="b0"))
    newcomers.new_turn()
    taken = []
    for found in newcomers.this_turn():
        taken.append(found.metadata.name)
        now += 0.01
    assert taken == ["a0", "b1", *(f"a{number}" for number in range(1, 7))], "at least so many in each turn"
    assert list(newcomers.this_turn()) == [], "until the next turn"
    newcomers.new_turn()
    assert len(list(newcomers.this_turn())) == newcomers_module.MOST_PER_TURN, "if they take no time"
    newcomers.keep({"a199"})
    newcomers.new_turn()
    assert [found.metadata.name for found in newcomers.this_turn()] == ["a199"]
    assert not newcomers.waiting


def test_refused_jobs_are_not_rehearsed():
    api = MemoryApi()
    for number in range(3):
        api.submit(f"odd-{number}", {"roles": {"worker": {"replicas": -number}}})
    SmallCluster(api)
    assert api.rehearsed == []


def test_a_job_starts_in_a_few_turns_beside_many_of_another_namespace():
    api = MemoryApi(nodes=20)
    crowd = a_crowd(api, 170)
    small = SmallCluster(api, timeouts=KubeTimeouts(rehearsals=60.0))
    small.turn()
    taken = [job.attention.taken for job in small.cluster._jobs()]
    assert sum(one == max(taken) for one in taken) == MOST_PER_TURN < len(taken)
    good = api.submit("good", HEALTHY)
    small.turn(5)
    assert small.phase(good) == "Running"
    assert {small.phase(uid) for uid in crowd} == {"Running"}


@dataclass
class Due:
    """As much of a followed job as matters to turns."""

    namespace: str
    taken: float
    attention: Attention = field(init=False)
    meta: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        self.attention, self.meta = Attention(taken=self.taken), SimpleNamespace(namespace=self.namespace)


def test_namespaces_take_turns_and_who_waited_longest_is_the_first_of_its_own():
    jobs = [Due("a", 9.0 - number) for number in range(9)] + [Due("b", 5.0), Due("b", 1.0), Due("c", 99.0)]
    chosen = in_turn(jobs, most=6)
    assert [(job.namespace, job.taken) for job in chosen] == [
        ("a", 1.0), ("b", 1.0), ("c", 99.0), ("a", 2.0), ("b", 5.0), ("a", 3.0),
    ]  # fmt: skip
    assert in_turn(jobs, most=12) is jobs


def test_a_start_reads_each_job_that_runs_once(monkeypatch):
    api = MemoryApi(nodes=4)
    a_crowd(api, 5)
    small = SmallCluster(api)
    small.turn(4)
    read: list[bytes] = []
    monkeypatch.setattr(incoming_module, "read_spec", lambda raw: read.append(bytes(raw)) or read_spec(raw))
    small.start()
    assert len(read) == len(set(read)) == 5
    assert len(list(small.cluster._jobs())) == 5


def test_of_statuses_that_headway_did_not_write_a_start_tells_in_one_sentence(caplog):
    api = MemoryApi()
    for number in range(3):
        api.submit(f"odd-{number}", HEALTHY, status={"phase": number})
    SmallCluster(api)
    told = [record.getMessage() for record in caplog.records if "Headway did not write" in record.getMessage()]
    (sentence,) = told
    assert sentence.startswith(
        "the statuses of 3 TrainingJobs are ignored, Headway did not write them; of team/odd-0: "
    )


def test_the_collector_rests_while_a_start_reads_and_works_again_afterwards_also_where_it_fails(monkeypatch):
    seen: list[bool] = []

    def failing(*_: object) -> None:
        seen.append(gc.isenabled())
        raise KubeError("no access")

    monkeypatch.setattr(cluster_module, "read_initial_state", failing)
    with pytest.raises(KubeError):
        SmallCluster()
    assert (seen, gc.isenabled()) == ([False], True)
