from __future__ import annotations

import json
import sys

import pytest

from forked import headway
from headway.cli import main
from headway.core.policy import explain_with
from headway.cycle.explained import sentences
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
    return headway(*words, folder=folder)


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
    assert "user 0.300 + job 0.150 + wait 0.000" in sentences(rank)[0][1]


def test_whether_it_will_be_in_time_is_told_and_what_would_help():
    late = a_job("late", 4, seconds=100.0, deadline=50.0)
    rank = explain_with(Deadline(restart=0.0), a_snapshot(late, nodes=some_nodes(1, gpus=4)), 0)
    assert rank["in_time"]["verdict"] == "no"
    assert any("50 seconds later" in line for _, line in sentences(rank))
    assert any(line.endswith("Earliest 100 o'clock.") for _, line in sentences(rank, "{:.0f} o'clock".format))
    unknown = explain_with(Deadline(), a_snapshot(a_job("a", deadline=50.0), left={}), 0)
    assert not any("o'clock" in line for _, line in sentences(unknown, "{:.0f} o'clock".format))
    assert unknown["in_time"]["verdict"] == "unknown"
    assert json.dumps(unknown, allow_nan=False)


def test_a_job_in_time_is_told_with_the_time_of_day_where_there_is_a_clock():
    """With the give of its end, where that is a second or more."""
    told = {"in_time": {"verdict": "yes", "sentence": "In time with 4 replicas.", "done_at": 60.0, "give": 360.0}}
    assert sentences(told) == [("in time", "yes: In time with 4 replicas.")]
    assert sentences(told, lambda _: "14:20") == [("in time", "yes: In time with 4 replicas. Ends 14:20 ± 6 min.")]
    told["in_time"] |= {"give": 0.2}
    assert sentences(told, lambda _: "14:20")[0][1].endswith("Ends 14:20.")
    told["in_time"] |= {"done_at": None}
    assert sentences(told, lambda _: "14:20") == sentences(told)


def test_why_a_job_keeps_its_size_is_told():
    rank = explain_with(Elastic(), a_snapshot(running(a_job("a", 2, min=1, max=4), [0, 0]), left={}), 0)
    assert sentences(rank) == [("size", "It keeps its size: how long it has left is unknown.")]
    known = a_snapshot(running(a_job("a", 2, min=1, max=4), [0, 0]), left={"a": 60.0})
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
    printed = sentences(explain_with(Headway(), a_snapshot(a_job("a", seconds=60.0)), 0))
    assert printed[0][1].startswith("60 s of training left")
    assert printed[1] == ("order", "No job comes before it.")


def test_a_job_that_is_over_has_its_note_and_a_dead_headway_is_told(tmp_path):
    (tmp_path / "jobs.yaml").write_text(
        "nodes: [{name: only, cpu: 1}]\njobs:\n  - {name: bad, cpu: 1, command: [sh, -c, 'exit 3']}\n"
    )
    assert _headway(tmp_path, "run", "jobs.yaml", "--policy", "first-fit").returncode == 1
    told = _headway(tmp_path, "why", "bad").stdout
    assert "It failed." in told
    assert "exit code 3; its output is in" in told
    assert "does not run now" not in told, "the run was finished"
    log = tmp_path / ".headway/jobs/run.log"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if '"line":"end"' not in line))
    assert "does not run now" in _headway(tmp_path, "why", "bad").stdout


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """The command line in this process and in the test's folder: what it prints. It must not fail."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["headway", *words])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return call


DUE = """
nodes: [{name: only, cpu: 1}]
jobs:
  - {name: first, cpu: 1, seconds: 50, deadline: 40}
  - {name: second, cpu: 1, seconds: 50, submit: 1s, deadline: 90}
  - {name: third, cpu: 1, seconds: 50, submit: 1s, deadline: 900}
