"""Finished runs are kept: an experiment that was ended goes on where it was, and nothing else is taken for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import headway
from headway.compare import kept_runs as kept_module
from headway.compare.kept_runs import KeptRuns, content, source, source_of
from headway.experiment import perform as perform_module
from headway.experiment.case import RunSize
from headway.experiment.gather import result, run
from headway.experiment.perform import key_of, measure
from headway.experiment.registry import EXPERIMENTS

PACKAGE = Path(headway.__file__).parent
TINY = RunSize(8, (1,), quick=True)
COMBINED = EXPERIMENTS["combined"]
CELL = COMBINED.cells[0]


@pytest.fixture
def runs(monkeypatch):
    """The labels of policies that were really run."""
    done = []
    real = perform_module.perform

    def counted(case, entry, seed):
        done.append(entry.label)
        return real(case, entry, seed)

    monkeypatch.setattr(perform_module, "perform", counted)
    return done


def test_what_was_kept_is_not_run_again_and_tells_the_same(tmp_path, runs):
    store = KeptRuns(tmp_path)
    told = []
    first = run(COMBINED, [CELL], TINY, 1, told.append, store)
    labels = [entry.label for entry in COMBINED.entries]
    assert runs == labels
    assert told == pytest.approx([(n + 1) / len(labels) for n in range(len(labels))])
    again = run(COMBINED, [CELL], TINY, 1, told.append, store)
    assert runs == labels
    assert repr(result(COMBINED, again, TINY)) == repr(result(COMBINED, first, TINY))
    assert repr(run(COMBINED, [CELL], TINY, 1, told.append)[0].figures) == repr(again[0].figures)


def test_who_was_ended_in_the_middle_goes_on(tmp_path, runs):
    def ended(_):
        if len(runs) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(COMBINED, CELL, 1, TINY, KeptRuns(tmp_path), ended)
    measure(COMBINED, CELL, 1, TINY, KeptRuns(tmp_path))
    assert runs == [entry.label for entry in COMBINED.entries], "each once"


def test_fresh_starts_over_and_is_kept(tmp_path, runs):
    entries = len(COMBINED.entries)
    measure(COMBINED, CELL, 1, TINY, KeptRuns(tmp_path))
    measure(COMBINED, CELL, 1, TINY, KeptRuns(tmp_path, fresh=True))
    assert len(runs) == 2 * entries
    measure(COMBINED, CELL, 1, TINY, KeptRuns(tmp_path))
    assert len(runs) == 2 * entries


def test_half_a_file_is_none(tmp_path, runs):
    store = KeptRuns(tmp_path)
    measure(COMBINED, CELL, 1, TINY, store)
    files = sorted(tmp_path.rglob("*.json"))
    assert len(files) == len(COMBINED.entries)
    files[0].write_bytes(files[0].read_bytes()[:100])
    files[1].write_text("[]")
    measure(COMBINED, CELL, 1, TINY, store)
    assert len(runs) == len(COMBINED.entries) + 2


def test_a_folder_that_takes_nothing_ends_no_experiment(tmp_path, runs):
    (tmp_path / "file").write_text("")
    measure(COMBINED, CELL, 1, TINY, KeptRuns(tmp_path / "file"))
    assert len(runs) == len(COMBINED.entries)


def test_whatever_a_run_depends_on_is_in_its_name(monkeypatch, tmp_path):
    case, entry = COMBINED.make(CELL, 1, TINY), COMBINED.entries[0]
    of = ("combined", CELL, TINY)
    job = case.trace.jobs[0]
    longer = replace(case, trace=replace(case.trace, jobs=(replace(job, deadline=1e9), *case.trace.jobs[1:])))
    keys = [
        key_of(of, case, entry, 1), key_of(of, case, entry, 2), key_of(of, longer, entry, 1),
        key_of(of, replace(case, nodes=case.nodes[1:]), entry, 1), key_of(of, replace(case, estimates="x"), entry, 1),
        key_of(of, case, replace(entry, settings={"margin": 0.5}), 1),
        key_of(of, case, replace(entry, rigid=not entry.rigid), 1), key_of(("other", CELL, TINY), case, entry, 1),
        key_of(("combined", COMBINED.cells[1], TINY), case, entry, 1),
        key_of(("combined", CELL, replace(TINY, jobs=9)), case, entry, 1),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert key_of(("combined", CELL, replace(TINY, seeds=(1, 2))), case, entry, 1) == keys[0]
    assert content(COMBINED.make(CELL, 1, TINY)) == content(case)
    monkeypatch.setattr(kept_module, "source", lambda: "another source, other code")
    KeptRuns(tmp_path).put("key", perform_module.perform(case, entry, 1))
    monkeypatch.undo()
    assert KeptRuns(tmp_path).get("key") is None


@pytest.mark.parametrize(
    "part",
    ["beliefs/file.py", "compare/perform.py", "workload/trace.py", "jobspec.py", "restarts.py", "policies/fifo.py",
     "experiment/learning/plan.json", "new/new.py"],
)  # fmt: skip
def test_a_change_anywhere_in_headway_makes_all_runs_again(part, tmp_path):
    package = shutil.copytree(PACKAGE, tmp_path / "headway", ignore=shutil.ignore_patterns("__pycache__", "go"))
    before = source_of(package)
    (package / "core/__pycache__").mkdir()
    (package / "core/__pycache__/job.pyc").write_text("")
    assert source_of(package) == before
    (package / part).parent.mkdir(exist_ok=True)
    with (package / part).open("a") as file:
        file.write("\n")
    assert source_of(package) != before


def test_the_digest_is_of_the_package_that_runs():
    assert source() == source_of(PACKAGE)


def test_the_folder_is_the_users_and_forgets_what_is_old(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, days in (("old", 60), ("young", 3)):
        (tmp_path / "headway/experiments" / name).mkdir(parents=True)
        then = time.time() - days * 86_400
        os.utime(tmp_path / "headway/experiments" / name, (then, then))
    assert KeptRuns.of_user(fresh=True) == KeptRuns(tmp_path / "headway/experiments", fresh=True)
    assert sorted(path.name for path in (tmp_path / "headway/experiments").iterdir()) == sorted(
        ["young", source()[:16]]
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_was_finished_before_ctrl_c_is_kept(tmp_path, jobs):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "headway", "experiment", "combined", "--quick", "--jobs", jobs, "--json"]
    begun = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True, start_new_session=True
    )
    until = time.monotonic() + 60
    while not (files := list(tmp_path.rglob("*.json"))) and time.monotonic() < until and begun.poll() is None:
        time.sleep(0.02)
    os.killpg(begun.pid, signal.SIGINT)
    said = begun.communicate(timeout=60)[1]
    assert files
    assert begun.returncode != 0
    assert "continues from there" in said
    assert "Traceback" not in said
    store = KeptRuns(tmp_path / "headway/experiments")
    assert all(store.get(file.stem) is not None for file in files)
