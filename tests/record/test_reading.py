"""A damaged log is told in one sentence with its line and with how far it is good, and its good part can be kept."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.core.errors import UserError
from headway.record.log import read
from headway.record.metrics import Tally
from headway.record.reading import LogError, keep_good
from headway.record.replay import snapshots

GOLDEN = Path(__file__).parents[1] / "golden" / "sim-adapt.log.gz"


@pytest.fixture(scope="module")
def whole():
    return gzip.decompress(GOLDEN.read_bytes()).splitlines(keepends=True)


def _first(lines, kind, after=0):
    return next(n for n, raw in enumerate(lines) if n >= after and raw.startswith(b'{"line":"%s"' % kind))


def _edited(raw, **values):
    return json.dumps({**json.loads(raw), **values}).encode() + b"\n"


def _without_job(lines):
    at = _first(lines, b"job")
    return lines[:at] + lines[at + 1 :], None, "line of job number 0 is missing"


def _without_cycle(lines):
    at = _first(lines, b"cycle", 20)
    cycle = json.loads(lines[at])["cycle"]
    return lines[:at] + lines[at + 1 :], None, f"cycle {cycle + 1} comes where cycle {cycle} is due"


def _swapped(lines):
    one = _first(lines, b"cycle", 20)
    two = _first(lines, b"cycle", one + 1)
    cycle = json.loads(lines[one])["cycle"]
    lines[one], lines[two] = lines[two], lines[one]
    return lines, one + 1, f"cycle {cycle + 1} comes where cycle {cycle} is due"


def _fewer_nodes(lines):
    at = _first(lines, b"nodes")
    nodes = json.loads(lines[at])["nodes"]
    lines[at] = _edited(lines[at], nodes=nodes[:1])
    return lines, None, "it is on a node that is not among the 1 nodes"


def _no_nodes(lines):
    at = _first(lines, b"nodes")
    return lines[:at] + lines[at + 1 :], at + 1, "comes before the nodes"


def _no_head(lines):
    return lines[1:], 1, "the first line must be a head line"


def _other_version(lines):
    lines[0] = _edited(lines[0], version=99)
    return lines, 1, "this is a log of version 99; this Headway reads version 1"


def _job_with(**values):
    def damage(lines):
        at = _first(lines, b"job")
        lines[at] = _edited(lines[at], job={**json.loads(lines[at])["job"], **values})
        return lines, at + 1, ""

    return damage


def _no_can(lines):
    at = _first(lines, b"job")
    job = json.loads(lines[at])["job"]
    del job["can"]
    lines[at] = _edited(lines[at], job=job)
    return lines, at + 1, "a job has no field 'can'"


def _bytes_at(at, put):
    def damage(lines):
        lines[at] = lines[at][:30] + put + lines[at][31:]
        return lines, at + 1, "not a line of a headway log"

    return damage


def _plan_of(plan):
    def damage(lines):
        at = next(n for n, raw in enumerate(lines) if b'"plan"' in raw and n > 10)
        lines[at] = _edited(lines[at], plan=plan)
        return lines, at + 1, ""

    return damage


def _short_sample(lines):
    at = next(n for n, raw in enumerate(lines) if b'"samples"' in raw)
    lines[at] = _edited(lines[at], samples=[["steady", 3.0, 0]])
    return lines, at + 1, "a sample is malformed"


DAMAGE = {
    "short sample": _short_sample,
    "missing job": _without_job, "missing cycle": _without_cycle, "swapped": _swapped, "fewer nodes": _fewer_nodes,
    "no nodes": _no_nodes, "no head": _no_head, "other version": _other_version, "no can": _no_can,
    "unknown field": _job_with(colour="red"), "priority": _job_with(priority=3 * 10**9), "roles": _job_with(roles=[]),
    "can": _job_with(can=999), "submit": _job_with(submit="soon"), "role field": _job_with(roles=[{"nom": 3}]),
    "amount": _job_with(roles=[{"name": "w", "request": [["cpu", 10**12]]}]), "bad UTF-8": _bytes_at(12, b"\xff"),
    "NUL": _bytes_at(12, b"\0"), "deep": _bytes_at(12, b"[" * 100_000), "plan": _plan_of([["fly", "a"]]),
    "plan for nobody": _plan_of([["stop", "nobody", "user"]]),
    "plan for nowhere": _plan_of([["scale", "steady", "w", [99]]]),
    "short plan": _plan_of([["start"]]), "placement": _plan_of([["start", "a", 7]]),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_log_says_up_to_where_it_is_good(tmp_path, whole, case):
    lines, line, sentence = DAMAGE[case](list(whole))
    path = tmp_path / "run.log"
    path.write_bytes(b"".join(lines))
    with pytest.raises(LogError) as told:
        list(snapshots(path))
    message = str(told.value)
    assert message.startswith(f"{path}, line {line or ''}")
    assert sentence in message
    assert "\n" not in message
    assert len(message) < 600
    if line != 1:
        assert "; the log is good up to line " in message


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_good_part_is_kept_and_can_be_gone_on_from(tmp_path, whole, suffix):
    lines, _, _ = _without_cycle(list(whole))
    good = _first(whole, b"cycle", 20)
    path = tmp_path / f"run.log{suffix}"
    content = b"".join(lines)
    path.write_bytes(gzip.compress(content) if suffix else content)
    before = path.read_bytes()
    wrong = keep_good(path)
    assert f"the log is good up to line {good} (cycle " in wrong
    assert wrong.endswith(f"the damaged log is kept as run.log{suffix}.damaged")
    assert (tmp_path / f"run.log{suffix}.damaged").read_bytes() == before
    kept = path.read_bytes()
    assert (gzip.decompress(kept) if suffix else kept) == b"".join(whole[:good])
    assert len(list(read(path))) == good
    assert list(snapshots(path))
    assert keep_good(path) == ""
    path.write_bytes(before)
    assert keep_good(path).endswith(".damaged-2")


def test_a_whole_or_torn_log_is_left_alone_and_what_is_no_log_too(tmp_path, whole):
    path = tmp_path / "run.log"
    for content in (b"".join(whole), b"".join(whole)[:-7], b""):
        path.write_bytes(content)
        assert keep_good(path) == ""
        assert path.read_bytes() == content
    path.write_bytes(b"my notes\n")
    with pytest.raises(LogError, match="line 1: not a line of a headway log"):
        keep_good(path)
    assert path.read_bytes() == b"my notes\n"
    assert [file.name for file in tmp_path.iterdir()] == ["run.log"]


@pytest.mark.parametrize("share", [0.5, 0.8, 0.99])
def test_a_cut_compressed_log_is_read_up_to_the_cut(tmp_path, whole, share):
    path = tmp_path / "run.log.gz"
    content = gzip.compress(b"".join(whole))
    path.write_bytes(content[: int(share * len(content))])
    found = []
    with pytest.raises(LogError, match=r"the gzip file ends early; the log is good up to line \d+ \(cycle \d+\)"):
        found.extend(_collected(read(path), found))
    assert 0.5 * share * len(whole) < len(found) < len(whole)
    assert "ends early" in keep_good(path)
    assert len(list(read(path))) == len(found)


def _collected(lines, found):
    for line in lines:
        found.append(line)
    return ()


def test_members_of_a_compressed_log_follow_each_other(tmp_path, whole):
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(b"".join(whole[:9])) + gzip.compress(b"".join(whole[9:])) + b"\0" * 9)
    assert len(list(read(path))) == len(whole)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(LogError, match="good up to line"):
        list(read(path))


def test_a_log_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none.log"):
        with pytest.raises(LogError, match="cannot be read"):
            list(read(path))


def test_replay_ends_with_one_sentence_and_code_2(tmp_path, whole):
    lines, _, sentence = _without_cycle(list(whole))
    (tmp_path / "run.log").write_bytes(b"".join(lines))
    words = [sys.executable, "-m", "headway", "replay", "run.log"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("headway: run.log, line ")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_tally_reads_the_same_from_a_log_as_before(whole, tmp_path):
    path = tmp_path / "run.log"
    path.write_bytes(b"".join(whole))
    tally = Tally()
    for line in read(path):
        tally(line)
    assert tally.result()["unfinished"] == 0
    assert issubclass(LogError, UserError)


def test_a_simulation_goes_on_from_the_good_part_of_its_log(tmp_path):
    (tmp_path / "a.csv").write_text("name,submit,seconds,gpu\n" + "".join(f"j{i},{i},{i + 3},1\n" for i in range(60)))
    log = tmp_path / "run.log.gz"

    def simulate():
        words = [sys.executable, "-m", "headway", "simulate", "a.csv", "--cluster", "2x1", "--log", log.name]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(raw) for raw in gzip.decompress(log.read_bytes()).splitlines()]
        return [{name: value for name, value in line.items() if name != "beliefs"} for line in lines]

    whole = simulate()
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    assert simulate() == whole
