"""What an earlier run has learnt is not lost with it."""

from __future__ import annotations

import pytest

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, SourceFields, read_beliefs, write_beliefs
from headway.beliefs.folding import Folding
from headway.beliefs.kept_book import go_on_learning
from headway.cli.wiring import MOST_LOG_BYTES, beliefs_for, keep_beliefs, keeping
from headway.core.job import Target
from headway.cycle.loop import run
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.plain_books import DeclaredBook
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.replay import snapshots
from headway.sim.cluster import Costs, Reports, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_snapshot, some_nodes


def _logged(path, *, appended=False, start=0.0):
    """A run of four jobs that reach a target, and of one that never ends."""
    target = Target(value=BUILT_IN["bert"].curve(0.5))
    jobs = [a_job(f"j{n}", submit=600.0 * n, seconds=1000.0, steps=4000, model="bert", target=target) for n in range(4)]
    world = World(speed=Speed(profiles=BUILT_IN), reports=Reports(seconds=10.0), costs=Costs(start=start))
    cluster = SimCluster(some_nodes(2), jobs, world)
    writer = LogWriter(path, Head("sim", "fifo", "progress", {}, 0, 0.0, ""), fresh=not appended)
    books = [ProgressBook()]

    def policy(snapshot):
        plan = POLICIES["fifo"]()(snapshot)
        return type(plan)(plan.decisions, snapshot.now + 10.0)

    def observe(decided):
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        books.append(books[-1].fold(decided.snapshot))

    run(cluster, policy, ProgressBook(), observe)
    writer.end(cluster.now, 0)
    return books[-1], jobs[0]


def _folded(log):
    folding = Folding()
    folding.run(snapshots(log))
    return folding


def test_history_is_folded_again_from_the_log(tmp_path):
    log = tmp_path / "run.log"
    book, job = _logged(log)
    again = _folded(log)
    assert again.history.reached(job).lengths == book.history.reached(job).lengths != ()
    assert len(again.history.reached(job).lengths) == 4
    assert again.history.kinds == book.history.kinds
    fresh = a_snapshot(a_job("new", model="bert", target=job.target), nodes=some_nodes(2))
    told = ProgressBook(history=again.history).annotate(fresh).estimates.left(0.0)[0]
    assert 450 < told < 550, "half of 1,000 s"


def test_jobs_that_a_resumed_run_shows_again_teach_once(tmp_path):
    log = tmp_path / "run.log"
    book, _ = _logged(log)
    _logged(log, appended=True)
    assert _folded(log).history.durations == book.history.durations, "all of them finished before the run went on"
    assert _folded(log).jobs == 4


def test_a_live_run_keeps_what_it_learned_and_goes_on_from_there(tmp_path):
    log = tmp_path / "run.log"
    book, job = _logged(log)
    live = keep_beliefs("progress", NO_BELIEFS, log)
    assert live.book.history.durations == book.history.durations
    kept = log.with_name("run.log.beliefs")
    write_beliefs(kept, LearnedBeliefs(book.history, until=live.book.since))
    assert keep_beliefs("progress", NO_BELIEFS, log).book.history.durations == book.history.durations, "no job twice"
    with log.open("r+b") as file:
        file.truncate(MOST_LOG_BYTES + 1)
    again = keep_beliefs("progress", NO_BELIEFS, log).book
    assert again.history.durations == book.history.durations, "a log that takes long to read is not needed"
    assert again.history.reached(job).lengths == book.history.reached(job).lengths
    kept.write_text("not ours")
    assert keep_beliefs("progress", NO_BELIEFS, log).book.history == ProgressBook().history


def _lived(folder, *, written_often=False):
    """A run whose log is not there yet has seen all jobs: its log, what it must know, and its book."""
    log = folder / "run.log"
    book, _ = _logged(folder / "other.log")
    live = keep_beliefs("progress", NO_BELIEFS, log)
    for snapshot in snapshots(folder / "other.log"):
        live = live.fold(snapshot)
        if written_often:
            live.keeper._next = 0.0
    return log, book, live


def test_what_finishes_is_written_while_the_run_goes_on(tmp_path):
    log, book, _ = _lived(tmp_path, written_often=True)
    found = read_beliefs(log.with_name("run.log.beliefs"))
    assert found.history.durations == book.history.durations
    assert found.until > 0


def test_what_starts_took_outlives_a_restart_and_counts_once(tmp_path):
    log = tmp_path / "run.log"
    book, _ = _logged(log, start=25.0)
    starts = book.history.costs.starts["bert"]
    assert starts.weight == 1.95, "four jobs have started"
    live = keep_beliefs("progress", NO_BELIEFS, log)
    assert live.book.history.costs == book.history.costs, "folded from the log"
    write_beliefs(log.with_name("run.log.beliefs"), LearnedBeliefs(book.history, until=live.book.since))
    assert keep_beliefs("progress", NO_BELIEFS, log).book.history.costs == book.history.costs, "no start twice"
    again, _ = _logged(log, appended=True, start=25.0)
    assert _folded(log).history.costs.starts["bert"].weight == again.history.costs.starts["bert"].weight, "shown again"


