"""`headway learn beliefs`, and runs that begin with its file."""

from __future__ import annotations

import json

import pytest

from forked import call
from headway.record.lines import Head
from headway.record.log import read

JOBS = """
nodes: [{name: n, count: 2, cpu: 8, gpu: 4}]
simulate: {report: 10, speed: {profiles: built-in}}
jobs:
""" + "".join(
    f"- {{name: j{n}, submit: {200 * n}, seconds: 400, steps: 1000, model: bert, user: ann, "
    "roles: {worker: {replicas: 2, min: 1, max: 4, gpu: 1}}}\n"
    for n in range(8)
)  # fmt: skip


@pytest.fixture
def jobs(tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS)
    return path


def test_a_run_begins_with_what_an_earlier_one_taught(tmp_path, jobs, capsys):
    log, file, second = tmp_path / "a.log", tmp_path / "beliefs.json", tmp_path / "b.log"
    assert call(capsys, "simulate", jobs, "--estimates", "progress", "--log", log)[0] == 0
    code, out, err = call(capsys, "learn", "beliefs", log, "--out", file)
    assert code == 0, err
    assert "8 jobs that finished" in out
    assert max(map(len, out.splitlines()[1:])) <= 80
    made = json.loads(file.read_text())
    assert made["made_of"][0]["name"] == "a.log"
    assert made["scores"]["error of like jobs"] is not None
    words = ("simulate", jobs, "--estimates", "progress", "--beliefs", file, "--log", second)
    assert call(capsys, *words)[0] == 0
    head = next(line for line in read(second) if isinstance(line, Head))
    assert head.settings["beliefs"].startswith("beliefs.json ")
    assert call(capsys, "replay", second)[0] == 0, "a replay needs no beliefs"


def test_what_starts_and_stops_take_and_types_of_accelerators_are_told(tmp_path, jobs, capsys):
    log, file = tmp_path / "a.log", tmp_path / "beliefs.json"
    typed = JOBS.replace("gpu: 4}", "gpu: 4, accelerator: T4}").replace(
        "report: 10", "report: 10, start: 30s, save: 8s"
    )
    jobs.write_text(typed + "- {name: other, submit: 700, seconds: 90, gpu: 1, replicas: 2, model: bert}\n")
    assert call(capsys, "simulate", jobs, "--policy", "elastic", "--estimates", "progress", "--log", log)[0] == 0
    code, out, err = call(capsys, "learn", "beliefs", log, "--out", file)
    assert code == 0, err
    assert "  starts          take 30 s" in out
    assert "  by accelerator  t4: 1" in out
    assert max(map(len, out.splitlines()[1:])) <= 80
    told = json.loads(call(capsys, "learn", "beliefs", log, "--out", file, "--json")[1])
    assert told["starts"] == {"seconds": 30.0, "models": {"bert": 30.0}}
    assert told["stops"] == {"seconds": None, "models": {}}, "too few were seen"
    assert told["accelerators"] == {"t4": 1}
    kept = json.loads(file.read_text())
    assert set(kept["starts"]) == {"", "bert"}
    assert [one.get("accelerator") for one in kept["kinds"]] == [None, "t4"]


def test_a_file_of_an_earlier_version_is_read_and_written_anew(tmp_path, jobs, capsys):
    older, file = tmp_path / "older.json", tmp_path / "beliefs.json"
    unseen = [{"form": "gang", "coefficients": [1, 2, 3, 4, 5, 6], "spread": 0.4, "models": 11}]
    older.write_text(json.dumps({"format": "headway beliefs", "version": 1, "unseen": unseen}))
    assert call(capsys, "learn", "beliefs", jobs, "--from", older, "--out", file)[0] == 0
    assert "unseen" not in json.loads(file.read_text())


def test_beliefs_add_up_and_a_trace_teaches_training_times(tmp_path, jobs, capsys):
    file, more = tmp_path / "beliefs.json", tmp_path / "more.json"
    code, out, _ = call(capsys, "learn", "beliefs", jobs, "-o", file, "--json")
    assert code == 0
    assert json.loads(out)["scores"]["jobs"] == 8
    code, _, err = call(capsys, "learn", "beliefs", jobs, "--from", file, "-o", more)
    assert (code, "it has been learned from before; its jobs count twice now" in " ".join(err.split())) == (0, True)
    code, _, err = call(capsys, "learn", "beliefs", file, "-o", tmp_path / "other.json")
    assert (code, "is a file of beliefs; give it as --from" in " ".join(err.split())) == (2, True)
    every = json.loads(more.read_text())
    assert [one["name"] for one in every["made_of"]] == ["jobs.yaml", "jobs.yaml"]
    assert next(one for one in every["durations"] if one["kind"] == ["all"])["count"] == 16


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("simulate", "jobs.yaml", "--beliefs", "b.json"), "add --estimates progress"),
        (("simulate", "jobs.yaml", "--estimates", "progress", "--beliefs", "no.json"), "no.json: cannot be read"),
        (("simulate", "jobs.yaml", "--estimates", "progress", "--beliefs", "jobs.yaml"), "is not a file of beliefs"),
        (("learn", "beliefs", "no.log"), "no.log"),
        (("learn", "beliefs", "jobs.yaml", "-o", "nowhere/b.json"), "--out nowhere/b.json: cannot be written"),
    ],
)
def test_mistakes_are_told_in_one_sentence(jobs, monkeypatch, capsys, words, says):
    monkeypatch.chdir(jobs.parent)
    code, _, err = call(capsys, *words)
    assert code == 2
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [
        ("learn", "beliefs", "jobs.yaml", "-o", "./jobs.yaml"),
        ("learn", "leaderboard", "--trace", "jobs.yaml", "-o", "jobs.yaml"),
        ("learn", "train", "--trace", "jobs.yaml", "-o", "jobs.yaml"),
        ("learn", "train", "--trace", "jobs.yaml", "--state", "jobs.yaml"),
        ("tune", "jobs.yaml", "--state", "jobs.yaml"),
        ("simulate", "jobs.yaml", "--report", "jobs.yaml"),
        ("compare", "jobs.yaml", "--policies", "fifo", "--report", "jobs.yaml"),
    ],
    ids=" ".join,
)
def test_no_command_overwrites_what_it_reads(jobs, monkeypatch, capsys, words):
    monkeypatch.chdir(jobs.parent)
    code, _, err = call(capsys, *words)
    assert (code, "jobs.yaml: the command reads this file and would overwrite it" in err) == (2, True)
    assert jobs.read_text() == JOBS
