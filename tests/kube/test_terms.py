"""Priority, deadline and sizes of a job that lives: changed within what its queue allows, refused beyond."""

from __future__ import annotations

import json

import pytest
from small_cluster import HEALTHY, SmallCluster
from test_orders import patch, running, saving

from headway.core.queue_rules import QueueRule
from headway.core.restarts import Restarts
from headway.kube.intake.changes import check_fixed
from headway.kube.intake.spec import JobSpec, SpecError, read_spec
from headway.kube.settings import ClaimSettings
from headway.progress_server import Saved, SaveFailed

RULES = ClaimSettings(queues=(QueueRule(name="research", highest_priority=10, deadlines=False),))
HUGE = {"roles": {"worker": {"cpu": "64"}}}


def the_job(small: SmallCluster, name: str = "good"):
    board = small.cluster.board
    return board.job(board.row(f"team/{name}"))


def a_spec(**fields: object) -> JobSpec:
    return read_spec(json.dumps({**HEALTHY, **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"steps": 5}, "spec.steps"),
        ({"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}, "spec.template"),
        ({"roles": {"chief": {}}}, "spec.roles: roles cannot be added or removed"),
        ({"roles": {"worker": {"cpu": "1", "replicas": 2}}}, "spec.roles.worker.cpu"),
        ({"roles": {"worker": {**HEALTHY["roles"]["worker"], "command": ["x"]}}}, "spec.roles.worker.command"),
    ],
)
def test_what_makes_the_job_cannot_change(fields, field):
    with pytest.raises(SpecError, match=field):
        check_fixed(a_spec(), a_spec(**fields))


def test_terms_and_orders_can_change():
    worker = {**HEALTHY["roles"]["worker"], "replicas": 3, "max": 5}
    fields = {"priority": 3, "deadline": 60, "suspend": True, "cancel": True, "ttlSecondsAfterFinished": 5}
    check_fixed(a_spec(), a_spec(roles={"worker": worker}, **fields))


def test_a_job_that_waits_and_one_that_trains_go_on_under_new_terms():
    small, uid = running()
    waits = small.api.submit("huge", HUGE)
    small.turn(2)
    for one in (uid, waits):
        patch(small, one, priority=7, deadline=3600)
    small.turn(3)
    for name in ("good", "huge"):
        job = the_job(small, name)
        assert (job.priority, job.deadline - job.submit) == (7, 3600)
    assert (small.phase(uid), small.api.status(uid)["attempt"], len(small.api.pods)) == ("Running", 0, 2)
    assert small.cluster.board.unfinished == 2
    small.start()
    small.turn(3)
    assert the_job(small).priority == 7
    assert (small.phase(uid), len(small.api.pods)) == ("Running", 2)


def test_a_change_beyond_what_the_queue_allows_keeps_the_old_value_and_says_why_also_after_a_restart():
    small = SmallCluster(claims=RULES)
    uid = small.api.submit("good", {**HEALTHY, "priority": 5})
    small.turn(4)
    patch(small, uid, priority=11)
    small.turn(2)
    for _ in range(2):
        assert the_job(small).priority == 5
        told = small.api.status(uid)["refused"]
        assert told == (
            "spec.priority: 11 is above 10, the highest that queue 'research' allows; the job goes on as it was"
        )
        small.start()
        small.turn(3)
    patch(small, uid, priority=11, roles=sized(replicas=3))
    small.turn(2)
    small.start()
    small.turn(3)
    assert len(small.api.pods) == 2, "a change is refused whole"
    patch(small, uid, priority=9, deadline=60, roles=HEALTHY["roles"])
    small.turn(2)
    assert "allows no deadlines" in small.api.status(uid)["refused"]
    patch(small, uid, deadline=None)
    small.turn(2)
    assert "refused" not in small.api.status(uid)
    assert "terms" not in small.api.status(uid)
    assert (the_job(small).priority, small.phase(uid)) == (9, "Running")


def test_a_change_of_the_template_is_refused_while_the_job_lives():
    small, uid = running()
    patch(small, uid, template={"metadata": {"labels": {"a": "b"}}})
    small.turn(2)
    assert small.api.status(uid)["refused"].startswith("spec.template: cannot be changed while the job lives")
    assert small.phase(uid) == "Running"


def sized(**sizes: int) -> dict:
    return {"worker": {**HEALTHY["roles"]["worker"], **sizes}}


def test_sizes_that_the_gang_has_already_change_nothing_else():
    small, uid = running()
    patch(small, uid, roles=sized(min=1, max=8))
    small.turn(2)
    (role,) = the_job(small).roles
    assert (role.replicas, role.min, role.max) == (2, 1, 8)
    assert (small.api.status(uid)["attempt"], len(small.api.pods)) == (0, 2)


def test_for_another_size_a_job_saves_and_starts_again():
    small, uid = running()
    saving(small, lambda job, request: Saved(job, "worker", 0, 0, request, 7))
    patch(small, uid, roles=sized(replicas=4))
    small.turn(8)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 1)
    assert len(small.api.pods) == 4


@pytest.mark.parametrize("can_save", [True, False])
def test_a_job_that_cannot_save_keeps_its_size_until_its_next_start(can_save):
    small, uid = running()
    if can_save:
        saving(small, lambda job, request: SaveFailed(job, "worker", 0, 0, request, "disk full"))
    patch(small, uid, roles=sized(replicas=4))
    small.turn(8)
    assert (small.phase(uid), len(small.api.pods)) == ("Running", 2)
    words = "disk full" if can_save else "its new size counts from its next start"
    assert words in small.api.status(uid)["message"]
    patch(small, uid, suspend=True)
    small.turn(6)
    patch(small, uid, suspend=False)
    small.turn(6)
    assert (small.phase(uid), len(small.api.pods)) == ("Running", 4)


@pytest.mark.parametrize("size", [1, 4])
def test_a_restart_before_the_new_size_is_taken_over_leaves_the_gang_as_it_is(size):
    small, uid = running()
    patch(small, uid, roles=sized(replicas=size))
    small.turn(2)
    before = set(small.api.pods)
    for _ in range(2):
        small.start()
        small.turn(3)
        assert (small.phase(uid), set(small.api.pods)) == ("Running", before)
    del small.api.pods[min(before)]
    small.start()
    small.turn(6)
    assert (small.phase(uid), len(small.api.pods)) == ("Running", size), "its next start has it"


def test_a_refused_change_of_restarts_keeps_the_old_ones_and_says_why_also_after_a_restart():
    small = SmallCluster()
    uid = small.api.submit("good", {**HEALTHY, "restarts": {"losses": 5, "window": 120}})
    small.turn(4)
    patch(small, uid, restarts={"losses": 5000})
    small.turn(2)
    for _ in range(3):
        assert the_job(small).restarts == Restarts(losses=5, window=120)
        assert small.api.status(uid)["refused"].startswith("spec.restarts.losses: must be at most 100, not 5000")
        small.start()
        small.turn(3)
    assert (small.phase(uid), len(small.api.pods)) == ("Running", 2)
    patch(small, uid, restarts={"losses": 7})
    small.turn(2)
    assert the_job(small).restarts == Restarts(losses=7)
    assert "refused" not in small.api.status(uid)
