"""Whether promises are kept: stalled jobs become late, honest ones with warm-up, acceleration or noise never do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, write_beliefs
from headway.cli.wiring import keep_beliefs
from headway.core.estimates import Basis
from headway.core.job import JobId
from headway.core.snapshot import Sample
from headway.cycle.loop import Decided, run
from headway.estimates.history.history import History
from headway.estimates.job.pace import Guess
from headway.estimates.job.promise import PromisedEnd, UserReliability
from headway.estimates.job.track import Track, Where
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.requested import requested_setting
from headway.policies.baselines.fifo import fifo
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.sim.cluster import Reports, SimCluster, World
from headway.sim.lies import LIES, told_by
from make import a_board, a_job, a_role, running, some_nodes


def told(shares: list[float], seconds: float = 60.0) -> list[bool]:
    """Whether a job was late at each report, if its speed so far is all that it promises by. Shares of its steps."""
    promised: PromisedEnd | None = None
    found = []
    for number, share in enumerate(shares, start=1):
        trained = number * seconds
        left = (1.0 - share) * trained / share
        found.append(promised is not None and promised.late(trained))
        promised = PromisedEnd.beginning(trained, left) if promised is None else promised.renewed(trained, left)
    return found


def test_a_job_that_stays_at_99_percent_is_late_soon_and_for_good():
    late = told([min(0.99, 0.2 * number) for number in range(1, 200)])
    assert not any(late[:4])
    assert all(late[12:])


@given(st.floats(1.0, 3.0), st.integers(20, 300))
def test_an_honest_job_that_gets_faster_is_never_late(power, reports):
    assert not any(told([(number / reports) ** power for number in range(1, reports + 1)]))


@given(st.integers(20, 300), st.floats(0.05, 0.5))
def test_an_honest_job_with_a_warm_up_is_never_late(reports, warm):
    began = warm * reports
    shares = [0.001 + 0.999 * max(0.0, number - began) / (reports - began) for number in range(1, reports + 1)]
    assert not any(told(shares))


def test_trust_is_lost_by_one_great_lie_and_regained_by_promises_kept():
    trust = UserReliability().add(20.0)
    assert trust.broken
    kept = 0
    while trust.broken:
        trust, kept = trust.add(1.0), kept + 1
    assert 2 <= kept <= 20
    assert not UserReliability().add(1.3).broken
    assert not UserReliability().broken


def test_what_like_jobs_took_is_no_promise_of_a_longer_one():
    """That like jobs take 0.06 s a step was Headway's own guess: its reports promise 2 s from the second on."""
    job = a_job("a", gpus=1, steps=10_000)
    board = a_board([running(job, [0])], nodes=some_nodes(1, gpus=1))
    placement, setting = board.placement(0), requested_setting(job, board.nodes)
    assert placement is not None
    where = Where(placement=placement, setting=setting, now=0.0, prior=History().prior(job, setting), clock=0.0)
    track = Track.beginning(Sample(job.id, 0.0, 0, None, 10_000), where, Guess(0.06, 0.1))
    assert track is not None
    for at in (60.0, 120.0):
        track = track.fold(Sample(job.id, at, int(at / 2), None, 10_000), at)
    assert track.promised is not None
    assert track.promised.first.end == pytest.approx(20_000.0, rel=0.01)
    moved = replace(where, now=180.0, placement=replace(placement), clock=0.0)
    first = Track.beginning(Sample(job.id, 0.0, 0, None, 10_000), where, Guess(0.06, 0.1))
    assert first is not None
    assert first.moved(Sample(job.id, 180.0, 1, None, 10_000), moved).promised is None


