"""The gang rule by its table of cases, its restart limits and its saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from gang_cases import CASES, GRACE, MEMORY, NODE, Case
from headway.core.gang import (
    GangState,
    GangVerdict,
    Phase,
    ReplicaFact,
    SaveRound,
    back_off_seconds,
    exit_sentence,
    judge,
    phase_of_exit,
    to_ask,
)
from headway.core.job import Job, JobId, Role
from headway.core.restarts import Losses, RestartLimits

DOCS = (Path(__file__).parents[2] / "docs" / "gangs.md").read_text()
LIMITS = RestartLimits(losses=3, window_seconds=3600)
HOUR = 3600.0


def _at(case: Case, now: float) -> list[ReplicaFact]:
    ended = {(exit_.role, exit_.index): exit_ for exit_ in case.exits if exit_.after <= now}
    members = []
    for role in case.roles:
        for index in range(role.replicas):
            exit_ = ended.get((role.name, index))
            phase = Phase.UP
            if exit_ is not None:
                lost = exit_.code == NODE
                code = exit_.code if isinstance(exit_.code, int) else 1
                phase = Phase.LOST if lost else phase_of_exit(code, out_of_memory=exit_.code == MEMORY)
            members.append(ReplicaFact(role.name, index, phase, 0.0 if exit_ is None else exit_.after, "why"))
    return members


def _run(case: Case) -> tuple[GangVerdict, float]:
    """Looks at every moment at which something happens until the gang is over."""
    wanted = {role.name: role.replicas for role in case.roles}
    moments = sorted({exit_.after for exit_ in case.exits})
    while moments:
        now = moments.pop(0)
        verdict = judge(case.job, wanted, _at(case, now), now, grace=GRACE)
        if verdict.state not in (GangState.WHOLE, GangState.WAIT):
            return verdict, now
        if verdict.until < float("inf"):
            moments = sorted({*moments, verdict.until})
    raise AssertionError("the gang goes on for ever")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table_of_cases(case):
    verdict, now = _run(case)
    assert now >= case.not_before
    if case.every_attempt or case.restarts.losses is not None:
        losses, limits = Losses(), LIMITS.of(case.restarts)
        for attempt in range(limits.losses + 1):
            assert not losses.too_many(limits)
            losses = losses.another(float(attempt), -1, limits)
        assert losses.too_many(limits)
    else:
        assert verdict.state.value == {"finished": "done", "restarted": "lost"}.get(case.outcome, case.outcome)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_docs_tell_every_case(case):
    assert f"| {case.name} | {case.outcome} |" in DOCS


def test_signals_of_others_are_losses_all_else_is_the_scripts_fault():
    lost = {code for code in range(1, 300) if phase_of_exit(code) is Phase.LOST}
    assert lost == {128 + number for number in (1, 2, 9, 10, 12, 15)}
    assert phase_of_exit(0) is Phase.DONE
    assert phase_of_exit(137, out_of_memory=True) is Phase.FAILED


def test_an_exit_is_told_in_words():
    assert exit_sentence("worker-1", 137) == "worker-1 was killed by signal 9 (SIGKILL)"
    assert exit_sentence("worker-1", 3) == "worker-1 ended with exit code 3"
    assert exit_sentence("worker-1", 255) == "worker-1 ended with exit code 255"


JOB = Job(id=JobId("j"), roles=(Role(name="worker", replicas=2, min=2, max=4),))
TWO = {"worker": 2}


def _workers(*phases: Phase) -> list[ReplicaFact]:
    return [ReplicaFact("worker", index, phase, why=phase.value) for index, phase in enumerate(phases)]


def test_a_gang_that_starts_may_be_incomplete_and_is_whole_when_all_are_up():
    assert judge(JOB, TWO, _workers(Phase.UP), 0.0, starting=True).state is GangState.WAIT
    assert judge(JOB, TWO, _workers(Phase.UP, Phase.PENDING), 0.0, starting=True).state is GangState.WAIT
    assert judge(JOB, TWO, _workers(Phase.UP, Phase.UP), 0.0, starting=True).state is GangState.WHOLE
    assert judge(JOB, TWO, _workers(Phase.UP), 0.0).state is GangState.LOST, "once it runs, a missing replica is a loss"


def test_a_replica_that_only_joins_takes_nobody_down():
    """While a job grows, the new replica is not needed yet: that it fails is no harm to the gang."""
    for phase in (Phase.FAILED, Phase.LOST, Phase.REFUSED):
        assert judge(JOB, TWO, _workers(Phase.UP, Phase.UP, phase), 0.0).state is GangState.WHOLE


def test_a_failure_waits_a_moment_for_a_loss_that_explains_it():
    failed, up = ReplicaFact("worker", 0, Phase.FAILED, 10.0, "code 1"), ReplicaFact("worker", 1, Phase.UP)
    assert judge(JOB, TWO, [failed, up], 10.5) == GangVerdict(GangState.WAIT, until=12.0)
    assert judge(JOB, TWO, [failed, up], 12.0) == GangVerdict(GangState.FAILED, "code 1")
    lost = ReplicaFact("worker", 1, Phase.LOST, 11.0, "killed")
    assert judge(JOB, TWO, [failed, lost], 11.0) == GangVerdict(GangState.LOST, "killed")
    also = ReplicaFact("worker", 1, Phase.FAILED, 11.0, "code 1")
    assert judge(JOB, TWO, [failed, also], 11.0) == GangVerdict(GangState.FAILED, "code 1"), (
        "all have ended: nobody is left to tell"
    )


def test_out_of_memory_is_the_cause_whoever_else_failed():
    members = [
        ReplicaFact("worker", 0, Phase.LOST, why="killed"),
        ReplicaFact("worker", 1, Phase.FAILED, 0.0, "memory", True),
    ]
    assert judge(JOB, TWO, members, 0.0) == GangVerdict(GangState.FAILED, "memory")


def test_ten_evictions_over_a_week_fail_no_job_that_never_reports():
    losses = Losses()
    for number in range(10):
        losses = losses.another(number * 16 * HOUR, -1, LIMITS)
        assert not losses.too_many(LIMITS)


def test_four_losses_within_the_window_fail_it_unless_there_was_progress():
    losses = moved = Losses()
    for number in range(4):
        losses = losses.another(number * 60.0, 7, LIMITS)
        moved = moved.another(number * 60.0, 7 + number, LIMITS)
    assert losses.too_many(LIMITS)
    assert not moved.too_many(LIMITS)


def test_a_first_report_after_a_restart_is_no_progress():
    losses = Losses().another(0.0, 60, LIMITS).another(1.0, 50, LIMITS)
    assert losses == Losses((0.0, 1.0), 60)


def test_refused_starts_wait_longer_and_longer():
    assert [back_off_seconds(number) for number in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]


A, B = ("worker", 0), ("worker", 1)


def test_nobody_is_asked_before_all_that_can_save_are_connected():
    assert to_ask({A, B}, {A}, {A, B}) == frozenset()
    assert to_ask({A, B}, {A, B}, {A, B}) == {A, B}
    assert to_ask({A, B}, {A}, {A}) == {A}, "one that was scaled away is not waited for"
    assert to_ask(set(), set(), {A, B}) == frozenset()


def test_a_save_is_complete_when_every_replica_that_was_asked_has_answered():
    saves = SaveRound(request=3, asked=frozenset({A, B}))
    assert not saves.answered(A, 3).answered(A, 3).is_complete, "one replica with two trackers is one"
    assert saves.answered(A, 3).answered(B, 3).is_complete
    assert saves.answered(A, 2, "an earlier failure") == saves
    assert saves.answered(A, None) == saves, "a checkpoint of its own answers nobody"
    assert saves.answered(("worker", 7), 3) == saves, "who was not asked has no say"
    assert saves.answered(A, 3, "").failed == "it gave no reason"
    assert saves.next() == SaveRound(4)
