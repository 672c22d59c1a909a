"""The guard: shadow first, off when it is worse or too slow; it is in the log, and a replay decides the same."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pytest
from networks import a_network

from headway.beliefs.books import make_book
from headway.cli.wiring import guard_for, make_policy
from headway.compare.perform import Task, make_cluster, make_head, simulate
from headway.core.snapshot import Standing
from headway.cycle.loop import run
from headway.estimates.plain_books import NoEstimates
from headway.policies.headway import Headway
from headway.policies.learned import PLAIN, Learned
from headway.record.lines import CycleLine
from headway.record.log import LogWriter, read
from headway.record.replay import ReplayCluster
from headway.trained.file import TrainedPolicy, write_trained
from headway.trained.guard import LEAST_JOBS, TrainedGuard
from headway.trained.regret import Regret, compared, recent, regret, regret_of, reordered
from learn_tasks import fixed

WORSE, ALIKE = Regret(120, 0.05, 0.03), Regret(120, 0.02, -0.01)


class AtOnce(Executor):
    def submit(self, work, /, *given, **named):
        done = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:  # noqa: BLE001  as executors do
            done.set_exception(error)
        return done


def _live(tmp_path, replay, *, least=5, clock=None, policy=None):
    """A run in virtual time with a guard, as a live one has it. `least`: finished jobs before the first replay."""
    case, chosen = fixed(4, 18), policy or Learned(network=a_network())
    task, log = Task(policy="learned", make=lambda: chosen, estimates="progress", seed=3), tmp_path / "a.log"
    cluster, writer = make_cluster(case, task), LogWriter(log, make_head(case, task))
    guard = TrainedGuard(chosen, log, tmp_path / "none", replay, AtOnce(), **({"clock": clock} if clock else {}))
    guard._next = least
    seen = []

    def observe(decided):
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        guard.observe(decided)
        seen.append(decided.snapshot.standing)

    run(guard.watched(cluster), chosen, make_book("progress"), observe)
    writer.end(cluster.now, 0)
    return log, seen, guard


def _replayed(log, policy):
    cluster = ReplayCluster(log)
    run(cluster, policy, NoEstimates())
    return cluster.differences


def test_it_begins_in_shadow_and_decides_after_a_good_replay_and_a_replay_of_the_log_is_exact(tmp_path):
    log, seen, _ = _live(tmp_path, lambda *_: ALIKE)
    modes = [one.mode for one in seen]
    assert modes[0] == "shadow"
    assert modes[-1] == "on"
    assert modes == sorted(modes, reverse=True), "shadow, then on"
    assert _replayed(log, Learned(network=a_network())) == []
    told = [line.standing for line in read(log) if isinstance(line, CycleLine) and line.standing]
    assert [mode for mode, _ in told] == ["shadow", "on"], "only changes are in the log"
    assert "+2.0% mean completion over 120 jobs" in told[-1][1]


def test_in_shadow_and_off_the_plans_are_those_of_headway(tmp_path):
    shadow, seen, _ = _live(tmp_path, lambda *_: ALIKE, least=10**6)
    assert {one.mode for one in seen} == {"shadow"}
    assert _replayed(shadow, Headway()) == []
    off, seen, guard = _live(tmp_path / "..", lambda *_: WORSE)
    assert seen[-1].mode == guard.standing.mode == "off"
    assert "lower bound +3.0%" in guard.standing.why
    assert _replayed(off, Headway()) == []
    assert _replayed(off, Learned(network=a_network())) == []


def test_too_few_jobs_change_nothing_and_a_replay_that_fails_switches_it_off(tmp_path):
    _, seen, _ = _live(tmp_path, lambda *_: Regret(LEAST_JOBS - 1, 0.5, 0.4))
    assert {one.mode for one in seen} == {"shadow"}

    def fails(*_):
        raise ValueError("the log\nis gone")

    _, seen, guard = _live(tmp_path, fails)
    assert guard.standing == Standing("off", "its replay failed: ValueError: the log is gone")


def test_its_time_is_an_input_too(tmp_path):
    ticks = iter(np.arange(0.0, 1e6, 0.2).tolist())
    log, seen, guard = _live(tmp_path, lambda *_: ALIKE, least=10**6, clock=lambda: next(ticks))
    assert guard.standing.mode == "off"
    assert "in 3 cycles, more than its time" in guard.standing.why
    assert [one.mode for one in seen[:4]] == ["shadow"] * 3 + ["off"]
    assert _replayed(log, Learned(network=a_network())) == []


def test_regret_is_of_pairs_and_its_bound_of_replays():
    chance = np.random.default_rng(1)
    plain = chance.lognormal(6, 1, (6, 150))
    assert regret(plain, plain) == Regret(150, 0.0, 0.0)
    worse = regret(plain * 1.05, plain)
    assert worse.mean == pytest.approx(0.05)
    assert worse.too_much
    assert not regret(plain * 0.9, plain).too_much
    assert not regret(plain[:, :90] * 1.5, plain[:, :90]).too_much, "fewer than a hundred jobs say nothing"
    off = np.array([1.02, 1.05, 0.99, 1.04, 1.03, 1.05])[:, None]
    some = regret(plain * off, plain)
    assert some.mean == pytest.approx(0.03)
    assert some.lower == pytest.approx(0.03 - 1.476 * np.std(off, ddof=1) / np.sqrt(6))
    assert some.too_much, "worse in five replays of six"
    once = regret(plain * np.array([1.2, 1.0, 1.0, 1.0, 1.0, 1.0])[:, None], plain)
    assert once.mean == pytest.approx(0.2 / 6)
    assert not once.too_much, "one bad replay of six is chance"
    unfinished = plain.copy()
    unfinished[0, :40] = np.nan
    assert regret(unfinished, plain).jobs == 110
    assert regret(plain[:, :0], plain[:, :0]) == Regret(0, 0.0, -np.inf)


def test_replays_differ_in_the_order_of_arrivals():
    case = fixed(2, 16)
    assert reordered(case, 0) is case
    before, after = case.trace.jobs, reordered(case, 1).trace.jobs
    assert [job.submit for job in after] == [job.submit for job in before]
    assert {job.id for job in after} == {job.id for job in before}
    assert [job.id for job in after] != [job.id for job in before]
    assert reordered(case, 1) == reordered(case, 1)


def test_the_recent_jobs_of_a_log_are_replayed_under_both(tmp_path):
    log, file = tmp_path / "a.log", tmp_path / "t.npz"
    simulate(fixed(2, 16), Task(policy="headway", make=lambda: PLAIN, estimates="progress"), log=log)
    assert len(recent(log, 12).trace.jobs) == 12
    write_trained(file, TrainedPolicy(a_network(0.0)))
    assert regret_of(log, file) == Regret(16, 0.0, 0.0)
    write_trained(file, TrainedPolicy(a_network(2.0)))
    assert regret_of(log, file).mean != 0.0


QUEUES = """
queues:
  - {name: "", quota: {gpu: 4}, borrow: {gpu: 4}}
