"""`headway tune`: it finds what is there, says when to keep what one has, and goes on after a kill."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from forked import call
from headway.compare.executors import make_executor
from headway.compare.kept_runs import content
from headway.compare.own_log import trace_of_log
from headway.compare.perform import Task, simulate
from headway.core.errors import UserError
from headway.estimates.models.coefficients import BUILT_IN
from headway.learn.tuning.runs import RunFigures, Runs, run_window
from headway.learn.tuning.search import SearchSettings, as_setting, least_budget, search
from headway.learn.tuning.verdict import judge
from headway.learn.tuning.windows import WindowSettings, read_windows
from headway.policies.headway import Headway
from headway.policies.knobs import BY_NAME, KNOBS
from headway.sim.speed import Speed
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.write import write_workload
from learn_tasks import elastic, fixed

CASES = tuple(fixed(seed, 12) for seed in range(8))
GIVEN = SearchSettings(knobs=KNOBS[:4], present={}, budget=120)


def _noise(case, settings):
    seed = int.from_bytes(sha256(repr((content(case), settings)).encode()).digest()[:4], "big")
    return 0.02 * np.random.default_rng(seed).standard_normal()


def _made_up(case, settings, *, there, tail=0.0, noise=1.0):
    """Figures of a run in which a smaller margin is worth `there` per offset, and lengthens the tail by `tail`."""
    offset = BY_NAME["margin"].offset(dict(settings).get("margin", 0.25))
    mean = 1000.0 * math.exp(there * offset + noise * _noise(case, settings))
    slowest = 9000.0 * math.exp(-tail * offset)
    return RunFigures(mean, slowest, slowest, 2.0, 3.0, 0)


def _tuned(run, given=GIVEN, file=None):
    with ThreadPoolExecutor(2) as pool:
        runs = Runs(pool, file, run)
        found = search(CASES[:4], given, runs)
        present = as_setting(given.present)
        last = runs.all(CASES[4:], [present, found.settings])
        return found, judge(found.settings, last[found.settings], last[present], given), runs


def test_it_finds_a_gain_that_is_there():
    found, judged, runs = _tuned(lambda case, one: _made_up(case, one, there=0.2))
    assert judged.change
    assert dict(found.settings)["margin"] < 0.2
    assert 0.03 < judged.gain < 0.2
    assert judged.interval[0] < judged.gain < judged.interval[1]
    assert runs.made <= GIVEN.budget + 2 * 4


def test_where_nothing_is_to_gain_one_keeps_what_one_has():
    proposed = 0
    for seed in range(10):
        given = SearchSettings(knobs=KNOBS[:4], present={}, budget=60, seed=seed)
        _, judged, _ = _tuned(lambda case, one, seed=seed: _made_up(case, (*one, ("seed", seed)), there=0.0), given)
        proposed += judged.change
        assert judged.change or judged.why
    assert proposed <= 1


def test_where_nothing_better_was_found_it_says_that_and_not_that_chance_gave_it():
    found, judged, _ = _tuned(lambda case, one: _made_up(case, one, there=0.0, noise=0.0))
    assert found.settings == ()
    assert (judged.change, judged.why) == (False, "nothing better was found")


def test_the_least_budget_is_that_of_one_generation():
    least = least_budget(4, 4)
    for budget, generations in ((least, 1), (least - 1, 0)):
        given = SearchSettings(knobs=KNOBS[:4], present={}, budget=budget)
        assert _tuned(lambda case, one: _made_up(case, one, there=0.2), given)[0].generations == generations


def test_a_gain_that_the_slowest_pay_for_is_not_proposed():
    _, judged, _ = _tuned(lambda case, one: _made_up(case, one, there=0.2, tail=0.5, noise=0.0))
    assert not judged.change or judged.tail <= 0.01


def test_a_second_start_goes_on_and_finds_the_same(tmp_path):
    file = tmp_path / "kept"
    whole, judged, runs = _tuned(lambda case, one: _made_up(case, one, there=0.2), file=file)
    lines = file.read_text().splitlines()
    assert len(lines) == runs.fresh
    file.write_text("\n".join(lines[: len(lines) // 2]) + '\n{"run": "cut')
    again, same, rest = _tuned(lambda case, one: _made_up(case, one, there=0.2), file=file)
    assert (again, same) == (whole, judged)
    assert rest.fresh == len(lines) - len(lines) // 2
    assert rest.made == runs.made
    *_, none = _tuned(lambda case, one: pytest.fail("it is kept"), file=file)
    assert none.fresh == 0


def test_a_run_of_a_window_is_that_of_simulate():
    case = CASES[0]
    task = Task(policy="headway", make=lambda: Headway(margin=0.5), estimates="progress")
    times = sorted(course.completion for course in simulate(case, task).courses.values())
    found = run_window(case, (("margin", 0.5),))
    assert found.mean == pytest.approx(np.mean(times))
    assert found.slowest == pytest.approx(times[-1])
    assert found.unfinished == 0


@pytest.mark.parametrize(
    ("case", "speed"), [(fixed(3, 20), Speed()), (elastic(3, 10), Speed(profiles=BUILT_IN))], ids=["fixed", "elastic"]
)
def test_a_log_tells_the_work_of_its_jobs(case, speed, tmp_path):
    log = tmp_path / "run.log"
    task = Task(policy="headway", make=Headway, settings=("margin=0.3",), estimates="progress")
    simulate(case, task, log=log)
    trace, head = trace_of_log(log, speed)
    assert head.policy == "headway"
    assert len(trace.jobs) == len(case.trace.jobs)
    for job in trace.jobs:
        assert trace.work(job) == pytest.approx(case.trace.work(job), rel=0.03)


def test_executors_by_name():
    with make_executor("concurrent.futures.ThreadPoolExecutor", 2) as pool:
        assert pool.submit(max, 1, 2).result() == 2
    with pytest.raises(UserError, match="--executor nowhere"):
        make_executor("nowhere.Pool", 1)
    with pytest.raises(UserError, match="no submit"):
        make_executor("builtins.dict", 1)


def test_workers_end_with_the_process_that_started_them():
    """Also when that is killed."""
    text = (
        "import os, time\nfrom headway.compare.executors import make_executor\n"
        "if __name__ == '__main__':\n"
        "    print(make_executor('', 1).submit(os.getpid).result(), flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        worker = Path(f"/proc/{int(process.stdout.readline())}")
        assert worker.exists()
        process.kill()
    until = time.monotonic() + 20
    while worker.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not worker.exists()


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def jobs(tmp_path):
    path = tmp_path / "mine.yaml"
    settings = Settings(jobs=90, load=1.5, mean_seconds=600.0, spread=1.0, seed=3)
    write_workload(generate(settings, list(open_cluster("2x4"))), path)
    return path


MAKERS = """
from concurrent.futures import ThreadPoolExecutor

