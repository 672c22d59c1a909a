"""What an earlier run has learnt is not lost with it."""

from __future__ import annotations

from headway.cli.wiring import MOST_LOG_BYTES, after
from headway.core.job import Target
from headway.cycle.loop import run
from headway.cycle.resume import remembered
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.plain_books import DeclaredBook
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.replay import snapshots
from headway.sim.cluster import Reports, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_snapshot, some_nodes


def _logged(path, *, appended=False):
    """A run of four jobs that reach a target, and of one that never ends."""
    target = Target(value=BUILT_IN["bert"].curve(0.5))
    jobs = [a_job(f"j{n}", submit=600.0 * n, seconds=1000.0, steps=4000, model="bert", target=target) for n in range(4)]
    world = World(speed=Speed(profiles=BUILT_IN), reports=Reports(seconds=10.0))
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


def test_history_is_folded_again_from_the_log(tmp_path):
    log = tmp_path / "run.log"
    book, job = _logged(log)
    again = remembered(snapshots(log))
    assert again.history.reached(job).lengths == book.history.reached(job).lengths != ()
    assert len(again.history.reached(job).lengths) == 4
    assert again.history.kinds == book.history.kinds
    assert not again.tracks
    fresh = a_snapshot(a_job("new", model="bert", target=job.target), nodes=some_nodes(2))
    told = again.annotate(fresh).estimates.left(0.0)[0]
    assert 450 < told < 550, "half of 1,000 s"
    _logged(log, appended=True)
    assert len(remembered(snapshots(log)).history.reached(job).lengths) == 8, "a resumed run's log has two heads"


def test_only_a_book_with_a_history_reads_a_log_and_only_a_short_one(tmp_path):
    log = tmp_path / "run.log"
    book, job = _logged(log)
    assert after(ProgressBook(), log).history.reached(job).lengths == book.history.reached(job).lengths
    declared = DeclaredBook()
    assert after(declared, log) is declared
    empty = ProgressBook()
    assert after(empty, tmp_path / "no.log") is empty
    assert after(empty, None) is empty
    with log.open("r+b") as file:
        file.truncate(MOST_LOG_BYTES + 1)
    assert after(empty, log) is empty
