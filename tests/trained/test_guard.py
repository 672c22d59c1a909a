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
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks import a_network

from headway.beliefs.books import make_book
from headway.beliefs.file import LearnedBeliefs, write_beliefs
from headway.beliefs.kept_book import kept_beliefs
from headway.cli.wiring import guard_for, make_policy
from headway.compare.perform import Task, make_cluster, make_head, perform, simulate
from headway.core.errors import UserError
from headway.core.snapshot import TrainedMode
from headway.cycle.loop import run
from headway.estimates.history.change_costs import ChangeCosts
from headway.estimates.history.history import History
from headway.estimates.plain_books import NoEstimates
from headway.policies.headway import Headway
from headway.policies.learned import PLAIN, Learned
from headway.policies.value.outlook import FEATURES, outlook
from headway.record.lines import CycleLine
from headway.record.log import LogWriter, read
from headway.record.replay import ReplayCluster
from headway.sim.world import Costs
from headway.trained.file import TrainedPolicy, write_trained
from headway.trained.guard import LEAST_JOBS, TrainedGuard
from headway.trained.regret import Regret, compared, recent, regret, reordered
from learn_tasks import fixed
from make import a_job, a_snapshot, some_nodes

WORSE, ALIKE = Regret(120, 0.05, 0.03), Regret(120, 0.02, -0.01)


class AtOnce(Executor):
    def submit(self, work, /, *given, **named):
        done = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:  # noqa: BLE001  as executors do
            done.set_exception(error)
        return done


class Never(Executor):
    def submit(self, work, /, *given, **named):
        return Future()


def _live(tmp_path, replay, *, least=5, clock=None, policy=None):
    """A run in virtual time with a guard, as a live one has it. `least`: finished jobs before the first replay."""
    case, chosen = fixed(4, 18), policy or Learned(network=a_network())
    task, log = Task(policy="learned", make=lambda: chosen, estimates="progress", seed=3), tmp_path / "a.log"
    cluster, writer = make_cluster(case, task), LogWriter(log, make_head(case, task))
    guard = TrainedGuard(chosen, log, replay, AtOnce(), **({"clock": clock} if clock else {}))
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
    assert guard.standing == TrainedMode("off", "its replay failed: ValueError: the log is gone")


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
    assert _replay(log, file)(log, 16) == Regret(16, 0.0, 0.0)
    write_trained(file, TrainedPolicy(a_network(2.0)))
    assert _replay(log, file)(log, 16).mean != 0.0


def _replay(log, file, *settings, **more):
    """As it is sent to another process."""
    return pickle.loads(pickle.dumps(guard_for("learned", [f"file={file}", *settings], log, **more).replay))


def test_a_replay_has_the_beliefs_costs_and_estimates_of_the_run_and_the_jobs_before(tmp_path):
    log, file = tmp_path / "a.log", tmp_path / "t.npz"
    simulate(fixed(2, 16), Task(policy="headway", make=lambda: PLAIN, estimates="declared"), log=log)
    write_trained(file, TrainedPolicy(a_network()))
    costs = ChangeCosts()
    for _ in range(9):
        costs = costs.started("bert", 7.0).stopped("bert", 3.0)
    taught = LearnedBeliefs(History(costs=costs))
    given = recent(log, beliefs=taught)
    assert given.world(given.trace, 0).costs == Costs(start=pytest.approx(7), scale=pytest.approx(7),
                                                      save=pytest.approx(3), resize=1.0)  # fmt: skip
    assert given.beliefs is taught
    assert given.estimates == "declared"
    untold = recent(log)
    assert untold.world(untold.trace, 0).costs == Costs(start=30.0, scale=30.0, save=10.0, resize=1.0)
    write_beliefs(kept_beliefs(log), taught)
    kept = recent(log)
    assert kept.world(kept.trace, 0).costs == given.world(given.trace, 0).costs, "what was learned is beside the log"
    policies = Learned(network=a_network()), Headway()
    assert _replay(log, file)(log, 5000) == compared(kept, *policies, before=5000 - 16)
    assert _replay(log, file)(log, 5000) != compared(untold, *policies, before=5000 - 16)


def test_jobs_before_count_in_the_features_of_a_replay(tmp_path):
    seen = []

    def looks(snapshot):
        seen.append(outlook(snapshot)[FEATURES.index("history")])
        return PLAIN(snapshot)

    perform(fixed(2, 16), Task(policy="x", make=lambda: looks, before=5000))
    assert seen[0] == pytest.approx(5000 / 5100)
    assert seen[-1] == pytest.approx(5016 / 5116, abs=1e-6)


