"""The benchmark of other schedulers: a row at a time, each with its ceiling, to be interrupted at any moment."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headway.lab import LabError, Unavailable, build
from headway.lab.process import marked
from headway.lab.programs import CONTROL_PLANE

FOLDER = Path(__file__).parents[2] / "bench" / "native"
SCRIPT = [sys.executable, str(FOLDER / "run.py")]
NAMES = ("client", "contenders", "cores", "measure", "rows", "workload")
SETTINGS = {"nodes": 4, "pods": 8, "rate": 50.0, "patience": 600.0}
SMALL = ["--nodes", "4", "--pods", "8", "--by", "native"]


@pytest.fixture(scope="module")
def native():
    """Its modules by name; scripts are no package, so they are forgotten again."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=60)


def a_row(workload: str = "single pods", measure: str = "throughput", **figures: object) -> dict[str, object]:
    return {"by": "native", "workload": workload, "measure": measure, "pods": 8, **figures}


def kept(folder: Path, *rows: dict[str, object], **settings: object) -> Path:
    path = folder / "rows.json"
    path.write_text(json.dumps({"settings": SETTINGS | settings, "rows": list(rows)}))
    return path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--by", "volcano"], "--by: there is no 'volcano', only native, batch, podgroup, kueue"),
        (["--only", "speed"], "--only: there is no 'speed'"),
        (["--nodes", "1", "--pods", "9"], "--pods: 1 nodes have 8 GPUs, not 9"),
        (["--rate", "0"], "--rate: it must be more than 0"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence):
    done = run(*arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"settings": SETTINGS | {"nodes": 5}, "rows": []}, "holds rows with --nodes 5, not 4: name another file"),
        ({"results": []}, "holds no rows of this benchmark"),
    ],
)
def test_rows_of_other_settings_are_not_mixed(tmp_path, content, sentence):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(content))
    done = run(*SMALL, "--out", str(path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert sentence in done.stderr
    assert json.loads(path.read_text()) == content


def test_rows_that_are_there_are_not_measured_again(tmp_path):
    rows = [
        a_row(workload, bound=8, ceiling=200.0, pods_per_second=50.0) for workload in ("single pods", "gangs of 1-64")
    ]
    path = kept(tmp_path, *rows)
    done = run(*SMALL, "--only", "throughput", "--out", str(path), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["settings"] == SETTINGS
    assert [(row["workload"], row["ratio"]) for row in told["rows"]] == [("single pods", 0.25), ("gangs of 1-64", 0.25)]
    shown = run(*SMALL, "--only", "throughput", "--out", str(path)).stdout
    assert "0.25" in shown
    assert "200" in shown


def test_a_row_replaces_the_one_before_and_is_kept_at_once(native, tmp_path):
    rows = native["rows"]
    path = kept(tmp_path, a_row(bound=1), a_row(measure="latency", p50_ms=3.0))
    there = rows.load(path, rows.Settings(**SETTINGS))
    there.put(rows.Row(**a_row(bound=8)), path)
    again = rows.load(path, rows.Settings(**SETTINGS))
    assert sorted((row.measure, row.bound) for row in again.rows) == [("latency", 0), ("throughput", 8)]
    assert list(tmp_path.iterdir()) == [path]


def test_gangs_are_whole_or_not(native):
    measure, gang = native["measure"], native["workload"].Gang
    one, two, three = gang("a", 2), gang("b", 3), gang("c", 4)
    bound = [*one.members, two.members[0]]
    assert measure.sort([one, two, three], bound) == ([one], [two])


@pytest.mark.parametrize(
    ("bound", "gpus", "gangs", "stuck"),
    [
        (["a-0", "a-1"], 4, True, True),  # two are free, and no other gang is so small
        (["a-0", "a-1"], 4, False, False),  # but two of its pods could go there
        (["a-0", "a-1"], 5, True, False),
        (["a-0", "a-1", "b-0"], 4, True, False),  # the rest of b may still come
        (["a-0", "a-1", "b-0", "b-1"], 4, True, True),  # all GPUs are taken
        (["a-0", "a-1", "b-0", "b-1", "b-2"], 9, False, True),
        ([], 9, True, False),
    ],
)
def test_when_nothing_more_can_come(native, bound, gpus, gangs, stuck):
    gang = native["workload"].Gang
    assert native["measure"].stuck([gang("a", 2), gang("b", 3)], bound, gpus, gangs=gangs) is stuck


def test_a_part_that_ended_spoils_the_row(native, tmp_path):
    log = tmp_path / "log"
    log.write_text("began\naddress already in use\n")
    part = SimpleNamespace(name="kube-scheduler", alive=False, log=str(log))
    lab = SimpleNamespace(status=lambda: SimpleNamespace(parts=[part]))
    with pytest.raises(LabError, match=r"kube-scheduler has ended, so the row does not count: address already in use"):
        native["measure"].check_alive(lab)
    part.alive = True
    native["measure"].check_alive(lab)


def test_rate_is_between_the_first_and_the_last(native):
    rate = native["measure"].rate
    assert rate([14.0, 10.0, 12.0]) == 0.5
    assert rate([10.0]) is None


def test_who_used_the_cores(native):
    usage, cores = native["cores"].Usage, native["cores"]
    before, after = usage(at=10, machine=100, ours=40), usage(at=20, machine=115, ours=52)
    assert cores.others(before, after) == 0.3
    assert cores.spent(before, after, 4000) == 3
    assert cores.spent(before, after, 0) is None


@pytest.mark.lab
@pytest.mark.timeout(120)
def test_half_started_gangs_are_seen_and_an_interrupted_run_leaves_no_lab(tmp_path):
    try:
        build.ensure([*CONTROL_PLANE, "kwok"])
    except Unavailable as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
    except LabError as error:
        pytest.fail(str(error))
    out, state = tmp_path / "rows.json", tmp_path / "state"
    command = [*SCRIPT, *SMALL, "--out", str(out), "--rows", "1"]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    done = subprocess.run(
        [*command, "--only", "contention"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    assert (row["gangs"], row["half_started"], row["deadlocked"], row["finished"]) == (1, 1, 1, 0)

    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if "the lab is up" in line:
                break
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert f"rows are kept in {out}" in process.stderr.read()
    assert [row["measure"] for row in json.loads(out.read_text())["rows"]] == ["contention"]
    mark = state / "headway" / "lab" / "bench-native"
    assert not mark.exists()
    assert not marked(str(mark))
