"""The elastic experiments: what is made, what is measured, and published workloads read from made-up files."""

from __future__ import annotations

import gzip

import pytest

from headway.compare.bounds import sizes
from headway.core.errors import UserError
from headway.core.node import Nodes
from headway.core.quantity import CPU
from headway.experiment import elastic_published
from headway.experiment.bound import elastic_floor
from headway.experiment.case import Cell, RunSize
from headway.experiment.elastic import ELASTIC, MIXES, STOCK
from headway.experiment.elastic_published import ELASTIC_PUBLISHED
from headway.experiment.perform import measure, perform
from headway.sim.speed import Speed
from headway.workload.trace import Trace
from make import a_job, a_role, some_nodes

SMALL = RunSize(14, (1,), quick=True)


@pytest.mark.parametrize("mix", MIXES)
def test_the_load_is_what_the_cell_says(mix):
    case = ELASTIC.make(Cell("load 1", mix), 5, RunSize(300, (5,)))
    cores = sum(dict(node.capacity)[CPU] for node in case.nodes)
    asked = sum(
        sum(role.replicas * role.amount(CPU) for role in job.roles) * (case.trace.work(job) or 0.0)
        for job in case.trace.jobs
    )
    assert asked / (cores * max(job.submit for job in case.trace.jobs)) == pytest.approx(1.0, rel=0.05)
    assert all(job.model for job in case.trace.jobs)
    assert (case.estimates == "progress") == all(job.seconds is None for job in case.trace.jobs)


def test_sizes_are_fixed_for_those_who_know_no_other_and_chosen_by_the_others():
    found = measure(ELASTIC, Cell("load 1.5", "samples"), 4, SMALL)
    assert found.figures[STOCK]["held"] > found.figures["elastic"]["held"]
    assert found.figures["affinity only"]["changes"] == 0
    assert found.figures["elastic"]["jct"] < found.figures[STOCK]["jct"]
    assert 0 < found.figures["elastic"]["use"] < found.figures["elastic"]["held"]
    assert all(figures["jct"] > found.bound["jct"] for figures in found.figures.values())
    assert found.figures["elastic"]["samples"] == 1.0
    by_name = {target.what: target for target in ELASTIC.targets}
    modest = next(target for what, target in by_name.items() if "modest" in what)
    assert modest.measure(found.figures) is None


def test_a_target_counts_no_policy_that_leaves_jobs_undone():
    target = ELASTIC.targets[0]
    by = {
        "elastic": {"jct": 10.0, "stuck": 0.0},
        "good": {"jct": 20.0, "stuck": 0.0},
        "bad": {"jct": 1.0, "stuck": 0.5},
    }
    assert target.measure(by) == 0.5
    assert not target.reached(1.01)


def test_the_floor_lets_all_roles_and_cpu_be_chosen():
    job = a_job("a", roles=[a_role("ps", 1, max=2, cpu=1), a_role("worker", 2, min=1, max=2, cpu=1)], seconds=100.0)
    assert sizes(job) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    nodes, trace = Nodes.of(some_nodes(1, gpus=0, cpu=2).nodes), Trace(name="t", jobs=tuple([job] * 1))
    whole = elastic_floor(trace, nodes, Speed())
    assert elastic_floor(trace, nodes, Speed(needs={"a": 0.1})) <= whole
    case = ELASTIC.make(Cell("load 0.5", "mixed, a quarter of the cpu needed"), 3, SMALL)
    bound = ELASTIC.bound(case)["jct"]
    for entry in ELASTIC.entries:
        found = perform(case, entry, 3)
        assert float(found.completion.mean()) > bound


def test_published_workloads_are_read_and_without_them_one_sentence_is_told(tmp_path, monkeypatch):
    head = "name,time,application,num_replicas,batch_size\n"
    for folder in ("workloads", "workloads-realistic"):
        (tmp_path / "pollux" / folder).mkdir(parents=True)
        (tmp_path / "pollux" / folder / "workload-1.csv").write_text(
            head + "".join(f"cifar10-{n},{60 * n},cifar10,{2**n},{512}\n" for n in range(4))
        )
    (tmp_path / "philly").mkdir()
    with gzip.open(tmp_path / "philly" / "philly_jobs.csv.gz", "wt") as file:
        file.write("job_id,submit_s,submit_time,duration_s,num_gpus,vc\n")
        file.writelines(f"{n},{1000 + 50 * n},,{600 * (1 + n % 3)},{1 + n % 4},vc\n" for n in range(30))
    monkeypatch.setattr(elastic_published, "FIRST", 10)
    monkeypatch.setattr(elastic_published, "WINDOW", 12)
    monkeypatch.setenv("HEADWAY_TRACES", str(tmp_path))
    for cell in ELASTIC_PUBLISHED.cells:
        found = measure(ELASTIC_PUBLISHED, cell, 1, ELASTIC_PUBLISHED.full)
        assert set(found.figures) == {entry.label for entry in ELASTIC_PUBLISHED.entries}
        assert found.figures["elastic"]["jct"] <= found.figures[STOCK]["jct"]
        assert found.bound["jct"] < found.figures["elastic"]["jct"]
    window = ELASTIC_PUBLISHED.make(ELASTIC_PUBLISHED.cells[-1], 1, ELASTIC_PUBLISHED.full).trace
    assert [job.id for job in window.jobs[:2]] == ["10", "11"]
    assert window.jobs[0].submit == 0.0
    monkeypatch.setenv("HEADWAY_TRACES", str(tmp_path / "nowhere"))
    with pytest.raises(
        UserError,
        match=r"HEADWAY_TRACES: name a folder of published traces that has pollux/workloads/workload-1\.csv in it",
    ):
        measure(ELASTIC_PUBLISHED, ELASTIC_PUBLISHED.cells[0], 1, ELASTIC_PUBLISHED.full)
