"""After a restart the status says how many replicas there are, and the pods say where."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import pytest
from intents import JOB, LARGE, MOVING, NOW, RUNNING, SMALL, STARTING, TWO, a_pod, a_view, meant, on
from small_cluster import HEALTHY, SmallCluster

from headway.core.gang import Phase
from headway.core.job import Job
from headway.core.restarts import Losses
from headway.core.states import State
from headway.kube.api.objects import Meta, Pod
from headway.kube.api.watch import Deleted
from headway.kube.gangs.gang import Around, Gang, Saving
from headway.kube.gangs.intent import Intent
from headway.kube.gangs.model import Delete, WriteStatus
from headway.kube.gangs.recover import UNKNOWN_END, UNPROVEN, OwnPod, Recovered, fresh_round, locate, recover
from headway.kube.gangs.replace_pods import wants_nodes
from headway.kube.gangs.step import step
from headway.kube.pods.marks import GangMark, PodMarks
from headway.kube.pods.replica import Replica
from headway.kube.values import replace
from headway.kube.views.status_read import KeptStatus, without_nodes

BOTH = (a_pod(0, "n1"), a_pod(1, "n2"))
PENDING = a_pod(1, "n2", Phase.PENDING)
UNBOUND = a_pod(1, "n2", Phase.PENDING, bound=False)
GROWING = meant(State.SCALING, allocation=TWO, target=(on("n1", "n2", "n3"),), until=9e9)
SHRINKING = meant(State.SCALING, allocation=(on("n1", "n2", "n3"),), target=TWO, until=9e9)
RESIZING = meant(State.RESIZING, allocation=TWO, target=(on("n1", "n2", amounts=LARGE),), until=9e9)
STOPPING = meant(State.STOPPING, allocation=TWO, until=9e9)
THIRD = a_pod(2, "n3")


def located(intent, *pods, **fields):
    return locate(a_view(without_nodes(intent), *pods, **fields))


@pytest.mark.parametrize(
    ("intent", "pods"),
    [
        (RUNNING, BOTH),
        (RUNNING, (BOTH[0], replace(BOTH[1], phase=Phase.FAILED))),
        (RUNNING, (*BOTH, a_pod(0, "n9", attempt=7), replace(THIRD, deleting=True))),
        (STARTING, (BOTH[0], PENDING)),
        (GROWING, (*BOTH, replace(THIRD, bound=False))),
        (RESIZING, BOTH),
        (STOPPING, BOTH),
        (GROWING, (*BOTH, THIRD)),
        (SHRINKING, (*BOTH, THIRD)),
    ],
)
def test_what_is_whole_goes_on_as_it_was_meant(intent, pods):
    assert located(intent, *pods) == intent


def test_of_a_gang_that_shrinks_the_replicas_that_stay_are_its_target():
    found = located(SHRINKING, BOTH[0], BOTH[1], replace(THIRD, deleting=True))
    assert (found.state, found.target) == (State.SCALING, TWO)
    assert located(SHRINKING, *BOTH).target == TWO, "the one that went is not missed"
    assert located(SHRINKING, BOTH[0]).reason == "Interrupted"


@pytest.mark.parametrize("pods", [(BOTH[0],), (BOTH[0], a_pod(1, "n2", attempt=3))])
def test_a_gang_that_was_half_made_goes_on_with_what_is_there(pods):
    assert located(STARTING, *pods) == replace(STARTING, target=(on("n1"),))
    assert located(STARTING, BOTH[0], UNBOUND) == STARTING, "its mark vouches for the node of an unbound pod"


def test_a_gang_of_which_no_pod_was_made_waits_and_that_costs_no_attempt():
    found = located(STARTING)
    assert (found.state, found.reason, found.attempt, found.losses) == (State.WAITING, "Released", 0, Losses())
    found = located(replace(STARTING, attempt=1), replace(BOTH[0], deleting=True))
    assert (found.state, found.goal, found.attempt) == (State.STOPPING, State.WAITING, 0), "the next one is 1"


def test_a_gang_that_lost_a_replica_meanwhile_is_interrupted_and_that_counts():
    found = located(RUNNING, BOTH[0], step=5)
    assert (found.state, found.goal, found.reason) == (State.STOPPING, State.WAITING, "Interrupted")
    assert len(found.losses.times) == 1


def test_changes_whose_aim_is_not_known_any_more_are_given_up_and_training_goes_on():
    for intent, pods in ((MOVING, BOTH), (GROWING, BOTH)):
        found = located(intent, *pods)
        assert (found.state, found.allocation, found.target) == (State.RUNNING, TWO, None)
        assert "given up" in found.message


def test_a_move_that_has_saved_goes_on_with_its_new_pods_that_are_there():
    saved = replace(MOVING, saved=True, attempt=1)
    there = (a_pod(0, "n3", attempt=1), a_pod(1, "n4", attempt=1))
    assert located(saved, *BOTH, *there) == saved
    assert located(saved, replace(BOTH[0], deleting=True), *there).allocation == (on("n1"),), "what is left there"
    assert located(saved, there[0]).target == (on("n3"),)
    found = located(saved, *BOTH)
    assert (found.state, found.reason, found.attempt) == (State.STOPPING, "Released", 0), "its next attempt is 1"


def test_a_job_that_is_taken_down_holds_what_its_pods_hold():
    going = replace(STOPPING, draining=True)
    assert located(going, replace(BOTH[1], deleting=True)).allocation == (on("n2"),)
    assert located(going).allocation == (on(),)


# ── status and pods put together ──

META = Meta(name="j", namespace="team", uid="u")
AROUND = Around()


def found(
    kept: KeptStatus | None, *pods: Replica, counts: dict[str, int] | None = None, unproven: Iterable[str] = (),
    job: Job = JOB,
) -> Recovered:  # fmt: skip
    """`counts` is what the pods say of their gang."""
    said = {"worker": 2} if counts is None else counts
    own = [OwnPod(pod, GangMark(pod.attempt, pod.node, said, dict(SMALL))) for pod in pods]
    gang = Gang(meta=META, job=job, saving=Saving(round=fresh_round(7)))
    return recover(gang, kept, own, frozenset(unproven), AROUND, NOW)


def kept(intent: Intent, **fields) -> KeptStatus:
    return KeptStatus(without_nodes(intent), {"stops": 2.0, "attained": 9.0, "saved": 5.0}, **fields)


def test_a_gang_that_is_whole_goes_on_and_its_status_need_not_be_written():
    gang, columns, _ = found(kept(RUNNING), *BOTH)
    assert gang.wanted == RUNNING
    assert gang.written.intent == RUNNING
    assert step(gang, AROUND, NOW)[1] == ()
    assert columns == {"stops": 2.0, "attained": 9.0, "saved": 5.0}
    assert gang.saving.round == fresh_round(7), "requests to save that no earlier process has used"


@pytest.mark.parametrize(
    "status", [None, kept(meant(State.WAITING)), kept(meant(State.WAITING, attempt=0, refusals=2))]
)
def test_a_start_is_told_by_its_pods_before_any_status_tells_it(status):
    gang, *_ = found(status, *(replace(pod, phase=Phase.PENDING) for pod in BOTH))
    assert (gang.state, gang.wanted.target, gang.wanted.attempt) == (State.STARTING, TWO, 0)
    assert (gang.start.lacking, gang.wanted.until) == ({}, math.inf)
    whole, *_ = found(status, *BOTH)
    assert step(whole, AROUND, NOW)[0].state is State.RUNNING


def test_of_a_start_that_was_left_half_made_it_is_known_what_lacks():
    gang, *_ = found(None, BOTH[0])
    assert (gang.state, gang.wanted.target, gang.start.lacking) == (State.STARTING, (on("n1"),), {"worker": 1})
    assert wants_nodes(gang, frozenset())


def test_after_a_drain_pods_of_the_next_attempt_tell_that_it_started_again():
    drained = meant(State.STOPPING, allocation=TWO, draining=True)
    next_ = [replace(pod, attempt=1, name=f"j-1-worker-{pod.index}", uid=f"next-{pod.index}") for pod in BOTH]
    gang, *_ = found(kept(drained), *next_)
    assert (gang.state, gang.wanted.attempt, gang.wanted.target) == (State.STARTING, 1, TWO)
    gang, *_ = found(kept(drained), replace(BOTH[0], deleting=True))
    assert (gang.state, gang.wanted.draining, gang.wanted.attempt) == (State.STOPPING, True, 0), "it is not over yet"
    gone = replace(drained, goal=State.CANCELLED)
    assert found(kept(gone), *next_).gang.state is State.STOPPING, "its user has ended it"


def test_pods_of_an_earlier_version_tell_no_start():
    gang, *_ = found(None, *BOTH, counts={})
    assert gang.state is State.WAITING
    deleted = step(replace(gang, written=replace(gang.written, intent=gang.wanted)), AROUND, NOW)[1]
    assert {type(one) for one in deleted} == {Delete}


def test_a_grow_that_was_cut_off_stays_at_its_old_size_and_the_surplus_goes():
    gang, *_ = found(kept(RUNNING), *BOTH, replace(THIRD, phase=Phase.PENDING, bound=False), counts={"worker": 3})
    assert (gang.state, gang.wanted.allocation) == (State.RUNNING, TWO)
    effects = step(gang, AROUND, NOW)[1]
    assert [one.uid for one in effects if isinstance(one, Delete)] == [THIRD.uid]


def test_what_was_lost_meanwhile_costs_the_work_since_the_last_checkpoint():
    gang, columns, _ = found(kept(RUNNING))
    assert (gang.state, gang.wanted.reason, columns) == (
        State.WAITING, "Interrupted", {"stops": 3.0, "attained": 5.0, "saved": 5.0},
    )  # fmt: skip
    gang, columns, _ = found(kept(RUNNING), BOTH[0])
    assert (gang.state, columns["stops"]) == (State.STOPPING, 2.0), "it counts when its pods are gone"


def test_a_move_whose_new_pods_were_not_made_is_a_stop():
    """Policies that move a job once moved it again after such a restart."""
    gang, columns, _ = found(kept(replace(MOVING, saved=True, attempt=1)))
    assert (gang.state, gang.wanted.attempt, columns["stops"]) == (State.WAITING, 1, 3.0)
    gang, columns, _ = found(kept(replace(STARTING, attempt=1)))
    assert (gang.state, columns["stops"]) == (State.WAITING, 2.0), "what was not begun was not stopped"


def test_a_last_step_that_was_reported_and_no_pods_is_an_end_that_nobody_knows():
    job = replace(JOB, steps=100)
    for step_, frozen in ((99, ""), (100, UNKNOWN_END)):
        gang, *_ = found(kept(RUNNING, step=step_), job=job)
        assert gang.frozen.why == frozen
    assert (gang.state, gang.frozen.again) == (State.RUNNING, math.inf), "it is neither started again nor over"
    assert not [one for one in step(gang, AROUND, NOW)[1] if not isinstance(one, WriteStatus)]
    over = replace(BOTH[0], phase=Phase.DONE), replace(BOTH[1], phase=Phase.DONE)
    assert found(kept(RUNNING, step=100), *over, job=job).gang.frozen.why == "", "its pods say how it ended"


def test_pods_that_prove_nothing_freeze_a_gang_unless_it_is_whole_without_them():
    gang, columns, _ = found(kept(RUNNING), BOTH[0], unproven=["forged"])
    assert (gang.frozen.why, gang.unproven, gang.state) == (UNPROVEN, {"forged"}, State.RUNNING)
    assert columns["stops"] == 2.0
    assert step(gang, AROUND, NOW)[1] == (WriteStatus(),), "it is told, and nothing is deleted or made"
    assert found(kept(RUNNING), *BOTH, unproven=["forged"]).gang.frozen.why == "", "anybody could freeze it else"
    assert found(kept(meant(State.WAITING)), unproven=["forged"]).gang.frozen.why == UNPROVEN


def test_once_pods_that_prove_nothing_are_gone_the_gang_goes_on():
    small = SmallCluster()
    uid = small.api.submit("gang", HEALTHY)
    small.turn(5)
    assert small.phase(uid) == "Running"
    small._settings["marks"] = PodMarks(b"another key")
    small.start()
    small.turn(4)
    assert (small.api.status(uid)["reason"], len(small.api.pods_of("gang"))) == ("Fault", 2), "they stay"
    for pod in small.api.pods_of("gang"):
        del small.api.pods[f"team/{pod['metadata']['name']}"]
        small.api.inbox.put(Deleted(Pod, msgspec.convert(pod, Pod)))
    small.turn(8)
    assert (small.phase(uid), len(small.api.pods_of("gang"))) == ("Running", 2), "new ones are made"