"""


@pytest.mark.parametrize("words", [["round=600"], ["queues={}"], ["round=600", "queues={}"]], ids="-".join)
def test_a_replay_is_behind_the_queues_and_in_the_rounds_of_the_live_run(tmp_path, words):
    log, file, queues = tmp_path / "a.log", tmp_path / "t.npz", tmp_path / "queues.yaml"
    queues.write_text(QUEUES)
    settings = [word.format(queues) for word in words]
    simulate(fixed(2, 16), Task(policy="headway", make=lambda: PLAIN, estimates="progress"), log=log)
    write_trained(file, TrainedPolicy(a_network(2.0)))
    live = make_policy("learned", [f"file={file}", *settings]), make_policy("headway", settings)
    sent = pickle.loads(pickle.dumps(guard_for("learned", [f"file={file}", *settings], log).replay))
    queues.unlink()
    found = sent(log, file)
    assert found == compared(recent(log), *live), "the queues are those of the run's start"
    assert found != regret_of(log, file), "without them the jobs would take otherwise long"


LIVE = """
import time
from pathlib import Path
from headway.policies.learned import Learned
from headway.trained.guard import TrainedGuard

if __name__ == "__main__":
    guard = TrainedGuard(Learned(), Path("log"), Path("file"))
    running = guard._pool().submit(time.sleep, 300)
    while not running.running():
        time.sleep(0.01)
    print(*guard._pool()._processes, flush=True)
    try:
        time.sleep(300)
    except KeyboardInterrupt:
        guard.close()
"""


def test_a_run_that_ends_does_not_wait_for_a_replay_and_ctrl_c_is_not_for_it(tmp_path):
    script = tmp_path / "live.py"
    script.write_text(LIVE)
    live = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        worker, until = Path(f"/proc/{int(live.stdout.readline())}"), time.monotonic() + 20
        while not _ignores_ctrl_c(worker):
            assert time.monotonic() < until, "a Ctrl-C in the terminal is for the run"
            time.sleep(0.02)
        os.killpg(live.pid, signal.SIGINT)
        _, said = live.communicate(timeout=20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(live.pid, signal.SIGKILL)
    assert "Traceback" not in said
    assert not worker.exists()


def _ignores_ctrl_c(process):
    line = next(line for line in (process / "status").read_text().splitlines() if line.startswith("SigIgn"))
    return int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1
