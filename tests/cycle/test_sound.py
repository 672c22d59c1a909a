"""A policy that fails: what is said of it, and that a run goes on under a safe policy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.cli.own_policy import OwnPolicy, load_own
from headway.cli.wiring import make_policy
from headway.core.draft import Draft
from headway.core.job import JobId
from headway.core.placement import Placement
from headway.core.plan import Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.policy import Explains, is_gangless
from headway.cycle.loop import ABOUT_THE_POLICY, decide, run
from headway.cycle.sound import PolicyError, stalls, unsound
from headway.estimates.plain_books import NoEstimates
from headway.policies.baselines.fifo import first_fit
from headway.policies.registry import POLICIES
from headway.sim.cluster import SimCluster, World
from make import a_job, a_snapshot, some_nodes

A, HERE = JobId("a"), Placement(((0,),))
NONSENSE = {
    "None": (None, "it returned None, not a Plan"),
    "a list": ([Start(A, HERE)], "it returned a list, not a Plan"),
    "a number": (7, "it returned 7, not a Plan"),
    "a wrong decision": (Plan(("a",)), "its plan has 'a' among its decisions; use Start, Scale"),
    "a set of decisions": (Plan({Start(A, HERE)}), "decisions=a set, not a tuple"),
    "no placement": (Plan((Start(A, None),)), "its plan has Start with placement=None"),
    "nodes that are names": (Plan((Start(A, Placement((("n0",),))),)), "Start with placement=a Placement"),
    "no time": (Plan((), None), "until=None, which is not a time"),
    "no number": (Plan((), math.nan), "until=nan, which is not a time"),
    "a job, not its name": (Plan((Start(a_job("a"), HERE),)), "Start with job=a Job"),
    "a reason as text": (Plan((Stop(A, "preempted"),)), "Stop with because='preempted'"),
    "half a core": (Plan((Resize(A, "worker", 0.5, 1),)), "Resize with cpu=0.5"),
    "a number of nodes": (Plan((Scale(A, "worker", 2),)), "Scale with nodes=2"),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_told_with_the_line_of_the_policy(tmp_path, case):
    plan, words = NONSENSE[case]
    (tmp_path / "mine.py").write_text("PLAN = None\n\n\ndef best(snapshot):\n    return PLAN\n")
    own = make_policy(f"{tmp_path}/mine.py:best", ["round=60"])
    own.policy.policy.__globals__["PLAN"] = plan
    with pytest.raises(PolicyError) as told:
        decide(own, a_snapshot(a_job("a")))
    assert str(told.value).startswith(f"--policy {tmp_path}/mine.py:best: mine.py, line 4: ")
    assert words in str(told.value)


def test_sound_plans_are_sound():
    decisions = (
        Start(A, HERE),
        Scale(A, "worker", (0,)),
        Resize(A, "worker", 5, 5),
        Move(A, HERE),
        Reserve(A, HERE, 9),
    )
    assert unsound(Plan(decisions, 5)) == ""
    for name, make in POLICIES.items():
        assert unsound(make()(a_snapshot(a_job("a"), a_job("b", gpus=3)))) == "", name


def test_numbers_of_numpy_become_plain_ones():
    start = Start(A, Placement((np.array([0]).tolist(), [np.int64(0)])))
    own = OwnPolicy(
        lambda _: Plan([start, Scale(A, "worker", np.array([1], np.int64).tolist())], np.float64(3)), "m", "m"
    )
    plan = own(a_snapshot(a_job("a")))
    assert plan == Plan((Start(A, Placement(((0,), (0,)))), Scale(A, "worker", (1,))), 3.0)
    assert type(plan.decisions[0].placement.nodes[1][0]) is int
    assert type(plan.until) is float


def test_what_raises_is_told_with_the_line_of_the_users_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from headway.core.draft import Draft\n\n\ndef helper(draft):\n    draft.start(10**6, None)\n\n\n"
        "def best(snapshot):\n    helper(Draft(snapshot))\n"
    )
    with pytest.raises(PolicyError, match=r"mine\.py:best: mine\.py, line 5: [A-Z]\w+Error"):
        decide(make_policy(f"{tmp_path}/mine.py:best"), a_snapshot(a_job("a")))


def test_a_policy_of_our_own_that_raises_is_told_too():
    def broken(_):
        raise ValueError("first\nsecond")

    with pytest.raises(PolicyError, match=r"broken: test_sound\.py, line \d+: ValueError: first second"):
        decide(broken, a_snapshot(a_job("a")))
    with pytest.raises(PolicyError, match="<lambda>: it returned a list, not a Plan"):
        decide(lambda _: [], a_snapshot(a_job("a")))


def test_an_own_policy_keeps_what_it_says_of_itself(tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Best:\n    gangless = True\n    def explain(self, snapshot, row):\n        return {'a': 'b'}\n"
        "    def __call__(self, snapshot):\n        return 1 / 0\n\ndef plain(snapshot):\n    return None\n"
    )
    best, plain = (load_own(f"{tmp_path}/mine.py:{name}", dict) for name in ("Best", "plain"))
    assert is_gangless(best)
    assert best.explain(None, 0) == {"a": "b"}
    assert isinstance(best, Explains)
    assert not is_gangless(plain)
    assert not isinstance(plain, Explains)


class Twice:
    """Yields two snapshots of one waiting job."""

    def __init__(self):
        self.applied = []

    def next_snapshot(self):
        return None if len(self.applied) == 2 else a_snapshot(a_job("a"))

    def apply(self, plan):
        self.applied.append(plan)


def _raises(_):
    raise ZeroDivisionError("oh no")


def test_a_run_goes_on_under_the_safe_policy_and_says_so_once():
    cluster, seen = Twice(), []
    run(cluster, _raises, NoEstimates(), seen.append, first_fit)
    assert [[type(decision) for decision in plan.decisions] for plan in cluster.applied] == [[Start], [Start]]
    (name, sentence), *more = [note for decided in seen for note in decided.snapshot.notes]
    assert name == "--policy"
    assert sentence.startswith("_raises: test_sound.py, line ")
    assert sentence.endswith(": ZeroDivisionError: oh no; first-fit decides")
    assert more == []


def test_without_a_safe_policy_a_run_ends_with_the_sentence():
    cluster = Twice()
    with pytest.raises(PolicyError):
        run(cluster, _raises, NoEstimates())
    assert cluster.applied == []


def test_a_policy_that_starts_nothing_although_a_job_fits_is_told_and_not_overruled():
    cluster, seen = Twice(), []
    run(cluster, lambda _: Plan(), NoEstimates(), seen.append, first_fit)
    assert cluster.applied == [Plan(), Plan()]
    notes = [sentence for decided in seen for _, sentence in decided.snapshot.notes]
    assert notes == ["it starts nothing, although nothing runs and 'a' fits; 1 wait"]


def test_a_policy_that_waits_for_a_moment_or_for_room_does_not_stall():
    snapshot = a_snapshot(a_job("a"))
    assert stalls(snapshot, Plan((), 7.0), first_fit) == ""
    assert stalls(a_snapshot(a_job("a", gpus=99)), Plan(), first_fit) == ""
    draft = Draft(snapshot)
    assert stalls(snapshot, first_fit(snapshot), first_fit) == ""
    assert stalls(a_snapshot(), draft.plan(), first_fit) == ""


def test_a_plan_for_jobs_that_are_not_there_is_refused():
    decided = decide(lambda _: Plan((Start(JobId("ghost"), HERE), Start(A, HERE))), a_snapshot(a_job("a")))
    assert [refusal.why for refusal in decided.refusals] == ["there is no such job"]
    assert decided.plan.decisions == (Start(A, HERE),)


class ForgetfulBook(NoEstimates):
    """Fails on every snapshot but the first."""

    def fold(self, snapshot):
        if snapshot.cycle:
            raise OverflowError("a report of 10**400 steps")
        return self


def test_a_book_that_fails_ends_nothing_and_is_told_once():
    jobs = [a_job(f"j{number}", submit=10.0 * number, seconds=5.0) for number in range(4)]
    notes = []
    cluster = SimCluster(some_nodes(2), jobs, World())
    run(cluster, first_fit, ForgetfulBook(), lambda decided: notes.extend(decided.snapshot.notes), first_fit)
    assert cluster.board.unfinished == 0
    told = [sentence for about, sentence in notes if about == ABOUT_THE_POLICY]
    assert len(told) == 1
    assert "OverflowError: a report of 10**400 steps; nothing is learnt" in told[0]
