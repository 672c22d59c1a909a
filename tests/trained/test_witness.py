"""A trained policy that never decided in a run: simulate and compare say so, with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from networks import a_network

from forked import call
from headway.compare.perform import Task, simulate
from headway.compare.side_by_side import compare_policies, simulate_policy
from headway.compare.trained_coverage import TrainedCoverage, kept_out
from headway.core.snapshot import TrainedMode
from headway.policies.headway import Headway
from headway.policies.learned import Learned
from headway.policies.wrappers.around import Wrappers
from headway.policies.wrappers.quota import Queue
from headway.trained.file import TrainedPolicy, write_trained
from learn_tasks import fixed
from make import a_job, a_snapshot, some_nodes

JOBS = """
nodes: [{name: n, count: 2, gpu: 4}]
jobs:
""" + "".join(f"  - {{name: j{i}, gpu: 1, replicas: {1 + i % 4}, seconds: {20 + 7 * i % 90}}}\n" for i in range(12))
NO_WEIGHTS = "it has no weights"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A jobs file, and trained policies: one decides, one was trained on an idle cluster, one has no weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    (tmp_path / "jobs.yaml").write_text(JOBS)
    for name, network in {"good": a_network(), "idle": a_network(high=0.0), "empty": a_network(0.0)}.items():
        write_trained(tmp_path / f"{name}.npz", TrainedPolicy(network))


def _simulate(capsys, file, *more):
    code, out, _ = call(capsys, "simulate", "jobs.yaml", "--policy", "learned", "--set", f"file={file}", *more)
    assert code == 0
    return out


def test_simulate_says_at_its_end_that_it_never_decided_and_why(files, capsys):
    last = _simulate(capsys, "empty.npz").splitlines()[-1]
    assert last.startswith("note: learned: the trained policy never decided, headway did in ")
    assert f" cases: {NO_WEIGHTS}" in last
    told = json.loads(_simulate(capsys, "empty.npz", "--json"))["trained"]
    assert told["asked"] > told["decided"] == 0
    assert told["why"].startswith(NO_WEIGHTS)


@pytest.mark.parametrize("file", ["good.npz", "idle.npz"])
def test_where_it_decided_nothing_is_said(files, capsys, file):
    assert "never decided" not in _simulate(capsys, file)
    told = json.loads(_simulate(capsys, file, "--json"))["trained"]
    assert 0 < told["decided"] <= told["asked"]
    assert told["why"] == ""
    code, out, _ = call(capsys, "simulate", "jobs.yaml", "--json")
    assert (code, "trained" in json.loads(out)) == (0, False), "another policy is not trained"


@pytest.mark.parametrize("seeds", ["1", "1,2"])
def test_compare_says_it_too(files, capsys, seeds):
    words = (
        "compare",
        "jobs.yaml",
        "--policies",
        "headway,learned",
        "--set",
        "learned.file=empty.npz",
        "--seeds",
        seeds,
    )
    code, out, _ = call(capsys, *words, "-j", 1, "--report", "report.html")
    assert code == 0
    line = next(line for line in out.splitlines() if "never decided" in line)
    assert line.strip().startswith("note: learned: the trained policy never decided, headway did in ")
    assert "the trained policy never decided" in Path("report.html").read_text()
    plain, trained = json.loads(call(capsys, *words, "-j", 1, "--json")[1])["results"]
    assert "trained" not in plain
    assert trained["trained"]["decided"] == 0
    assert trained["trained"]["why"].startswith(NO_WEIGHTS)


def test_one_seed_of_several():
    network = a_network(high=1.0)
    found = compare_policies(fixed(4, 12), {"mine": Learned(network=network)}, seeds=(0, 1), bounds=False)
    assert found.rows[0]["trained"]["decided"] > 0
    assert found.kept_out == ""
    told = [run.result["trained"] for run in found.runs["mine"]]
    told[1] |= {"decided": 0, "why": "of a reason"}
    asked = told[1]["asked"]
    assert kept_out("mine", told) == (
        f"mine: with 1 of 2 seeds the trained policy never decided, headway did in {asked} of {asked} cases: "
        "of a reason"
    )


@pytest.mark.parametrize(
    "wrappers", [Wrappers(round=600.0), Wrappers((Queue(name=""),)), Wrappers((Queue(name=""),), 60.0)]
)
def test_it_looks_behind_queues_and_rounds_and_changes_nothing(wrappers, tmp_path):
    case, logs = fixed(4, 12), []
    for name, network in {"one": a_network(), "none": a_network(0.0)}.items():
        told = simulate_policy(case, wrappers.around(Learned(network=network)))["trained"]
        assert (told["decided"] > 0) is (name == "one")
    for policy in (Learned(network=a_network(0.0)), Headway()):
        log = tmp_path / "a.log"
        simulate(case, Task(policy="x", make=lambda policy=policy: wrappers.around(policy)), log=log)
        logs.append(log.read_bytes())
        log.unlink()
    assert logs[0] == logs[1]


def test_a_run_that_was_continued_says_nothing_of_it(tmp_path):
    """Its recorded plans were not made again, so nobody knows who made them."""
    log, task = tmp_path / "a.log", Task(policy="learned", make=lambda: Learned(network=a_network(0.0)))
    assert simulate(fixed(4, 12), task, log=log).result()["trained"]["decided"] == 0
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert "trained" not in simulate(fixed(4, 12), task, log=log).result()


def test_the_reason_is_the_one_that_held_most_often():

    snapshot = a_snapshot(a_job("w", gpus=2), nodes=some_nodes(2, gpus=4))
    witness = TrainedCoverage(Learned(network=a_network()))
    for standing in [TrainedMode("shadow", "too few jobs"), *[TrainedMode("off", "it was found to be worse")] * 2]:
        witness(snapshot.standing_as(standing))
    assert witness.told() == {"asked": 3, "decided": 0, "why": "it is off: it was found to be worse (2 cases)"}
    idle = a_snapshot(nodes=some_nodes(2, gpus=4))
    for _ in range(9):
        witness(idle)
    assert witness.told() == {"asked": 12, "decided": 0, "why": "it is off: it was found to be worse (2 cases)"}
    witness(snapshot.standing_as(TrainedMode("on", "")))
    assert witness.told() == {"asked": 13, "decided": 1, "why": ""}