def fails():
    raise OSError("no cluster there")

class Interrupted(ThreadPoolExecutor):
    left = 4

    def submit(self, *given):
        Interrupted.left -= 1
        if not Interrupted.left:
            raise KeyboardInterrupt
        return super().submit(*given)
"""


@pytest.fixture
def makers(tmp_path, monkeypatch):
    """Modules with executors of one's own."""
    (tmp_path / "makers.py").write_text(MAKERS)
    (tmp_path / "broken.py").write_text("def pool(:\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_ctrl_c_says_that_the_same_command_goes_on(jobs, makers, capsys):
    words = ("tune", jobs, "--window", 10, "--only", "margin,trial", "--budget", 30, "--executor", "makers.Interrupted")
    code, _, err = call(capsys, *words)
    assert code == 130
    assert "ended; finished runs are kept in" in err
    assert "mine.yaml.tune: the same command goes on" in " ".join(err.split())


def test_windows_share_no_job_and_know_what_the_run_had(jobs, tmp_path, capsys):
    log = tmp_path / "run.log"
    assert call(capsys, "simulate", jobs, "--set", "margin=0.4", "--log", log)[0] == 0
    found = read_windows(log, WindowSettings(jobs=10))
    assert found.present == {"margin": 0.4}
    seen = [job.id for case in (*found.tuned, *found.held_out) for job in case.trace.jobs]
    assert len(seen) == len(set(seen)) == 10 * (len(found.tuned) + len(found.held_out))
    assert max(job.id for case in found.tuned for job in case.trace.jobs) < min(
        job.id for case in found.held_out for job in case.trace.jobs
    )
    assert "favour" not in {knob.name for knob in found.knobs()}, "no size is chosen"
    again = read_windows(log, WindowSettings(jobs=10))
    assert [content(case) for case in again.tuned] == [content(case) for case in found.tuned]


def test_what_the_run_had_and_the_windows_have_not_is_told(jobs, tmp_path, capsys):
    log = tmp_path / "run.log"
    assert call(capsys, "simulate", jobs, "--policy", "sjf", "--set", "round=60", "--log", log)[0] == 0
    told = read_windows(log, WindowSettings(jobs=10)).left_out
    assert [sentence.split(";")[0] for sentence in told] == [
        "the log is of the policy sjf", "the log's run decided in rounds"
    ]  # fmt: skip
    words = ("tune", log, "--window", 10, "--budget", 30, "--only", "margin", "--jobs", 1, "--executor",
             "concurrent.futures.ThreadPoolExecutor")  # fmt: skip
    assert "note: the log is of the policy sjf; what is tuned" in call(capsys, *words)[1]
    assert json.loads(call(capsys, *words, "--json")[1])["left_out"] == list(told)
    assert read_windows(jobs, WindowSettings(jobs=10)).left_out == ()


def test_the_command_tells_and_goes_on(jobs, capsys):
    words = ("tune", jobs, "--window", 10, "--budget", 30, "--only", "margin,trial,margin", "--executor",
             "concurrent.futures.ThreadPoolExecutor", "--jobs", 1)  # fmt: skip
    code, said, err = call(capsys, *words)
    assert code == 0, err
    assert "keep what you have" in said or "use it with" in said
    assert max(map(len, said.splitlines())) <= 80
    kept = jobs.with_name("mine.yaml.tune").read_text()
    code, told, err = call(capsys, *words, "--json")
    assert code == 0, err
    assert jobs.with_name("mine.yaml.tune").read_text() == kept, "nothing is run twice"
    assert json.loads(told)["windows"] >= 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--window", 60), "give a longer log, or a smaller --window"),
        (("--window", 10, "--only", "colour"), "setting colour: there are"),
        (("--window", 10, "--set", "margin=a"), "--set margin=a: give a number"),
        (("--window", 10, "--set", "margin=nan"), "--set margin=nan: give a number"),
        (("--window", 10, "--only", "margin,trial", "--budget", 29), "--budget 29: nothing would be tried; here one"),
        (("--window", 10, "--state", __file__), "is not a file of finished runs"),
        (("--window", 10, "--executor", "makers.fails"), "--executor makers.fails: OSError: no cluster there"),
        (("--window", 10, "--executor", "broken.pool"), "--executor broken.pool: SyntaxError: "),
        (("--window", 10, "--tail", "p50"), "--tail p50: choose one of"),
        (("--window", 10, "--fairness", "gini"), "--fairness gini: choose one of"),
    ],
)
def test_mistakes_are_one_sentence(jobs, makers, capsys, words, sentence):
    code, _, err = call(capsys, "tune", jobs, *words)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err
