"""What is said about a job: its status, its requests, and why it waits."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from functools import partial

import pytest
from intents import NOW, create
from small_cluster import BEGAN, MemoryApi, SmallCluster, a_node

from headway.core.board import Board
from headway.core.estimates import Basis, Estimate
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.plan import Plan
from headway.core.states import State
from headway.cycle.explained import explanation
from headway.kube.api.objects import Meta, NodeObject
from headway.kube.api.watch import Changed
from headway.kube.gangs.gang import Around, Gang, Reports, TrainingProgress
from headway.kube.gangs.intent import Intent
from headway.kube.gangs.messages import LookedAt
from headway.kube.gangs.model import Bind, Create, Delete, ResizePod, WriteStatus
from headway.kube.gangs.step import step
from headway.kube.gangs.take import take
from headway.kube.settings import KubeSettings
from headway.kube.values import replace
from headway.kube.views import explain
from headway.kube.views.explain import Explaining, PolicySays
from headway.kube.views.foreseen import Foreseen, between
from headway.kube.views.status import Shown, status_for
from headway.kube.writes.outbox import Outbox
from headway.kube.writes.write import Rank, Stage, StatusPatch, Write
from headway.policies.combined_priority import CombinedPriority
from make import a_job, a_snapshot, running

BIND = Bind("p", "uid-p", "n1")


class Jobs:
    """Waiting gangs, and who is told what."""

    def __init__(self, count: int = 1, cpu: int = 9000) -> None:
        self.board = Board(Nodes.of([Node(name="n1", capacity=(("cpu", 4000),))]))
        self.gangs: dict[JobId, Gang] = {}
        self.explaining = Explaining(KubeSettings(began=0.0, progress_seconds=60.0))
        self.foreseen: Foreseen = {}
        for number in range(count):
            job = Job(id=JobId(f"j{number}"), roles=(Role(name="worker", request=(("cpu", cpu),)),))
            self.board.add(job, 0.0)
            self.gangs[job.id] = Gang(meta=Meta(name=job.id, namespace="team", uid=f"u{number}"), job=job)

    def explain(self, now: float = NOW) -> list[str]:
        """The jobs that are told something in this cycle."""
        told, by_uid = [], {gang.uid: gang for gang in self.gangs.values()}
        snapshot = self.board.snapshot(now)
        for uid, message in self.explaining.explain(self.gangs.get, snapshot, Plan(), now, self.foreseen):
            gang = by_uid[uid]
            self.gangs[gang.job.id] = by_uid[uid] = take(gang, message)
            if not isinstance(message, LookedAt):
                told.append(gang.job.id)
        return told

    def __getitem__(self, name: str) -> Gang:
        return self.gangs[JobId(name)]


# ── requests: each is sent once ──


class Sent:
    def __init__(self) -> None:
        self.new: list[Write] = []
        self.dropped: list[Write] = []
        self.outbox = Outbox(self._put)

    def _put(self, new, dropped) -> None:
        self.new += new
        self.dropped += dropped

    def want(self, *actions) -> list[object]:
        """What is sent when this is all that is left to do."""
        before = len(self.new)
        self.outbox.want(Meta(name="j0", namespace="team", uid="u0"), actions, lambda action: {"of": str(action)})
        self.outbox.flush()
        return [write.what for write in self.new[before:]]


@pytest.mark.parametrize(
    ("actions", "sent"), [((), ()), ((BIND,), (BIND,)), ((create(0, "n1"), BIND), (create(0, "n1"), BIND))]
)
def test_work_is_sent_only_if_the_api_server_has_something_to_do(actions, sent):
    box = Sent()
    assert tuple(box.want(*actions)) == sent
    for write in box.new:
        assert (write.key, write.namespace, write.name, write.uid) == ("u0", "team", write.what.name, "u0")
        assert write.stage is Stage.NEW
        assert write.rank is (Rank.CREATE if isinstance(write.what, Create) else Rank.BIND)
    assert box.outbox.unbound == len(sent)
    assert box.outbox.is_busy("u0") is bool(sent)


def test_what_failed_and_is_sent_again_later_keeps_no_scheduler_from_ending():
    """A right that is missing, or a status that the server refuses, held each hand-over up for ten seconds."""
    box = Sent()
    box.want(BIND)
    (bind,) = box.new
    assert not box.outbox.is_tried
    bind.tries += 1  # as the door counts
    assert box.outbox.is_tried
    assert not box.outbox.is_idle


def test_what_is_under_way_is_not_sent_again_and_what_is_not_wanted_is_dropped():
    box = Sent()
    other = create(0, "n1")
    box.want(BIND, other)
    assert box.want(other, BIND) == [], "each step says all that is left to do"
    assert box.want(BIND) == []
    assert [write.what for write in box.dropped] == [other]
    (bind, _) = box.new
    assert box.outbox.answered(bind)
    assert not box.outbox.answered(bind), "nobody waits for a second answer"
    assert box.want(BIND) == [BIND], "it was answered, and it is to be done again"
    box.outbox.forget("u0")
    box.outbox.flush()
    assert [write.what for write in box.dropped] == [other, BIND]
    assert (box.outbox.unbound, box.outbox.is_idle) == (0, True)


def test_what_is_wanted_otherwise_replaces_what_waits():
    """A queued binding must not go to a node that was given to another pod meanwhile."""
    box = Sent()
    resize, delete = ResizePod("p", "u", (("cpu", 1),), "5"), Delete("q", "v", None, "5")
    box.want(BIND, resize, delete)
    elsewhere, more, faster = replace(BIND, node="n9"), replace(resize, amounts=(("cpu", 2),)), replace(delete, grace=1)
    assert box.want(elsewhere, more, faster) == [elsewhere, more, faster]
    assert [write.replaces for write in box.new[3:]] == box.new[:3], "never two of one pod at once"
    assert (box.outbox.unbound, box.dropped) == (1, [])
    assert box.want(replace(elsewhere, version="6"), more, faster) == [], "the server says whether it has changed"
    assert not box.outbox.answered(box.new[0])
    assert box.outbox.answered(box.new[3])


def test_the_newest_status_replaces_one_that_waits_and_its_answer_alone_counts():
    box, meta = Sent(), Meta(name="j0", namespace="team", uid="u0")
    box.outbox.status(meta, {"phase": "Starting"}, "first")
    box.outbox.status(meta, {"phase": "Running"}, "second", urgent=True)
    assert box.want(BIND) == [StatusPatch(), StatusPatch(), BIND], "a status is not dropped when requests change"
    first, second, _ = box.new
    assert (second.replaces, second.rank, first.rank) == (first, Rank.DELETE, Rank.STATUS)
    assert not box.outbox.answered(first), "it does not say that the newest is written"
    assert box.outbox.answered(second)


def test_a_status_that_is_under_way_is_not_sent_again_by_a_step_that_changes_nothing():
    """Each step says that its status lacks until it is written. Else a busy gang would write, and never be told."""
    box, meta = Sent(), Meta(name="j0", namespace="team", uid="u0")
    for left in (9.0, 8.0, 7.0):
        box.outbox.status(meta, {"phase": "Running", "progress": {"left": left}}, "token")
    box.outbox.flush()
    (write,) = box.new
    box.outbox.status(meta, {"phase": "Running", "progress": {"left": 6.0}}, "token", urgent=True)
    box.outbox.status(meta, {"phase": "Running", "progress": {"left": 6.0}}, "token")
    box.outbox.status(meta, {"phase": "Running", "refused": "no"}, "token")
    box.outbox.status(meta, {"phase": "Running", "refused": "no"}, "another")
    box.outbox.flush()
    assert [(one.rank, one.token) for one in box.new[1:]] == [
        (Rank.DELETE, "token"), (Rank.STATUS, "token"), (Rank.STATUS, "another"),
    ], "it is in a hurry now; it says more; it is of something else"  # fmt: skip
    assert box.outbox.answered(box.new[-1])
    assert not box.outbox.answered(write)


# ── status ──


@pytest.mark.parametrize(("shown", "left"), [(True, 20.0), (False, None)])
def test_the_status_shows_the_estimate_of_the_snapshot(shown, left):
    snapshot = a_snapshot(running(a_job("j0"), [0]), now=100.0, left={"j0": 30.0}) if shown else None
    gang, show = Jobs()["j0"], Shown(snapshot, 110.0, 0.0)
    before = status_for(gang, Intent(state=State.RUNNING), {}, show)["progress"]
    assert (before or {}).get("left") == left, "also before the first report"
    over = Intent(state=State.FINISHED)
    assert status_for(replace(gang, wanted=over), over, {}, show)["progress"] is None
    gang = replace(gang, reports=Reports(TrainingProgress(5, 10)))
    progress = status_for(gang, Intent(), {}, show)["progress"]
    assert (progress["text"], progress["left"]) == ("5/10", left)


def test_no_status_says_waiting_before_something_was_decided():
    jobs = Jobs()
    assert step(jobs["j0"], Around(), NOW)[1] == ()
    jobs.explain()
    assert step(jobs["j0"], Around(), NOW)[1] == (WriteStatus(),)


# ── why it waits ──


def test_a_waiting_job_is_told_why_with_numbers_and_not_too_often():
    jobs = Jobs()
    jobs.explain()
    first = jobs["j0"].wanted
    assert (first.reason, "9" in first.message) == ("LargerThanAnyNode", True)
    for now, message, said in (
        (NOW + 59.0, first.message, NOW),
        (NOW + 59.0, "other numbers", NOW),
        (NOW + 60.0, "other numbers", NOW + 60.0),
        (NOW + 199.0, first.message, NOW + 60.0),  # it is there already
    ):
        gang = jobs["j0"]
        jobs.gangs[gang.job.id] = replace(gang, wanted=replace(gang.wanted, message=message))
        told = jobs.explain(now)
        assert (jobs["j0"].explained_at, told) == (said, [gang.job.id] if said == now else [])


def test_another_reason_is_said_at_once():
    jobs = Jobs(cpu=3000)
    jobs.explain()
    assert jobs["j0"].wanted.reason == "BehindOthers"
    jobs.board.set_nodes(Nodes.of([Node(name="n1", capacity=(("cpu", 2000),))]))
    jobs.explain(NOW + 0.5)
    assert (jobs["j0"].wanted.reason, jobs["j0"].explained_at) == ("LargerThanAnyNode", NOW + 0.5)


def test_only_a_few_jobs_of_a_long_queue_are_explained_per_cycle_and_each_in_its_turn(monkeypatch):
    monkeypatch.setattr(explain, "MAX_EXPLAINED", 2)
    jobs = Jobs(5)
    for cycle, explained in ((1, 2), (2, 4), (3, 5)):
        jobs.explain(NOW + cycle)
        assert sum(gang.explained_at > 0 for gang in jobs.gangs.values()) == explained, cycle


def test_other_numbers_are_told_to_a_few_a_second_however_many_wait(monkeypatch):
    monkeypatch.setattr(explain, "MAX_EXPLAINED", 4)
    monkeypatch.setattr(explain, "WHYS_PER_SECOND", 1.0)
    jobs = Jobs(8)
    jobs.explaining._allowance = 4.0
    jobs.explain(NOW)
    jobs.explain(NOW + 1)
    assert all(gang.wanted.reason for gang in jobs.gangs.values()), "a first reason costs nothing"
    told = 0
    for cycle in range(10):
        for name, gang in jobs.gangs.items():
            jobs.gangs[name] = replace(gang, wanted=replace(gang.wanted, message="other numbers"), explained_at=0.0)
        told += len(jobs.explain(NOW + 100 + cycle))
    assert told == 4 + 9, "what was saved up, then one a second"


def test_a_job_that_waits_is_told_when_it_is_expected_at_once_and_again_when_that_has_changed():
    jobs, hour = Jobs(), 3_600.0
    assert jobs.explain(NOW) == ["j0"]
    first = ((NOW, NOW + hour, NOW + 2 * hour), (NOW + hour, NOW + 3 * hour, math.inf))
    jobs.foreseen = {JobId("j0"): first}
    assert jobs.explain(NOW + 1) == ["j0"], "for the first time"
    assert jobs["j0"].expected == first
    soon = ((NOW, NOW + hour + 50, NOW + 2 * hour), (NOW + hour, NOW + 3 * hour, math.inf))
    later = ((NOW, NOW + 6 * hour, NOW + 7 * hour), (NOW + hour, NOW + 9 * hour, math.inf))
    for at, found, told in (
        (2, first, []),
        (50, later, []),  # the last time was a moment ago
        (62, soon, []),
        (63, later, ["j0"]),
        (124, None, ["j0"]),  # it is not foreseen any more
    ):
        jobs.foreseen = {} if found is None else {JobId("j0"): found}
        assert jobs.explain(NOW + at) == told, (at, found)
    assert jobs["j0"].expected is None


def test_while_some_are_yet_to_be_told_when_they_start_a_cycle_is_asked_for(monkeypatch):
    monkeypatch.setattr(explain, "MAX_EXPLAINED", 2)
    jobs = Jobs(5)
    for cycle in range(3):
        jobs.explain(NOW + cycle)
    assert jobs.explaining.again == math.inf
    jobs.foreseen = {JobId(f"j{number}"): ((NOW, NOW, NOW), (NOW, NOW, NOW)) for number in range(5)}
    told, now = [], NOW + 10
    while jobs.explaining.again < math.inf or not told:
        told += jobs.explain(now)
        now += explain.UNTOLD_SECONDS
    assert sorted(told) == [f"j{number}" for number in range(5)]


def test_new_times_of_all_that_wait_are_told_to_a_few_a_second():
    jobs = Jobs(100)
    for cycle in range(30):
        jobs.explain(NOW + cycle)
    told = 0
    for second in range(60):
        now = NOW + 100 + second
        later = now + 3_600.0 * (1 + second % 2)
        jobs.foreseen = {JobId(f"j{number}"): ((now, later, later), (now, later, later)) for number in range(100)}
        told += len(jobs.explain(now))
    assert 100 <= told <= explain.MAX_EXPLAINED + explain.WHYS_PER_SECOND * 60


def test_what_is_foreseen_of_a_job_that_waits_is_in_its_status_and_of_one_that_trains_its_own_estimate():
    small = SmallCluster()
    uid = small.api.submit("huge", {"roles": {"main": {"replicas": 1, "cpu": 900}}})
    small.turn(3)
    now = small.cluster.now()
    small.cluster.foresee(
        {JobId("team/huge"): ((now, now + 60.0, now + 120.0), (now, now + 600.0, math.inf))}, math.inf
    )
    small.turn(2)
    assert small.api.status(uid)["progress"]["starts"], "though nothing else has changed"
    gang = small.gang("team/huge")
    shown = Shown(None, now, BEGAN, foreseen=small.cluster.following.foreseen)
    progress = status_for(gang, gang.wanted, {}, shown)["progress"]
    assert progress["starts"] == between((now, now + 60.0, now + 120.0), BEGAN)
    assert progress["done"].endswith(" or later)")
    for state in (State.RUNNING, State.STOPPING, State.CANCELLED, State.FINISHED):
        other = replace(gang.wanted, state=state)
        assert status_for(gang, other, {}, shown)["progress"] is None, state
    assert small.phase(uid) == "Waiting"


def test_another_reason_of_a_whole_queue_is_told_to_a_few_a_second_and_a_new_job_at_once():
    api = MemoryApi(nodes=0)
    api.nodes = [a_node("n0", "7"), a_node("n1", "7")]
    for number in range(200):
        api.submit(f"w{number}", {"roles": {"main": {"replicas": 2, "cpu": 8}}})
    small = SmallCluster(api)
    while any(not api.status(uid).get("reason") for uid in api.jobs):
        small.turn()
    assert {api.status(uid)["reason"] for uid in api.jobs} == {"LargerThanAnyNode"}
    api.sent.clear()
    began = small.cluster.now()
    for cycle in range(40):
        api.inbox.put(Changed(NodeObject, a_node("n0", "7" if cycle % 2 else "8")))
        small.turn()
    took = small.cluster.now() - began
    told = Counter(write.name for write in api.sent if isinstance(write.what, StatusPatch))
    assert 1 <= told.total() <= explain.MAX_EXPLAINED + explain.WHYS_PER_SECOND * took + 1
    assert max(told.values()) <= 1 + explain.WHYS_PER_SECOND * took, "once, and again only as time goes by"
    late = api.submit("late", {"roles": {"main": {"replicas": 2, "cpu": 8}}})
    small.turn(3)
    assert api.status(late)["reason"] == "LargerThanAnyNode"


def test_a_job_that_waits_again_is_told_why_before_those_that_know():
    jobs = Jobs(5)
    jobs.explain()
    jobs.explaining._allowance = 0.0
    for name, gang in jobs.gangs.items():
        again = "Interrupted" if name == "j4" else "NotEnoughFree"
        jobs.gangs[name] = replace(gang, wanted=replace(gang.wanted, reason=again))
    assert jobs.explain(NOW + 0.1) == ["j4"]
    assert jobs.explain(NOW + 0.5) == ["j0", "j1"], "in turn, as the budget allows"


def test_a_frozen_job_is_told_what_froze_it_and_not_why_it_waits():
    jobs = Jobs()
    jobs.gangs[JobId("j0")] = jobs["j0"].freezes("a fault", NOW)
    assert jobs.explain() == []


# ── what the policy says ──

ROOM = {"roles": {"worker": {"cpu": "3"}}}


def test_a_waiting_job_is_told_who_holds_the_room_what_would_help_and_its_score():
    small = SmallCluster(policy=CombinedPriority(), explain=partial(explanation, CombinedPriority()))
    for number in range(3):
        small.api.submit(f"own-{number}", ROOM, namespace="team")
    small.api.submit("theirs", ROOM, namespace="other")
    small.turn(6)
    uid = small.api.submit("late", ROOM, namespace="team")
    small.turn(6)
    assert small.phase(uid) == "Waiting"
    told = dict(one.split(": ", 1) for one in small.api.status(uid)["explained"])
    holders = told["held by"]
    assert "team/own-0" in holders
    assert "theirs" not in holders, "a tenant learns nothing about the jobs of others"
    assert "1 job of other namespaces" in holders
    assert told["helps"]
    assert told["score"].count("+") == 3, told


def test_a_policy_that_takes_long_to_explain_is_asked_for_a_small_share_of_the_time(monkeypatch):
    asked, clock = [], [0.0]
    monkeypatch.setattr(explain.time, "perf_counter", lambda: clock[0])

    def slow(_snapshot, _row):
        asked.append(1)
        clock[0] += 0.06
        return [("size", "It keeps its size.\n" + "x" * 1000)] * 20

    says, jobs = PolicySays(slow), Jobs()
    snapshot = jobs.board.snapshot(NOW)
    said = says.of(jobs["j0"], snapshot, NOW)
    assert said is not None
    assert len(said) == explain.MAX_SAYINGS
    assert all(len(one) <= explain.LONGEST_SAYING and "\n" not in one for one in said)
    found = [says.of(jobs["j0"], snapshot, NOW + 0.001 * number) for number in range(100)]
    assert sum(one is not None for one in found) == 1
    assert says.of(jobs["j0"], snapshot, NOW + 10.0) is not None, "it is asked again later"
    assert says.of(jobs["j0"], None, NOW + 99.0) is None


@pytest.mark.parametrize(
    ("state", "since", "now", "left", "text"),
    [
        (State.WAITING, 0.0, 100.0, math.nan, "due in 15 min"),
        (State.RUNNING, 0.0, 100.0, math.nan, "due in 15 min"),
        (State.RUNNING, 0.0, 100.0, 600.0, "in time, 5 min to spare"),
        (State.RUNNING, 0.0, 100.0, 1200.0, "will be late by 5 min"),
        (State.RUNNING, 0.0, 1300.0, 600.0, "late by 5 min so far"),
        (State.FINISHED, 900.0, 2000.0, math.nan, "met"),
        (State.FINISHED, 1060.0, 2000.0, math.nan, "missed by 60 s"),
        (State.FAILED, 100.0, 2000.0, math.nan, "missed"),
    ],
)
def test_a_deadline_is_told_before_and_after(monkeypatch, state, since, now, left, text):
    gang = Jobs()["j0"]
    gang = replace(gang, job=dataclasses.replace(gang.job, deadline=1000.0), wanted=Intent(state=state, since=since))
    estimate = Estimate(left=left, spread=0.1, basis=Basis.STEPS, sentence="")
    monkeypatch.setattr(Shown, "estimate_of", lambda *_: estimate)
    status = status_for(gang, gang.wanted, {}, Shown(None, now, 0.0))
    assert status["deadline"] == {"at": "1970-01-01T00:16:40Z", "text": text}
    gang = replace(gang, job=dataclasses.replace(gang.job, deadline=None))
    assert status_for(gang, gang.wanted, {}, Shown(None, now, 0.0))["deadline"] is None
