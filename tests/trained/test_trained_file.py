"""A trained policy is read back to the last digit, or refused in one sentence; every command takes it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from networks import KNOBS, a_network

from forked import call
from headway.cli.wiring import make_policy
from headway.core.errors import UserError
from headway.policies.learned import Learned
from headway.policies.value.outlook import FEATURES
from headway.record.lines import Head, JobLine
from headway.record.log import read
from headway.trained.file import ARRAYS, SHIPPED, TrainedPolicy, read_trained, write_trained

JOBS = "nodes: [{name: n, count: 2, cpu: 8, gpu: 4}]\njobs:\n" + "".join(
    f"- {{name: j{n}, submit: {20 * n}, seconds: {200 + 90 * n}, user: u{n % 2}, "
    "roles: {worker: {replicas: 2, min: 1, max: 4, gpu: 1}}}\n"
    for n in range(8)
)  # fmt: skip


def _written(path, **changed):
    network = a_network()
    write_trained(path, TrainedPolicy(network, {"seed": 1}, {"mean completion": 0.9}))
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    about = json.loads(arrays["about"].tobytes())
    for name, value in changed.items():
        if name in arrays:
            arrays[name] = value
        else:
            about[name] = value
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


def test_a_network_is_read_back_as_it_was_and_the_same_bytes_are_written(tmp_path):
    one, two = tmp_path / "a.npz", tmp_path / "b.npz"
    trained = TrainedPolicy(a_network(), {"seed": 1}, {"mean completion": 0.9})
    write_trained(one, trained)
    write_trained(two, trained)
    assert one.read_bytes() == two.read_bytes()
    again = read_trained(one)
    assert again.network.knobs == KNOBS
    assert all((getattr(again.network, name) == getattr(trained.network, name)).all() for name in ARRAYS)
    assert (again.trained_on, again.scores) == (trained.trained_on, trained.scores)
    assert again.name.startswith("a.npz ")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"version": 9}, "field version: is 'headway trained policy' version 9; this headway reads"),
        ({"features": ["load"]}, "field features: are load; this headway has load, used, queue"),
        ({"knobs": ["trial", "colour", "restart", "cool_down", "favour"]}, "headway has no setting 'colour'"),
        ({"knobs": ["trial"] * 5}, "field knobs: a setting is named twice"),
        ({"colour": 1}, "field about: Object contains unknown field `colour`"),
        ({"outer": np.zeros((2, 6))}, "field outer: has the shape (2, 6), not (5, 6)"),
        ({"outer": np.full((5, 6), np.nan)}, "field outer: has a number that is not finite"),
        ({"outer": np.zeros((5, 6), np.float32)}, "field outer: must be of float64"),
        ({"scale": np.zeros(len(FEATURES))}, "field scale: must be above 0"),
        ({"low": np.full(len(FEATURES), 99.0)}, "field low: must not be above high"),
        ({"inner": np.zeros(())}, "field inner: has the shape ()"),
        ({"inner": None}, "field inner: is missing"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_in_one_sentence(tmp_path, changed, says):
    with pytest.raises(UserError, match=r"t\.npz") as error:
        read_trained(_written(tmp_path / "t.npz", **changed))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x03\x04" + b"x" * 50, b"\x93NUMPY\x01\x00"])
def test_what_is_no_such_file_at_all_is_refused(tmp_path, content):
    path = tmp_path / "t.npz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not a trained policy; make one with `headway learn train`"):
        read_trained(path)


def test_arrays_of_python_objects_are_never_unpacked(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, about=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UserError, match="is not a trained policy"):
        read_trained(path)


def test_the_one_that_comes_with_headway_fits():
    assert isinstance(make_policy("learned"), Learned)
    assert read_trained(SHIPPED).name.startswith("shipped.npz ")


def test_the_one_that_comes_with_headway_is_the_one_that_the_proof_ran():
    """Of its networks, the one that did best on the tasks that choose."""
    figures = json.loads((Path(__file__).parents[2] / "docs/learning-figures-6.json").read_text())
    best = [one["sha256"] for one in figures["networks"].values() if one["best"]]
    assert [hashlib.sha256(SHIPPED.read_bytes()).hexdigest()] == best


def _simulated(folder, capsys):
    """The jobs, the trained file, the log of their run under it, and the options of that run."""
    jobs, file, log = folder / "jobs.yaml", folder / "t.npz", folder / "a.log"
    jobs.write_text(JOBS)
    write_trained(file, TrainedPolicy(a_network()))
    words = ("--estimates", "progress", "--policy", "learned", "--set", f"file={file}")
    assert call(capsys, "simulate", jobs, *words, "--log", log)[0] == 0
    return jobs, file, log, words


def _head(log):
    return next(line for line in read(log) if isinstance(line, Head))


def test_simulate_compare_and_replay_take_it_and_a_bad_one_ends_with_exit_code_2(tmp_path, capsys):
    jobs, file, log, words = _simulated(tmp_path, capsys)
    assert _head(log).policy == "learned"
    assert call(capsys, "replay", log)[0] == 0
    code, out, err = call(
        capsys,
        "compare",
        jobs,
        "--policies",
        "headway,learned",
        "--set",
        f"learned.file={file}",
        "--estimates",
        "progress",
        "--jobs",
        1,
    )
    assert code == 0, err
    assert "learned" in out
    file.write_bytes(b"nothing")
    code, _, err = call(capsys, "simulate", jobs, *words)
    assert code == 2
    assert "t.npz: is not a trained policy" in err
    code, _, err = call(capsys, "simulate", jobs, "--policy", "learned", "--set", "colour=1")
    assert code == 2
    assert "file=FILE" in err


def test_the_log_names_the_file_with_its_hash_and_a_file_that_has_changed_is_told(tmp_path, capsys):
    _, file, log, _ = _simulated(tmp_path, capsys)
    then = _head(log).settings["trained"]
    assert then == read_trained(file).name
    assert call(capsys, "replay", log)[2] == ""
    write_trained(file, TrainedPolicy(a_network(2.0)))
    said = " ".join(call(capsys, "replay", log)[2].split())
    assert f"the run was decided by {then}; the file is now {read_trained(file).name}" in said
    job = next(line for line in read(log) if isinstance(line, JobLine)).job["id"]
    told = json.loads(call(capsys, "why", job, "--log", log, "--json")[1])
    assert told["policy"].startswith(f"the run was decided by {then}")
    assert call(capsys, "replay", log, "--policy", "headway")[2] == "", "then the file does not matter"
