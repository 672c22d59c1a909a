"""Another tenant's thousands do not keep a job waiting: not at the start, and not in the turns of the loop."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from small_cluster import HEALTHY, MemoryApi, SmallCluster

from headway.core.job import Job, JobId, Role
from headway.core.states import State
from headway.kube import cluster as cluster_module
from headway.kube.api.errors import KubeError
from headway.kube.api.objects import Meta, TrainingJob
from headway.kube.following import MAX_STEPS, _in_turn
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.intent import Intent
from headway.kube.inbox import Inbox
from headway.kube.intake import reading as incoming_module
from headway.kube.intake.spec import JobSpec, read_spec
from headway.kube.intake.table import MAX_PER_TURN, MIN_PER_TURN, Intake
from headway.kube.settings import KubeTimeouts

CROWD = "crowd"


class Slow(MemoryApi):
    """Dry runs of the crowd are answered only later."""

    slow = True

    def dry_run(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None:
        super().dry_run(key, namespace, body, after or (1.0 if namespace == CROWD and self.slow else 0.0))

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
    small = SmallCluster(api, timeouts=KubeTimeouts(dry_runs=0.01))
    small.turn(5)
    assert small.phase(good) == "Running"
    assert [small.phase(uid) for uid in crowd] == [""] * 5, "nothing is held for a job before its pods are known"
    api.pass_time()
    small.turn(4)
    assert [small.phase(uid) for uid in crowd] == ["Running"] * 5


def test_jobs_that_have_pods_go_on_before_the_first_decision():
    api = Slow(nodes=4)
    crowd = a_crowd(api, 3)
    small = SmallCluster(api, timeouts=KubeTimeouts(dry_runs=0.01))
    api.pass_time()
    small.turn(4)
    small.start()
    assert [small.phase(uid) for uid in crowd] == ["Running"] * 3
    assert sorted(job.job.id for job in small.cluster.gangs.values()) == ["crowd/c0", "crowd/c1", "crowd/c2"]


def test_a_job_is_read_beside_thousands_that_are_not_read_yet():
    api = MemoryApi(nodes=20)
    a_crowd(api, 600)
    good = api.submit("good", HEALTHY)
    small = SmallCluster(api, timeouts=KubeTimeouts(dry_runs=0.0))
    small.turn(4)
    assert small.phase(good) == "Running"
    assert small.cluster.intake.waiting, "the crowd is still being read"
    while small.cluster.intake.to_come:
        small.turn()
    assert len(list(small.cluster.gangs.values())) == 601


def test_a_list_shows_again_only_what_has_changed(monkeypatch):
    api = MemoryApi()
    a_crowd(api, 3)
    small = SmallCluster(api)
    small.turn(3)
    api.submit("good", HEALTHY)
    seen: list[str] = []
    monkeypatch.setattr(Intake, "_see", lambda _, found: seen.append(found.metadata.name))
    api.inbox = small.cluster._worker.inbox = Inbox()
    api.begin()
    small.turn()
    assert seen == ["good"]


def test_each_namespace_has_its_turn_until_the_time_is_over(monkeypatch):
    now = 0.0
    small = SmallCluster(MemoryApi(nodes=0))
    intake, taken = small.cluster.intake, []
    intake.clock = lambda: now
    for name in [f"a{number}" for number in range(200)] + ["b0", "b1"]:
        intake._put(TrainingJob(Meta(name=name, namespace=name[0], uid=name)))
    intake.gone(Meta(namespace="b", uid="b0"))

    def job(_self, entry):
        nonlocal now
        taken.append(entry.meta.name)
        now += 0.01

    monkeypatch.setattr(Intake, "_job", job)
    intake.new_turn()
    list(intake.some())
    assert taken == ["a0", "b1", *(f"a{number}" for number in range(1, 7))], "at least so many in each turn"
    assert list(intake.some()) == [], "until the next turn"
    assert len(taken) == MIN_PER_TURN
    before = len(taken)
    monkeypatch.setattr(Intake, "_job", lambda _self, entry: taken.append(entry.meta.name))
    intake.new_turn()
    list(intake.some())
    assert len(taken) - before == MAX_PER_TURN, "if they take no time"


def test_refused_jobs_are_not_tried_by_a_dry_run():
    api = MemoryApi()
    for number in range(3):
        api.submit(f"odd-{number}", {"roles": {"worker": {"replicas": -number}}})
    SmallCluster(api)
    assert api.tried == []


def test_a_job_starts_in_a_few_turns_beside_many_of_another_namespace():
    api = MemoryApi(nodes=20)
    crowd = a_crowd(api, 170)
    small = SmallCluster(api, timeouts=KubeTimeouts(dry_runs=60.0))
    small.turn()
    good = api.submit("good", HEALTHY)
    small.turn(12)
    assert small.phase(good) == "Running"
    assert {small.phase(uid) for uid in crowd} == {"Running"}


def test_what_is_begun_goes_first_and_namespaces_take_turns():
    def a_gang(namespace: str, name: str, state: State = State.WAITING) -> Gang:
        meta = Meta(name=name, namespace=namespace, uid=name)
        return Gang(meta=meta, job=Job(id=JobId(name), roles=(Role(name="w"),)), wanted=Intent(state=state))

    due = [a_gang("a", f"a{number}") for number in range(500)] + [a_gang("b", "b0"), a_gang("b", "b1")]
    due.append(a_gang("c", "begun", State.STARTING))
    chosen = [gang.meta.name for gang in _in_turn(due)]
    assert chosen[:6] == ["begun", "a0", "b0", "a1", "b1", "a2"]
    assert len(chosen) == MAX_STEPS


def test_a_start_reads_each_job_that_runs_once(monkeypatch):
    api = MemoryApi(nodes=4)
    a_crowd(api, 5)
    small = SmallCluster(api)
    small.turn(4)
    read: list[bytes] = []

    def reading(raw: bytes, **more: bool) -> JobSpec:
        read.append(bytes(raw))
        return read_spec(raw, **more)

    monkeypatch.setattr(incoming_module, "read_spec", reading)
    small.start()
    assert len(read) == len(set(read)) == 5
    assert len(list(small.cluster.gangs.values())) == 5


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
