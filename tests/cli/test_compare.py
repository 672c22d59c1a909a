"""`headway compare` and `simulate` through the command line: results, stable names, and mistakes in one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.cli import main

JOBS = """
nodes:
  - {name: n, count: 2, gpu: 4}
jobs:
""" + "".join(
    f"  - {{name: j{i}, gpu: 1, replicas: {1 + i % 4}, min: 1, max: 4, seconds: {20 + 7 * i % 90}, submit: {3 * i}, "
    f"user: u{i % 3}, deadline: 10m}}\n"
    for i in range(24)
)
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS)
    return path


@pytest.fixture
def headway(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The real `main`, in this process: exit code, output, errors."""

    def call(*words: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headway", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_json_has_the_stable_names(headway: Command, jobs: Path) -> None:
    code, out, _ = headway("compare", jobs, "--policies", "fifo,srtf,las", "--json", "-j", 1)
    assert code == 0
    told = json.loads(out)
    assert [row["policy"] for row in told["results"]] == ["fifo", "srtf", "las"]
    for row in told["results"]:
        assert set(row["jct"]) == {"mean", "p50", "p95", "p99"}
        assert row["jobs"] == row["finished"] == 24
        assert row["deadlines"]["total"] == 24
        assert row["ratio"]["area"] >= 1.0
        assert row["ratio"]["clairvoyant"] > 0
        assert row["ci"]["jct"][0] <= row["jct"]["mean"] <= row["ci"]["jct"][1]
        assert {"wait", "makespan", "utilisation", "slowdown", "fairness", "stalled", "users", "worse"} <= set(row)
    assert told["results"][0]["ratio"]["baseline"] == 1.0
    assert told["results"][0]["worse"]["share"] == 0.0
    assert told["bounds"]["clairvoyant"]["policy"] in ("srtf", "srsf")


def test_processes_change_nothing(headway: Command, jobs: Path) -> None:
    words = ("compare", jobs, "--policies", "fifo,srtf", "--seeds", "3,4", "--json")
    assert headway(*words, "-j", 1)[1] == headway(*words, "-j", 2)[1]


def test_simulate_and_compare_agree(headway: Command, jobs: Path) -> None:
    one = json.loads(headway("simulate", jobs, "--policy", "las", "--json")[1])
    other = json.loads(headway("compare", jobs, "--policies", "las", "--json", "-j", 1)[1])["results"][0]
    assert {name: other[name] for name in one} == one


def test_seeds_are_used(headway: Command, tmp_path: Path) -> None:
    """Jobs of one moment come in another order: fifo's mean changes, and the intervals are over seeds."""
    lines = [f"j{i},{0},{10 + 50 * (i % 2)},1" for i in range(12)]
    trace = tmp_path / "t.csv"
    trace.write_text("\n".join(["name,submit,seconds,gpu", *lines]) + "\n")
    told = json.loads(
        headway("compare", trace, "--policies", "fifo", "--cluster", "1x1", "--seeds", 4, "--json", "-j", 1)[1]
    )
    row = told["results"][0]
    assert [seed["seed"] for seed in row["seeds"]] == [0, 1, 2, 3]
    assert len({seed["jct"]["mean"] for seed in row["seeds"]}) > 1
    assert row["ci"]["over"] == "seeds"
    again = [json.loads(headway("simulate", trace, "--cluster", "1x1", "--policy", "fifo", "--seed", 2, "--json")[1])
             for _ in range(2)]  # fmt: skip
    assert again[0] == again[1]
    assert again[0]["jct"]["mean"] == row["seeds"][2]["jct"]["mean"]


def test_settings_reach_their_policy_only(headway: Command, jobs: Path) -> None:
    plain = json.loads(headway("compare", jobs, "--policies", "fifo,las", "--json", "-j", 1, "--no-bounds")[1])
    other = json.loads(headway("compare", jobs, "--policies", "fifo,las", "--json", "-j", 1, "--no-bounds",
                               "--set", "las.threshold=5")[1])  # fmt: skip
    assert plain["results"][0] == other["results"][0]
    assert plain["results"][1]["decisions"] != other["results"][1]["decisions"]
    assert plain["bounds"] == {"clairvoyant": None, "area": None}


def test_another_baseline(headway: Command, jobs: Path) -> None:
    told = json.loads(headway("compare", jobs, "--policies", "fifo,srtf", "--baseline", "srtf", "--json", "-j", 1)[1])
    assert told["baseline"] == "srtf"
    assert told["results"][1]["ratio"]["baseline"] == 1.0
    assert told["results"][0]["ratio"]["baseline"] > 1.0


def test_the_tables_fit_a_terminal(headway: Command, jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = headway("compare", jobs, "--policies", "fifo,srtf", "-j", 1)
    assert (code, err) == (0, "")
    assert "of clairvoyant" in out
    assert "area bound" in out
    assert "…" not in out


def test_own_policy_in_a_file(headway: Command, jobs: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from headway.policies.baselines.fifo import first_fit\n\n\n"
        "def mine(snapshot):\n    return first_fit(snapshot)\n"
    )
    told = json.loads(headway("compare", jobs, "--policies", f"first-fit,{own}:mine", "--json", "-j", 1)[1])
    assert told["results"][0]["jct"] == told["results"][1]["jct"]


MISTAKES = [
    (("compare", "{jobs}", "--policies", "nonsense"), "--policy nonsense: there is no such policy"),
    (("compare", "{jobs}", "--policies", ","), "--policies: name at least one"),
    (("compare", "{jobs}", "--policies", "fifo,fifo"), "fifo is named twice"),
    (("compare", "{jobs}", "--policies", "fifo", "--set", "las.queues=2"), "write policy.name=value"),
    (("compare", "{jobs}", "--policies", "adaptive", "--set", "adaptive.nonsense=2"), "has these settings: cool_down"),
    (("compare", "{jobs}", "--policies", "adaptive", "--set", "adaptive.cool_down=soon"), "--set cool_down=soon"),
    (("compare", "{jobs}", "--policies", "fifo", "--seeds", "many"), "--seeds many"),
    (("compare", "{jobs}", "--policies", "fifo", "--seeds", "0"), "--seeds 0"),
    (("compare", "{jobs}", "--policies", "fifo", "--baseline", "las"), "--baseline las"),
    (("compare", "{jobs}", "--policies", "fifo", "--cluster", "many"), "--cluster many"),
    (("compare", "{jobs}", "--policies", "fifo", "--estimates", "magic"), "--estimates magic"),
    (("compare", "{jobs}", "--policies", "fifo", "--format", "nonsense"), "--format nonsense"),
    (("compare", "{jobs}", "--policies", "fifo", "--report", "{tmp}/no/where.html"), "cannot be written"),
    (("compare", "{tmp}/absent.csv", "--policies", "fifo"), "absent.csv"),
    (("compare", "{empty}", "--policies", "fifo", "--cluster", "1x1"), "empty.csv"),
    (("compare", "{jobless}", "--policies", "fifo", "--cluster", "1x1"), "jobless.csv"),
    (("compare", "{nodeless}", "--policies", "fifo"), "give --cluster"),
    (("compare", "{jobs}", "--policies", "{tmp}/absent.py:mine"), "there is no file"),
    (("simulate", "{jobs}", "--policy", "nonsense"), "--policy nonsense"),
    (("simulate", "{jobs}", "--set", "nonsense=1"), "--set nonsense=1"),
    (("simulate", "{jobs}", "--cluster", "0x4"), "--cluster 0x4"),
    (("simulate", "{jobs}", "--estimates", "magic"), "--estimates magic"),
    (("simulate", "{tmp}/absent.yaml"), "absent.yaml"),
    (("simulate", "{nodeless}"), "give --cluster"),
]


@pytest.mark.parametrize(("words", "sentence"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_mistake_is_one_sentence(
    headway: Command, jobs: Path, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    files = {"jobs": jobs, "tmp": tmp_path}
    for name, text in (("empty", ""), ("jobless", "name,submit,seconds,gpu\n"),
                       ("nodeless", "name,submit,seconds,gpu\na,0,5,1\n")):  # fmt: skip
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text(text)
    code, out, err = headway(*[word.format(**files) for word in words])
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.startswith("headway: ")
    assert err.count("\n") == 1


def test_a_mistake_inside_a_worker_is_one_sentence_too(headway: Command, tmp_path: Path) -> None:
    trace = tmp_path / "t.yaml"
    trace.write_text("nodes: [{gpu: 1}]\njobs: [{name: a, gpu: 1}, {name: b, gpu: 1}]\n")
    code, _, err = headway("compare", trace, "--policies", "fifo,las", "-j", 2)
    assert code == 2
    assert "field seconds is needed" in err
    assert err.count("\n") == 1


def test_the_installed_command(jobs: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headway", "compare", str(jobs), "--policies", "fifo,absent"],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    if "No module named headway.__main__" in done.stderr:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "headway"), "compare", str(jobs), "--policies", "fifo,absent"],
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headway: --policy absent: there is no such policy")


def test_jobs_that_can_never_run_are_told(headway: Command, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("name,submit,seconds,gpu\na,0,10,1\nb,0,10,64\n")
    code, out, _ = headway("compare", trace, "--policies", "fifo,srtf", "--cluster", "1x4", "--json", "-j", 1)
    assert code == 0
    for row in json.loads(out)["results"]:
        assert (row["finished"], row["jobs"], row["jct"]["mean"]) == (1, 2, 10.0)
        assert row["ratio"]["area"] == 1.0


def test_a_world_for_a_trace_that_says_nothing_of_it(headway: Command, tmp_path: Path) -> None:
    trace, world = tmp_path / "t.csv", tmp_path / "world.yaml"
    trace.write_text("name,submit,seconds,gpu\na,0,10,1\n")
    world.write_text("simulate: {start: 7s}\n")
    told = json.loads(headway("simulate", trace, "--cluster", "1x4", "--world", world, "--json")[1])
    assert told["jct"]["mean"] == 17.0
    assert told["stalled"] == {"gpu": 7.0}
    world.write_text("simulate: {begin: 7s}\n")
    code, _, err = headway("simulate", trace, "--cluster", "1x4", "--world", world)
    assert code == 2
    assert "world.yaml" in err
    assert "begin" in err


@pytest.mark.parametrize(
    "text",
    [
        "simulate: {start: soon}", "simulate: {faults: {repair: 0}}", "simulate: {faults: {between: x}}",
        "simulate: {speed: {profiles: nowhere}}", "simulate: {faults: {outages: [{node: gone, at: 1, seconds: 1}]}}",
        "simulate: {faults: {exits: [{job: gone, after: 1, code: 1}]}}",
        "simulate: {faults: {exits: [{job: a, after: 1, code: 1, role: gone}]}}",
        "simulate: {speed: {accelerators: {a100: 0}}}", "simulate: {speed: {accelerators: {a100: -1}}}", "simulate: 7",
        "nodes: []", "simulate: [", "",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [("simulate", "--policy", "fifo"), ("compare", "--policies", "fifo", "-j", "1")])
def test_a_mistake_in_a_world_names_its_file(
    headway: Command, tmp_path: Path, text: str, command: tuple[str, ...]
) -> None:
    trace, world = tmp_path / "t.csv", tmp_path / "world.yaml"
    trace.write_text("name,submit,seconds,gpu\na,0,10,1\n")
    world.write_text(f"{text}\n")
    code, _, err = headway(command[0], trace, *command[1:], "--cluster", "1x4", "--world", world)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"headway: {world}")
    assert "t.csv" not in err


def test_the_options_that_are_told_are_there(headway: Command) -> None:
    """docs/compare.md names options and figures; each must exist."""
    text = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    _, help_, _ = headway("compare", "--help")
    for option in set(re.findall(r"`(--[a-z-]+)", text)) - {"--no-bounds"}:
        assert option in help_, option


def test_a_trace_that_measured_several_accelerators_is_simulated_on_them(headway: Command, tmp_path: Path) -> None:
    """Two jobs of 600 steps: one on the V100, at 4 steps a second; the other on the K80, at 2."""
    table = {"k80": {"('A3C', 1)": {"null": 2.0}}, "v100": {"('A3C', 1)": {"null": 4.0}}}
    (tmp_path / "simulation_throughputs.json").write_text(json.dumps(table))
    (tmp_path / "two.trace").write_text("A3C\tcmd\t-n\t1\t600\t0\t1\n" * 2)
    (tmp_path / "two.yaml").write_text(
        "nodes: [{name: v, gpu: 1, accelerator: v100}, {name: k, gpu: 1, accelerator: k80}]\n"
    )
    code, out, _ = headway("simulate", tmp_path / "two.trace", "--cluster", tmp_path / "two.yaml", "--policy", "fifo",
                           "--json")  # fmt: skip
    assert code == 0
    assert json.loads(out)["jct"]["mean"] == (150 + 300) / 2


def test_soft_deadlines_are_told_by_what_was_got(headway: Command, tmp_path: Path) -> None:
    """One GPU, two jobs of ten minutes: the first is worth all it can be, the second what its second step is."""
    head = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    row = "vc,1,0,100,resnet,10,1,15-30,10-4,0,soft\n"
    (tmp_path / "soft.csv").write_text(f"{head}best_effort,job_type\n0,{row}1,{row}")
    words = ("simulate", tmp_path / "soft.csv", "--format", "chronus", "--cluster", "1x1", "--policy", "fifo")
    code, out, _ = headway(*words, "--json")
    assert code == 0
    assert json.loads(out)["worth"] == {"got": 14.0, "most": 20.0}
    assert "worth       14 of 20" in headway(*words)[1]


def test_what_is_taken_for_granted_is_said(headway: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "nodes: [{name: n, gpu: 4}]\nsimulate: {start: 30s, save: 5s}\njobs:\n"
        "  - {name: a, gpu: 1, seconds: 90}\n"
        "  - {name: b, gpu: 1, seconds: 90, replicas: 2, min: 1, max: 4}\n"
    )
    _, out, _ = headway("compare", file, "--policies", "fifo,srtf", "-j", 1)
    told = " ".join(out.split())
    for words in ("elastic: 1 of 2 jobs may have fewer or more replicas", "Amdahl's law, 90 % of it parallel",
                  "a start 30 s, a save 5 s", "declared seconds, which are the true ones here"):  # fmt: skip
        assert words in told
    found = json.loads(headway("compare", file, "--policies", "fifo", "--estimates", "progress", "--json", "-j", 1)[1])
    assert list(found["assumptions"]) == ["sizes", "speed", "costs", "estimates"]
    assert found["assumptions"]["estimates"] == "fitted to the progress that jobs report"


def test_a_hint_where_nothing_contends(headway: Command, jobs: Path, tmp_path: Path) -> None:
    lines = [f"j{i},{i},100,1" for i in range(8)]
    (tmp_path / "t.csv").write_text("\n".join(["name,submit,seconds,gpu", *lines]) + "\n")
    calm = ("compare", tmp_path / "t.csv", "--policies", "fifo,las", "-j", 1, "--cluster")
    assert "note: Jobs hardly compete here" in headway(*calm, "8x1")[1]
    assert "hardly compete" not in headway(*calm, "1x1")[1]
    assert "note: Jobs hardly compete here" in headway("simulate", tmp_path / "t.csv", "--cluster", "8x1")[1]
    (tmp_path / "one.csv").write_text("name,submit,seconds,gpu\na,0,9,1\n")
    alone = headway("simulate", tmp_path / "one.csv", "--cluster", "1x1")[1]
    assert "hardly compete" not in alone, "one job alone says nothing about policies"
    assert "unfairly late" not in alone


def test_a_part_of_a_trace(headway: Command, tmp_path: Path) -> None:
    lines = [f"j{i},{100 * i},50,1" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["name,submit,seconds,gpu", *lines]) + "\n")
    words = ("simulate", tmp_path / "t.csv", "--cluster", "1x1", "--policy", "fifo")
    part = json.loads(headway(*words, "--from", "1000", "--head", 3, "--json")[1])
    assert (part["jobs"], part["makespan"]) == (3, 250.0), "it counts from the first job of the part"
    assert "no job comes after that; the last is submitted at 32 min" in headway(*words, "--from", "9d")[2]
    assert "--from soon: 'soon' is not a duration" in headway(*words, "--from", "soon")[2]
    assert "--head -1: give a number" in headway(*words, "--head", -1)[2]
    both = headway("compare", tmp_path / "t.csv", "--cluster", "1x1", "--policies", "fifo,las", "--head", 5, "-j", 1)[1]
    assert "5 jobs, completion times" in both


def test_intervals_stay_at_80_columns(headway: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"j{i},{1000 * i},{20_000 + 999 * i},1,{10**6}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["name,submit,seconds,gpu,deadline", *lines]) + "\n")
    monkeypatch.setenv("COLUMNS", "80")
    names = "fifo,first-fit,las,srtf,headway,tiresias"
    shown = headway("compare", tmp_path / "t.csv", "--cluster", "2x1", "--policies", names, "-j", 1)[1]
    assert shown.count("95 % interval") == 2
    assert max(map(len, shown.splitlines())) <= 80


def test_a_long_name_costs_no_figure(
    headway: Command, jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "a_policy_whose_name_is_much_longer_than_half_a_line_of_a_terminal"
    (tmp_path / "mine.py").write_text(f"from headway.policies.baselines.fifo import first_fit as {name}\n")
    words = ("compare", jobs, "--policies", f"{tmp_path / 'mine.py'}:{name},fifo", "-j", 1)
    out = headway(*words)[1]
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    for row in json.loads(headway(*words, "--json")[1])["results"]:
        assert {f"{row['jct']['mean']:,.1f}", f"{row['ratio']['baseline']:.3f}"} <= set(out.split())
