from __future__ import annotations

import json
import subprocess
import sys

from headway.cli.why import lines
from headway.core.policy import explain_with
from headway.policies.baselines.fifo import first_fit
from headway.policies.combined_priority import CombinedPriority
from headway.policies.deadline import Deadline
from headway.policies.elastic import Elastic
from headway.policies.headway import Headway
from headway.policies.wrappers.queues import with_queues
from headway.policies.wrappers.quota import Queue
from headway.policies.wrappers.rounds import in_rounds
from make import a_job, a_snapshot, running, some_nodes

FILE = """
nodes: [{name: only, cpu: 1}]
jobs:
  - {name: first, cpu: 800m, seconds: 50}
  - {name: second, cpu: 500m, seconds: 50}
  - {name: giant, cpu: 4, seconds: 50, submit: 10s}
"""


def _headway(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "headway", *words], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )


def test_a_waiting_job_is_explained_from_the_log(tmp_path):
    (tmp_path / "jobs.yaml").write_text(FILE)
    assert _headway(tmp_path, "simulate", "jobs.yaml", "--policy", "first-fit", "--log", "run.log").returncode in (0, 1)
    lines = (tmp_path / "run.log").read_text().splitlines(keepends=True)
    at_ten = next(number for number, line in enumerate(lines) if '"now":10.0' in line)
    (tmp_path / "run.log").write_text("".join(lines[: at_ten + 1]))
    told = json.loads(_headway(tmp_path, "why", "second", "--log", "run.log", "--json").stdout)
    assert (told["code"], told["need"], told["have"], told["gap"]) == ("not_enough_free", 500, 200, 300)
    assert told["blocked_by"] == ["first"]
    told = _headway(tmp_path, "why", "giant", "--log", "run.log")
    assert "larger_than_any_node" in told.stdout
    assert "4 cpu" in told.stdout
    assert "ask for at most 1 cpu" in told.stdout


def test_who_is_not_there_is_told(tmp_path):
    (tmp_path / "jobs.yaml").write_text(FILE)
    _headway(tmp_path, "simulate", "jobs.yaml", "--policy", "first-fit", "--log", "run.log")
    told = _headway(tmp_path, "why", "nobody", "--log", "run.log")
    assert told.returncode == 2
    assert "first" in told.stderr
    assert _headway(tmp_path, "why", "nobody").returncode == 2


def test_the_score_is_told_with_its_parts():
    policy = with_queues(CombinedPriority(user_priority=(("ann", 10.0),)), [Queue(name="a")])
    rank = explain_with(policy, a_snapshot(a_job("a", user="ann", priority=5), now=0.0), 0)
    assert rank["score"]["user"] == 0.3
    assert rank["score"]["total"] == sum(part for name, part in rank["score"].items() if name != "total")
    assert "user 0.300 + job 0.150 + wait 0.000" in lines(rank)[0]


def test_whether_it_will_be_in_time_is_told_and_what_would_help():
    late = a_job("late", 4, seconds=100.0, deadline=50.0)
    rank = explain_with(Deadline(restart=0.0), a_snapshot(late, nodes=some_nodes(1, gpus=4)), 0)
    assert rank["in_time"]["verdict"] == "no"
    assert any("50 seconds later" in line for line in lines(rank))
    unknown = explain_with(Deadline(), a_snapshot(a_job("a", deadline=50.0), left={}), 0)
    assert unknown["in_time"]["verdict"] == "unknown"
    assert json.dumps(unknown, allow_nan=False)


def test_why_a_job_keeps_its_size_is_told():
    rank = explain_with(Elastic(), a_snapshot(running(a_job("a", 2, least=1, most=4), [0, 0]), left={}), 0)
    assert lines(rank) == ["  size      It keeps its size: how long it has left is unknown."]
    known = a_snapshot(running(a_job("a", 2, least=1, most=4), [0, 0]), left={"a": 60.0})
    assert explain_with(Elastic(), known, 0) == {}


def test_policies_without_a_rank_and_running_jobs_have_nothing_to_tell():
    assert explain_with(first_fit, a_snapshot(a_job("a")), 0) == {}
    assert explain_with(CombinedPriority(), a_snapshot(running(a_job("a"), [0])), 0) == {}


def test_wrappers_explain_what_the_policy_explains():
    snapshot = a_snapshot(a_job("a", user="ann"))
    policy = CombinedPriority(user_priority=(("ann", 10.0),))
    assert explain_with(in_rounds(with_queues(policy, [Queue(name="a")]), 60.0), snapshot, 0) == policy.explain(
        snapshot, 0
    )
    assert explain_with(in_rounds(first_fit, 60.0), snapshot, 0) == {}


def test_what_the_default_policy_explains_is_printed():
    printed = lines(explain_with(Headway(), a_snapshot(a_job("a", seconds=60.0)), 0))
    assert printed[0].startswith("  expected  60 s of training left")
    assert printed[1] == "  order     0 of 1 jobs come before it."


def test_a_job_that_is_over_has_its_note_and_a_dead_headway_is_told(tmp_path):
    (tmp_path / "jobs.yaml").write_text(
        "nodes: [{name: only, cpu: 1}]\njobs:\n  - {name: bad, cpu: 1, command: [sh, -c, 'exit 3']}\n"
    )
    assert _headway(tmp_path, "run", "jobs.yaml", "--policy", "first-fit").returncode == 1
    told = _headway(tmp_path, "why", "bad").stdout
    assert "It is failed." in told
    assert "exit code 3; its output is in" in told
    assert "does not run now" not in told, "the run was finished"
    log = tmp_path / ".headway/jobs/run.log"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if '"line":"end"' not in line))
    assert "does not run now" in _headway(tmp_path, "why", "bad").stdout
