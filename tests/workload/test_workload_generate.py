"""Generated workloads mean their load, are in order, and are the same for the same seed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from headway.cli.app import COMMANDS, app_of
from headway.core.errors import UserError
from headway.core.job import start_order
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate, grid
from headway.workload.models import assign_models
from headway.workload.open import open_workload
from headway.workload.settings import ARRIVALS, DEADLINES, DURATIONS, MIXES, Settings
from headway.workload.write import write_workload

NODES = open_cluster("8x8gpu,64cpu")

shares = st.sampled_from([0.0, 0.3, 1.0])
any_settings = st.builds(
    Settings,
    jobs=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    load=st.floats(0.05, 3.0),
    arrivals=st.sampled_from(ARRIVALS),
    burst=st.floats(1.0, 50.0),
    swing=st.floats(0.0, 1.0),
    sizes=st.sampled_from([*MIXES, "3:1,5:2"]),
    durations=st.sampled_from(DURATIONS),
    mean_seconds=st.floats(10.0, 1e5),
    spread=st.floats(0.1, 3.0),
    users=st.integers(1, 20),
    urgent=shares,
    deadlines=shares,
    deadline_rule=st.sampled_from(DEADLINES),
    ps=shares,
    elastic=shares,
    declared_error=st.sampled_from([0.0, 0.5]),
)


def demand(trace):
    """Worker-seconds that are really needed."""
    return sum(job.role("worker").replicas * trace.work(job) for job in trace.jobs)


@given(any_settings)
@settings(max_examples=120, deadline=None)
def test_the_load_is_what_was_asked_for(chosen):
    trace = generate(chosen, NODES)
    window = demand(trace) / (64 * chosen.load)
    assert all(0 <= job.submit <= window + 0.001 for job in trace.jobs)
    if chosen.arrivals == "at-once":
        assert all(job.submit == 0 for job in trace.jobs)
    told = re.fullmatch(r"\d+ jobs in ([\d.]+) s on 64 gpu: load [\d.]+", trace.notes[0])
    assert told
    assert float(told.group(1)) == pytest.approx(window, abs=0.001)


@given(any_settings)
@settings(max_examples=80, deadline=None)
def test_jobs_are_sound_and_in_order(chosen):
    trace = generate(chosen, NODES)
    assert len({job.id for job in trace.jobs}) == len(trace.jobs) == chosen.jobs
    submits = [job.submit for job in trace.jobs]
    assert submits == sorted(submits)
    for job in trace.jobs:
        start_order(job.roles)
        assert job.seconds > 0
        assert job.steps >= 1
        assert job.model
        assert all(1 <= role.min <= role.replicas <= role.max <= 64 for role in job.roles)
        assert job.deadline is None or job.deadline > job.submit
        assert len(job.roles) == 1 or job.role("worker").replicas > 1
    for share, found in (
        (chosen.deadlines, [job.deadline is not None for job in trace.jobs]),
        (chosen.urgent, [job.priority > 0 for job in trace.jobs]),
        (chosen.elastic, [job.roles[-1].min < job.roles[-1].max for job in trace.jobs]),
    ):
        assert (share, any(found)) != (0.0, True)
        assert (share, all(found)) != (1.0, False)


@given(any_settings)
@settings(max_examples=25, deadline=None)
def test_the_same_seed_gives_the_same_bytes(tmp_path_factory, chosen):
    folder = tmp_path_factory.mktemp("same")
    for name in ("a.jsonl", "b.jsonl"):
        write_workload(generate(chosen, NODES), folder / name)
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()
    other = generate(replace(chosen, seed=chosen.seed + 1), NODES)
    assert other.jobs != generate(chosen, NODES).jobs
    back = open_workload(folder / "a.jsonl")
    assert back.jobs == generate(chosen, NODES).jobs
    assert back.truth == generate(chosen, NODES).truth


def test_bytes_do_not_change_between_versions():
    """A seed named in a paper must give the same workload for ever; if this fails, say so in the change log."""
    trace = generate(Settings(jobs=3, deadlines=1.0, elastic=0.5), open_cluster("4x4"))
    assert [(job.submit, job.seconds, job.replicas, job.user, job.model) for job in trace.jobs] == [
        (34.054, 1363.951, 4, "user-5", "deepspeech2"),
        (169.561, 268.513, 1, "user-5", "cifar10"),
        (253.344, 342.911, 1, "user-0", "cifar10"),
    ]


def test_arrivals_differ_in_how_they_come():
    def gaps(arrivals):
        submits = np.array([job.submit for job in generate(Settings(jobs=3000, arrivals=arrivals), NODES).jobs])
        return np.diff(submits)

    poisson, bursty = gaps("poisson"), gaps("bursty")
    assert poisson.std() / poisson.mean() == pytest.approx(1.0, abs=0.15)
    assert bursty.std() / bursty.mean() > 1.8


def test_diurnal_arrivals_come_by_day():
    trace = generate(Settings(jobs=4000, arrivals="diurnal", swing=0.8), NODES)
    hours = Counter(int(job.submit % 86400 // 21600) for job in trace.jobs)
    assert trace.jobs[-1].submit > 3 * 86400
    assert min(hours[1], hours[2]) > 1.5 * max(hours[0], hours[3])


def test_mixes_and_means_are_met():
    trace = generate(Settings(jobs=6000, sizes="1:0.5,4:0.3,8:0.2", spread=0.5, mean_seconds=1000), NODES)
    found = Counter(job.replicas for job in trace.jobs)
    assert [found[size] / 6000 for size in (1, 4, 8)] == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    for durations in DURATIONS:
        trace = generate(Settings(jobs=6000, durations=durations, spread=0.5, mean_seconds=1000), NODES)
        assert np.mean([job.seconds for job in trace.jobs]) == pytest.approx(1000, rel=0.1)


def test_deadlines_follow_their_rule():
    def factors(rule):
        trace = generate(Settings(jobs=3000, deadlines=1.0, deadline_rule=rule), NODES)
        return np.array([(job.deadline - job.submit) / job.seconds for job in trace.jobs])

    assert 0.49 < factors("uniform").min() < 0.52
    assert 1.48 < factors("uniform").max() < 1.51
    assert np.median(factors("chronus")) == pytest.approx(1.97, rel=0.03)
    assert factors("chronus").min() >= 1.09


def test_sizes_that_do_not_fit_are_left_out():
    trace = generate(Settings(sizes="1:1,64:1"), open_cluster("1x4"))
    assert {job.replicas for job in trace.jobs} == {1}
    with pytest.raises(UserError, match="fewer than the smallest job"):
        generate(Settings(sizes="8"), open_cluster("1x4"))


def test_a_cluster_of_cores_gets_jobs_of_cores():
    trace = generate(Settings(jobs=20), open_cluster("4x4cpu,8Gi"))
    assert {role.request for job in trace.jobs for role in job.roles} == {(("cpu", 1000),)}
    with pytest.raises(UserError, match="neither GPUs nor whole cores"):
        generate(Settings(), open_cluster("4x500mcpu"))
    with pytest.raises(UserError, match="parameter servers need nodes with GPUs"):
        generate(Settings(ps=0.5), open_cluster("4x4"))


def test_parameter_servers_come_with_wide_jobs():
    trace = generate(Settings(jobs=60, ps=1.0, sizes="1:1,8:1"), NODES)
    for job in trace.jobs:
        if job.role("worker").replicas == 8:
            assert job.role("ps").replicas == 2
            assert job.role("worker").after == ("ps",)
        else:
            assert len(job.roles) == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"arrivals": "never"}, "arrivals never: choose one of poisson, bursty"),
        ({"sizes": "huge"}, "sizes huge: choose one of"),
        ({"sizes": "0:1"}, "sizes 0:1: choose one of"),
        ({"load": 0.0}, "load 0: must be above 0"),
        ({"load": float("nan")}, "load nan: must be above 0"),
        ({"jobs": 0}, "jobs 0: must be above 0"),
        ({"elastic": 1.5}, "elastic 1.5: must be between 0 and 1"),
        ({"spread": 99.0}, "spread 99: must be 10 or less"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"jobs": 10**12}, "jobs 1e+12: must be 1e+07 or less"),
        ({"mean_seconds": 1e300}, "mean_seconds 1e+300: must be 1e+09 or less"),
        ({"load": 1e-300}, "load 1e-300: must be 0.001 or more"),
        ({"sizes": "99999999999:1"}, "sizes 99999999999:1: choose one of"),
    ],
)
def test_settings_that_make_no_sense(wrong, sentence):
    with pytest.raises(UserError) as told:
        generate(Settings(**wrong), NODES)
    assert sentence in str(told.value)


def test_a_grid_has_every_load_with_every_mix():
    cells = list(grid(Settings(jobs=5), NODES, loads=(0.5, 1.0), mixes=("single", "wide"), seeds=(1, 2)))
    assert [(cell.load, cell.sizes, cell.seed) for cell, _ in cells] == [
        (load, mix, seed) for load in (0.5, 1.0) for mix in ("single", "wide") for seed in (1, 2)
    ]
    windows = {cell: demand(trace) / (64 * cell.load) for cell, trace in cells}
    assert all(trace.jobs[-1].submit <= windows[cell] + 0.001 for cell, trace in cells)


def test_models_are_given_by_id_alone():
    trace = generate(Settings(jobs=400), NODES)
    bare = [replace(job, model="", steps=None) for job in trace.jobs]
    whole = {job.id: job.model for job in assign_models(bare, seed=3)}
    part = {job.id: job.model for job in assign_models(bare[::-7], seed=3)}
    assert part == {job_id: whole[job_id] for job_id in part}
    assert whole != {job.id: job.model for job in assign_models(bare, seed=4)}
    assert len(set(whole.values())) >= 5
    own = replace(bare[0], model="mine")
    assert assign_models([own])[0].model == "mine"


def test_the_command_writes_a_file_that_reads_back(tmp_path):
    path = tmp_path / "w.csv"
    words = [
        "generate",
        str(path),
        "--cluster",
        "4x4",
        "--jobs",
        "20",
        "--load",
        "0.7",
        "--set",
        "deadlines=1",
        "--json",
    ]
    result = CliRunner().invoke(app_of(COMMANDS), words)
    assert result.exit_code == 0, result.output
    assert '"jobs": 20' in result.output
    trace = open_workload(path)
    assert trace.jobs == generate(Settings(jobs=20, load=0.7, deadlines=1.0), open_cluster("4x4")).jobs


@pytest.mark.parametrize(
    "words", [["--set", "colour=red"], ["--set", "users=many"], ["--sizes", "x"], ["--cluster", "x"]]
)
def test_the_command_refuses_nonsense(tmp_path, words):
    result = CliRunner().invoke(app_of(COMMANDS), ["generate", str(tmp_path / "w.csv"), *words])
    assert isinstance(result.exception, UserError)
    assert not (tmp_path / "w.csv").exists()


def test_a_load_that_is_never_there_is_told():
    few = generate(Settings(jobs=300, load=0.9, seed=1), NODES)
    assert len(few.notes) == 2
    assert re.search(
        r"^31 % of the work is left when the last job arrives.* the load is about 0\.62\. More jobs", few.notes[1]
    )
    assert len(generate(Settings(jobs=300, load=0.9, durations="constant"), NODES).notes) == 1
    assert len(generate(Settings(jobs=30, load=0.9, arrivals="at-once"), NODES).notes) == 1


def test_other_jobs_are_not_overwritten(tmp_path):
    path = tmp_path / "w.jsonl.gz"
    one, other = (generate(Settings(jobs=5, seed=seed), NODES) for seed in (1, 2))
    write_workload(one, path, overwrite=False)
    kept = path.read_bytes()
    write_workload(one, path, overwrite=False)
    with pytest.raises(UserError, match="exists, and has other jobs in it; --force overwrites it"):
        write_workload(other, path, overwrite=False)
    assert path.read_bytes() == kept
    write_workload(other, path)
    assert path.read_bytes() != kept