"""


def _cut(folder, moment):
    """The log up to and with the cycle at that moment, as if Headway had been killed then."""
    lines = (folder / "run.log").read_text().splitlines(keepends=True)
    at = max(number for number, line in enumerate(lines) if f'"now":{moment}' in line)
    (folder / "run.log").write_text("".join(lines[: at + 1]))


def test_a_deadline_that_cannot_be_met_is_told_for_waiting_and_running_jobs(tmp_path, here):
    (tmp_path / "jobs.yaml").write_text(DUE)
    here("simulate", "jobs.yaml", "--policy", "fifo", "--log", "run.log")
    whole = (tmp_path / "run.log").read_text()
    _cut(tmp_path, "1.0")
    told = here("why", "first", "--log", "run.log")
    assert "deadline  it is due in 39 s and has about 49 s of training left: it will be late" in told
    assert "  deadline" not in here("why", "second", "--log", "run.log")
    assert "  deadline" not in here("why", "third", "--log", "run.log")
    (tmp_path / "run.log").write_text(whole)
    _cut(tmp_path, "50.0")
    told = json.loads(here("why", "second", "--log", "run.log", "--json"))
    assert told["late"] == "it is due in 41 s and has about 50 s of training left: it will be late by about 9 s"


def test_a_deadline_that_passed_while_headway_is_dead_is_told(tmp_path, here):
    (tmp_path / "jobs.yaml").write_text(
        "nodes: [{name: only, cpu: 1}]\njobs:\n  - {name: a, cpu: 1, deadline: 50, command: [sleep, '0.1']}\n"
    )
    here("run", "jobs.yaml", "--policy", "first-fit")
    log = tmp_path / ".headway/jobs/run.log"
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    first = next(number for number, line in enumerate(kept) if line["line"] == "cycle")
    kept[0]["began"] -= 3600.0
    log.write_text("".join(json.dumps(line) + "\n" for line in kept[: first + 1]))
    told = here("why", "a")
    assert "does not run now" in told
    assert "deadline  it was due 59 min ago: it is late" in told


BROKEN = """
from headway.policies.baselines.fifo import first_fit


class Broken:
    def __call__(self, snapshot):
        if snapshot.now >= {fails}:
            raise RuntimeError("no plan")
        return first_fit(snapshot)

    def explain(self, snapshot, row):
        {explain}
"""


def test_a_policy_that_cannot_explain_does_not_end_why(tmp_path, here):
    (tmp_path / "jobs.yaml").write_text(FILE)
    for explain, sentence in (
        ("return {}[row]", "explain fails: mine.py, line 12: KeyError: 2"),
        ("return 7", "explain fails: it returned int, not a mapping of topics"),
        ("return {'size': 7, 'rest': {'x': 1}}", "size      7"),
    ):
        (tmp_path / "mine.py").write_text(BROKEN.format(fails=1e9, explain=explain))
        here("simulate", "jobs.yaml", "--policy", "mine.py:Broken", "--log", "run.log")
        for words in ((), ("--json",)):
            told = here("why", "giant", "--log", "run.log", *words)
            assert "4 cpu" in told
            assert sentence in told or words
        (tmp_path / "run.log").unlink()


def test_a_policy_that_fails_or_is_gone_does_not_end_why(tmp_path, here):
    (tmp_path / "jobs.yaml").write_text(FILE)
    (tmp_path / "mine.py").write_text(BROKEN.format(fails=1e9, explain="return {}"))
    here("simulate", "jobs.yaml", "--policy", "mine.py:Broken", "--log", "run.log")
    (tmp_path / "mine.py").write_text(BROKEN.format(fails=0, explain="return {}"))
    told = here("why", "giant", "--log", "run.log")
    assert "4 cpu" in told
    assert "  policy    it fails: mine.py, line 8: RuntimeError: no plan; the reason is first-fit's" in told
    (tmp_path / "mine.py").unlink()
    told = here("why", "giant", "--log", "run.log")
    assert "4 cpu" in told
    assert "there is no file mine.py; the reason is first-fit's" in told
