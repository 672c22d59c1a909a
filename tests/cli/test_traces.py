"""`headway traces` on a small folder: where files come from, what is there, exit codes, 80 columns."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from forked import call
from headway.cli.studies import traces
from headway.workload.origins.table import COLLECTIONS, origins

CONTENT = b"job_id,num_gpu,submit_time,iterations,model_name,duration\n0,1,0,1000,resnet50,5\n"
WHOLE = "tiresias/60_job.csv"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The files of two collections, all with one short content, and a clone that has those of one."""
    digest = sha256(CONTENT).hexdigest()
    table = tuple(
        replace(one, sha256=digest, jobs=1)
        for one in origins()
        if one.collection in ("tiresias", "sia")
    )  # fmt: skip
    monkeypatch.setattr(traces, "origins", lambda: table)
    monkeypatch.setattr(traces, "files_by_experiment", lambda: {"one": (WHOLE,), "both": tuple(o.file for o in table)})
    monkeypatch.delenv("HEADWAY_TRACES", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "clones/Tiresias/simulator").mkdir(parents=True)
    (tmp_path / "clones/Tiresias/simulator/60_job.csv").write_bytes(CONTENT)
    return tmp_path


def test_the_list_has_every_collection_and_fits(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, said, _ = call(capsys, "traces")
    assert code == 0
    for line in said.splitlines():
        assert len(line) <= 80, line
    for words in ("git", "none stated", "branch osdi21-artifact", "bench/exact.py", "deadline-peer", "81,102 jobs"):
        assert words in said
    told = json.loads(call(capsys, "traces", "--json")[1])
    assert [one["collection"] for one in told] == list(COLLECTIONS)
    files = [file for one in told for file in one["files"]]
    assert [file["file"] for file in files] == [one.file for one in origins()]
    assert all(one["repositories"] and all(each["licence"] for each in one["repositories"]) for one in told)
    users = {file["file"]: file["experiments"] for file in files}
    assert users["gavel/simulation_throughputs.json.gz"] == ["everything", "unlike"]
    assert {"native", "learning-curve"} <= set(users["elasticflow/itp_jobs_deadline.csv.gz"])


def test_a_folder_is_made_of_clones_and_what_is_not_there_is_told(small, capsys):
    code, said, _ = call(capsys, "traces", "convert", small / "clones", small / "out")
    assert code == 1
    assert "1 of 15 files, 1 of them made now" in said
    assert "  git clone --depth 1 https://github.com/siasosp23/artifacts\n" in said
    assert (small / "out" / WHOLE).read_bytes() == CONTENT
    told = json.loads(call(capsys, "traces", "convert", small / "clones", small / "out", "--json")[1])
    assert told["kept"] == [WHOLE]
    assert not told["made"]
    assert told["clone"] == ["git clone --depth 1 https://github.com/siasosp23/artifacts"]


def test_a_folder_is_checked_and_experiments_that_can_run_are_told(small, capsys, monkeypatch):
    monkeypatch.setenv("HEADWAY_TRACES", str(small / "out"))
    call(capsys, "traces", "convert", small / "clones")
    code, said, _ = call(capsys, "traces", "check")
    assert code == 1
    assert [line.split() for line in said.splitlines() if line.startswith((" sia", " one", " both", " tiresias"))] == [
        ["sia", "0", "of", "14", "14", "missing"],
        ["tiresias", "1", "of", "1", "1", "complete"],
        ["one", "yes"],
        ["both", "no:", "sia/workloads/philly/workload-1.csv", "and", "13", "more"],
    ]
    for one in traces.origins():
        (small / "out" / one.file).parent.mkdir(parents=True, exist_ok=True)
        (small / "out" / one.file).write_bytes(CONTENT)
    code, said, _ = call(capsys, "traces", "check", "--json")
    told = json.loads(said)
    assert code == 0
    assert told["experiments"] == {"one": True, "both": True}
    assert {one["state"] for one in told["files"]} == {"ok"}
    (small / "out" / WHOLE).write_bytes(CONTENT + b"1,1,0,1000,resnet50,5\n")
    code, said, _ = call(capsys, "traces", "check", small / "out")
    assert code == 1
    assert "not the content that was published, 2 jobs instead of 1" in " ".join(said.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("check",), "name a folder of traces, or set HEADWAY_TRACES to it"),
        (("check", "nowhere"), "nowhere: there is no such folder"),
        (("convert", "nowhere", "out"), "nowhere: there is no such folder; make it, and clone"),
        (("convert", "clones"), "name a folder of traces, or set HEADWAY_TRACES to it"),
    ],
)
def test_mistakes_are_sentences(small, capsys, monkeypatch, words, sentence):
    monkeypatch.chdir(small)
    code, _, said = call(capsys, "traces", *words)
    assert code == 2
    assert sentence in said