def test_settings_of_headway_hold_with_it_too_and_are_not_turned():
    chosen, plain = (make_policy(name, ["trial=77", "patience=4000"]) for name in ("learned", "headway"))
    assert chosen.base == plain
    turned = chosen.settled(a_snapshot(a_job("w", gpus=2), nodes=some_nodes(2, gpus=4)))
    assert (turned.trial, turned.patience) == (77, 4000)
    assert turned != plain
    with pytest.raises(UserError, match="policy learned has these settings: file=FILE, "):
        make_policy("learned", ["colour=1"])


@pytest.mark.parametrize("found", [ALIKE, WORSE], ids=["alike", "worse"])
def test_over_ten_restarts_it_counts_each_job_once_and_keeps_what_it_found(tmp_path, found):
    """Each start shows all jobs once more, as a restored run does. Replays do not end before their run does."""
    case, chosen, log = fixed(4, 66), Learned(network=a_network(), name="t.npz abc"), tmp_path / "a.log"
    task = Task(policy="learned", make=lambda: chosen, estimates="progress", seed=3)
    cluster, writer = make_cluster(case, task), LogWriter(log, make_head(case, task))
    starts, seen, asked = [], [], []

    def replay(_, finished):
        asked.append(finished)
        return found

    def start():
        guard = TrainedGuard(chosen, log, replay, AtOnce() if len(starts) > 5 else Never()).go_on()
        guard._next = min(guard._next, 20)
        starts.append(guard)

    def observe(decided):
        seen.append(decided.snapshot.standing)
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        if len(seen) % 13 == 1 and len(starts) < 10:
            start()
            shown = replace(decided.snapshot, changed=tuple(range(decided.snapshot.jobs.count)))
            starts[-1].observe(decided._replace(snapshot=shown))
        else:
            starts[-1].observe(decided)

    class Restarted:
        def next_snapshot(self):
            return starts[-1].watched(cluster).next_snapshot() if starts else cluster.next_snapshot()

        apply = cluster.apply

    run(Restarted(), chosen, make_book("progress"), observe)
    writer.end(cluster.now, 0)
    assert len(starts) == 10
    assert starts[-1]._finished == 66
    assert asked[0] >= 20
    modes = [one.mode for one in seen[1:]]
    assert modes[0] == "shadow"
    assert modes[-1] == ("on" if found is ALIKE else "off")
    assert modes == sorted(modes, reverse=True) if found is ALIKE else "on" not in modes
    assert TrainedGuard(chosen, log, replay).go_on().standing == starts[-1].standing
    other = TrainedGuard(replace(chosen, name="t.npz def"), log, replay).go_on()
    assert (other.standing.mode, other._finished) == ("shadow", 0), "another file is another policy"


def test_what_is_kept_may_be_damaged_and_being_slow_is_forgotten(tmp_path):
    ticks = iter(np.arange(0.0, 1e6, 0.2).tolist())
    _, _, guard = _live(tmp_path, lambda *_: ALIKE, clock=lambda: next(ticks))
    assert guard.standing.mode == "off"
    again = TrainedGuard(guard.policy, guard.log, guard.replay).go_on()
    assert again.standing.mode == "shadow"
    assert again._finished == guard._finished == 18
    for content in (b"", b"{", b'{"policy": 1}', b"[]"):
        (tmp_path / "a.log.guard").write_bytes(content)
        assert TrainedGuard(guard.policy, guard.log, guard.replay).go_on()._finished == 0


def test_one_that_fails_in_shadow_is_switched_off_and_the_run_goes_on(tmp_path):
    class Broken(Learned):
        def took(self, snapshot, clock):
            raise ZeroDivisionError("by nothing")

    *_, guard = _live(tmp_path, lambda *_: ALIKE, policy=Broken(network=a_network()))
    assert guard.standing.mode == "off"
    assert guard.standing.why.endswith("ZeroDivisionError: by nothing")


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
    sent = _replay(log, file, *settings)
    queues.unlink()
    found = sent(log, 16)
    assert found == compared(recent(log), *live), "the queues are those of the run's start"
    assert found != _replay(log, file)(log, 16), "without them the jobs would take otherwise long"


LIVE = """
import time
from pathlib import Path
from headway.policies.learned import Learned
from headway.trained.guard import TrainedGuard

if __name__ == "__main__":
    guard = TrainedGuard(Learned(), Path("log"), print)
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
