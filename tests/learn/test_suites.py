"""Task suites stay as they are, their parts share no job, and a leaderboard is made by one command."""

from __future__ import annotations

import json

import pytest

from forked import call
from headway.core.errors import UserError
from headway.learn.leaderboard import LOWER, ranked, score_agent, score_policies
from headway.learn.suites import PARTS, SUITES, suite_named
from headway.learn.trace_suites import trace_suite
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.write import write_workload
from learn_tasks import fixed, small

FROZEN = {"fixed-v1": "b2ab2182b98348e8", "bursty-v1": "4b79bd3447b3fe28", "elastic-v1": "6541d348b07e5b1b",
          "overbooked-v1": "35505336c19df6f8"}  # fmt: skip
"""Of the validation parts. Another digest means other tasks: give the suite another name."""


def test_suites_are_frozen():
    assert {name: suite.digest("validation") for name, suite in SUITES.items()} == FROZEN


def test_parts_of_a_suite_share_no_task():
    for suite in SUITES.values():
        assert tuple(suite.sizes) == PARTS
        cases = [suite.scenario(part, number) for part in PARTS for number in (0, suite.sizes[part] - 1)]
        assert len({case.trace.name for case in cases}) == len(cases)
        with pytest.raises(UserError, match="tasks, from 0"):
            suite.scenario("test", suite.sizes["test"])
    with pytest.raises(UserError, match="there is no such suite"):
        suite_named("fixed-v0")


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "mine.yaml"
    settings = Settings(jobs=260, load=2.0, mean_seconds=300.0, spread=0.4, seed=3)
    write_workload(generate(settings, list(open_cluster("4x4"))), path)
    return path


def test_windows_of_a_trace_follow_each_other_and_declare_nothing(trace):
    suite = trace_suite(trace, jobs=10)
    seen = {}
    for part in PARTS:
        cases = [suite.scenario(part, number) for number in range(suite.sizes[part])]
        seen[part] = {job.id for case in cases for job in case.trace.jobs}
        assert all(job.seconds is None for case in cases for job in case.trace.jobs), "in a trace that is the truth"
        assert all(case.trace.jobs[0].submit == 0.0 for case in cases)
    assert not seen["train"] & seen["validation"]
    assert not seen["validation"] & seen["test"]
    assert max(seen["train"]) < min(seen["validation"])
    assert sum(map(len, seen.values())) < 260, "jobs between the parts are left out"
    with pytest.raises(UserError, match="ask for fewer"):
        trace_suite(trace, jobs=90)


def test_a_leaderboard_tells_the_share_of_the_gap():
    suite = small(lambda number: fixed(number, 24))
    lines = score_policies(suite, "validation", ["fifo", "sjf"], 1, lambda *_: None)
    lines.append(score_agent("headway/Order-v0", suite, "validation", "mine", _first_legal))
    board = ranked(suite, "validation", lines)
    scores = {(score["policy"], score["estimates"]): score for score in board["scores"]}
    assert scores[LOWER, "progress"]["gap_closed"] == 0.0
    assert max(score["gap_closed"] for score in board["scores"]) <= 100.0
    assert scores["fifo", "progress"]["gap_closed"] < scores["sjf", "progress"]["gap_closed"]
    assert scores["mine", "progress"]["tasks"] == scores[LOWER, "progress"]["tasks"], "it does what first-fit does"
    values = [score["gap_closed"] for score in board["scores"]]
    assert values == sorted(values, reverse=True)


def _first_legal(seen):
    return int(seen["action_mask"].argmax())


def test_one_command_makes_the_file(trace, tmp_path, capsys):
    out, mine = tmp_path / "board.json", tmp_path / "mine.py"
    mine.write_text("def agent(seen):\n    return int(seen['action_mask'].argmax())\n")
    words = ("learn", "leaderboard", "--trace", trace, "--window", 10, "--policies", "sjf", "--jobs", 1, "--out", out)
    code, said, err = call(capsys, *words, "--agent", f"{mine}:agent")
    assert code == 0, err
    assert "gap closed" in said
    assert max(map(len, said.splitlines()[:-1])) <= 80
    board = json.loads(out.read_text())
    assert {score["policy"] for score in board["scores"]} >= {"sjf", "first-fit", f"{mine}:agent"}
    code, _, err = call(capsys, *words, "--part", "all")
    assert (code, "choose one of" in err) == (2, True)
    code, _, err = call(capsys, *words, "--agent", f"{mine}:nobody")
    assert (code, "no function nobody" in err) == (2, True)


@pytest.mark.parametrize(
    ("agent", "more", "says"),
    [
        ("fails", (), "mine.py, line 2: ValueError: no idea"),
        ("far", (), "action 99999: there are the actions 0 to 128"),
        ("first", ("--env", "CartPole-v1"), "--env CartPole-v1: choose one of headway/Order-v0"),
    ],
)
def test_what_an_agent_does_wrong_is_one_sentence(trace, tmp_path, capsys, agent, more, says):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "def fails(seen):\n    raise ValueError('no idea')\ndef far(seen):\n    return 99999\n"
        "def first(seen):\n    return int(seen['action_mask'].argmax())\n"
    )
    words = ("learn", "leaderboard", "--trace", trace, "--window", 10, "--policies", "sjf", "--jobs", 1)
    code, _, err = call(capsys, *words, "--out", tmp_path / "b.json", "--agent", f"{mine}:{agent}", *more)
    assert (code, says in " ".join(err.split())) == (2, True), err
    assert "Traceback" not in err