def bases(lie: str, jobs: int = 3, user: str = "eve") -> list[set[Basis]]:
    """By job, one after the other on one node: what the belief rested on."""
    seen: dict[str, set[Basis]] = {}
    submitted = [a_job(f"job-{n}", gpus=1, submit=float(n), seconds=None, steps=4000, user=user) for n in range(jobs)]
    world = World(work=lambda _job: 4000.0, reports=Reports(seconds=60.0), tells=told_by(user, LIES[lie]))
    cluster = SimCluster(some_nodes(1, gpus=1), submitted, world)

    def observe(decided: Decided) -> None:
        for row in decided.snapshot.placements:
            basis = decided.snapshot.estimates.basis(row)
            seen.setdefault(decided.snapshot.jobs.job(row).id, set()).add(basis)

    run(cluster, _often, ProgressBook(), observe)
    return [seen[job.id] for job in submitted]


def _often(snapshot):
    return replace(fifo(snapshot), until=snapshot.now + 60.0)


@pytest.mark.parametrize("lie", ["stalled at 99 %", "creeping from 90 %"])
def test_a_liar_is_found_out_and_its_next_jobs_are_not_believed(lie):
    first, second, third = bases(lie)
    assert Basis.STEPS in first
    assert Basis.LATE in first
    assert Basis.STEPS not in second | third


def test_jobs_that_name_no_user_do_not_answer_for_each_other():
    for seen in bases("stalled at 99 %", user=""):
        assert {Basis.STEPS, Basis.LATE} <= seen


def test_honest_jobs_are_believed_all_along():
    for seen in bases("honest"):
        assert not any(basis.odd for basis in seen)
        assert Basis.STEPS in seen


def test_who_reports_nothing_has_no_samples():
    assert LIES["silent"](Sample(JobId("a"), 1.0, 1)) is None
    assert all(Basis.STEPS not in seen for seen in bases("silent"))


def beliefs_by_time(lie: str) -> dict[tuple[str, float], tuple[float, float]]:
    """By job and moment: time left where something is known, and speed at twice its size."""
    seen: dict[tuple[str, float], tuple[float, float]] = {}
    roles = [a_role("worker", 1, min=1, max=4)]
    submitted = [
        a_job(f"job-{n}", roles=roles, submit=float(n), seconds=None, steps=4000, user="eve") for n in range(8)
    ]
    world = World(work=lambda _job: 4000.0, reports=Reports(seconds=60.0), tells=told_by("eve", LIES[lie]))

    def observe(decided: Decided) -> None:
        snapshot = decided.snapshot
        for row in snapshot.placements:
            left = float(snapshot.estimates.left(snapshot.now)[row])
            seen[snapshot.jobs.job(row).id, snapshot.now] = (left, snapshot.estimates.speed(row, (2,)))

    run(SimCluster(some_nodes(1, gpus=1), submitted, world), _often, ProgressBook(), observe)
    return {key: found for key, found in seen.items() if not math.isnan(found[0])}


def test_the_next_jobs_of_a_liar_are_estimated_as_if_they_did_not_report():
    lying, silent = beliefs_by_time("stalled at 99 %"), beliefs_by_time("silent")
    both = lying.keys() & silent.keys()
    assert len(both) > 100
    assert [lying[key] for key in both] == [silent[key] for key in both]


def test_lost_trust_outlives_a_restart(tmp_path):
    """The beliefs beside the log have it, and the log itself if they are gone."""
    log, book = tmp_path / "run.log", ProgressBook()
    jobs = [a_job(f"job-{n}", submit=float(n), seconds=None, steps=4000, user="eve") for n in range(2)]
    world = World(
        work=lambda _job: 4000.0, reports=Reports(seconds=60.0), tells=told_by("eve", LIES["stalled at 99 %"])
    )
    writer = LogWriter(log, Head("sim", "fifo", "progress", {}, 0, 0.0, ""))

    def observe(decided: Decided) -> None:
        nonlocal book
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        book = book.fold(decided.snapshot)

    run(SimCluster(some_nodes(1, gpus=1), jobs, world), _often, ProgressBook(), observe)
    writer.close()
    assert book.history.users["eve"].broken
    assert keep_beliefs("progress", NO_BELIEFS, log).book.history.users == book.history.users
    write_beliefs(log.with_name("run.log.beliefs"), LearnedBeliefs(book.history, until=1e9))
    log.unlink()
    assert keep_beliefs("progress", NO_BELIEFS, log).book.history.users == book.history.users