def test_what_finished_after_the_last_write_is_written_at_the_end_for_its_owner_only(tmp_path):
    log, book, live = _lived(tmp_path)
    with pytest.raises(KeyboardInterrupt), keeping(live):
        raise KeyboardInterrupt
    kept = log.with_name("run.log.beliefs")
    assert read_beliefs(kept).history.durations == book.history.durations, "also those of the last minute"
    assert kept.stat().st_mode & 0o777 == 0o600, "it names users and models, as the log does"
    kept.unlink()
    with keeping(live):
        pass
    assert not kept.exists(), "nothing is left to write"


def test_what_was_kept_without_its_log_does_not_stop_learning(tmp_path):
    """The clock of a run whose log is gone begins at 0 again: times from before say nothing."""
    log = tmp_path / "run.log"
    book, _ = _logged(tmp_path / "other.log")
    write_beliefs(log.with_name("run.log.beliefs"), LearnedBeliefs(book.history, until=1e6))
    live = keep_beliefs("progress", NO_BELIEFS, log)
    assert live.book.history.durations == book.history.durations
    for snapshot in snapshots(tmp_path / "other.log"):
        live = live.fold(snapshot)
    assert live.book.history.durations.histograms["all",].count == 2 * book.history.durations.histograms["all",].count


def test_what_a_run_with_other_beliefs_learned_is_set_aside(tmp_path, capsys):
    log = tmp_path / "run.log"
    book, _ = _logged(tmp_path / "other.log")
    kept, aside = log.with_name("run.log.beliefs"), log.with_name("run.log.beliefs.old")
    write_beliefs(kept, LearnedBeliefs(book.history, (SourceFields("other.log", "1a2b", 4),), until=50.0))
    live = keep_beliefs("progress", NO_BELIEFS, log)
    assert live.book.history == NO_BELIEFS.history, "the run was asked to begin without them"
    assert read_beliefs(aside).history.durations == book.history.durations
    assert not kept.exists()
    said = " ".join(capsys.readouterr().err.split())
    assert "run.log.beliefs.old now: that run began with other beliefs" in said
    kept.write_text("not ours")
    keep_beliefs("progress", NO_BELIEFS, log)
    assert aside.read_text() == "not ours"
    assert "is not a file of beliefs" in " ".join(capsys.readouterr().err.split())


def test_books_without_a_history_keep_nothing(tmp_path):
    assert isinstance(keep_beliefs("declared", NO_BELIEFS, tmp_path / "run.log"), DeclaredBook)
    assert isinstance(keep_beliefs("progress", NO_BELIEFS, None), ProgressBook)
    assert beliefs_for("declared", None) is NO_BELIEFS


def _halfway(folder):
    """Two jobs on one place; the first is preempted by the second, which is shorter. A restart while both are open."""
    first = a_job("first", seconds=4000.0, steps=4000, model="bert")
    second = a_job("second", submit=600.0, seconds=1000.0, steps=1000, model="bert")
    world = World(speed=Speed(profiles=BUILT_IN), reports=Reports(seconds=10.0), costs=Costs(start=5.0))
    cluster = SimCluster(some_nodes(1, gpus=1), [first, second], world)
    live, seen = keep_beliefs("progress", NO_BELIEFS, folder / "run.log"), []

    def policy(snapshot):
        plan = POLICIES["srtf"]()(snapshot)
        return type(plan)(plan.decisions, snapshot.now + 10.0)

    class Book:
        def fold(self, snapshot):
            nonlocal live
            live = live.fold(snapshot)
            return self

        def annotate(self, snapshot):
            return live.annotate(snapshot)

    class Enough(Exception):  # noqa: N818  it ends a run
        pass

    def observe(decided):
        seen.append(decided.snapshot)
        if decided.snapshot.now > 900.0:
            raise Enough

    with pytest.raises(Enough), keeping(live):
        run(cluster, policy, Book(), observe)
    live.keeper.write()
    return live, seen[-1]


def test_a_restart_believes_of_each_unfinished_job_what_was_believed_before(tmp_path):
    live, snapshot = _halfway(tmp_path)
    before = live.book.annotate(snapshot).estimates
    again = go_on_learning(tmp_path / "run.log.beliefs", NO_BELIEFS, ())
    assert not again.book.tracks, "nothing counts before the jobs are seen"
    fresh = a_snapshot(*(snapshot.jobs.job(row) for row in range(snapshot.jobs.count)), nodes=snapshot.nodes)
    assert set(again.shown) == set(live.book.tracks) != set()
    after = again.fold(fresh)
    assert set(after.book.tracks) == set(live.book.tracks)
    rows = snapshot.jobs.waiting()
    assert len(rows), "the first was preempted"
    left = after.annotate(snapshot).estimates.left(snapshot.now)
    assert left[rows] == pytest.approx(before.left(snapshot.now)[rows], rel=0.02), "of a job that waits"
    other = a_snapshot(a_job("first", submit=5000.0, model="bert"), now=6000.0, nodes=snapshot.nodes)
    assert not again.fold(other).book.tracks, "a job that was submitted anew is another one"
    new_clock = go_on_learning(tmp_path / "run.log.beliefs", NO_BELIEFS, (), new_clock=True)
    assert not new_clock.shown, "its times say nothing"


def test_a_file_of_speeds_that_is_not_ours_is_passed_over(tmp_path):
    (tmp_path / "run.log.speeds").write_bytes(b"\xff\x00 not ours")
    assert keep_beliefs("progress", NO_BELIEFS, tmp_path / "run.log").shown == {}
