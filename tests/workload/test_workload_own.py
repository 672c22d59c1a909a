"""Our own files: what is written reads back the same, and the published schemas are those of the code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.core.errors import UserError
from headway.core.job import Can, Job, JobId, Role, Success, Target
from headway.core.node import Node
from headway.core.restarts import Restarts
from headway.workload.json_schema import schemas
from headway.workload.open import open_workload
from headway.workload.trace import Trace
from headway.workload.write import write_workload

ROOT = Path(__file__).parents[2]
numbers = st.integers(0, 10**9).map(lambda millis: millis / 1000)
words = st.sampled_from(["", "a", "team-1"])


@st.composite
def roles(draw: st.DrawFn) -> Role:
    least, more, most = draw(st.integers(1, 4)), draw(st.integers(0, 4)), draw(st.integers(0, 4))
    gpu, cpu, memory = draw(st.integers(1, 8)), draw(st.integers(0, 9000)), draw(st.integers(0, 9000))
    request = tuple((kind, amount) for kind, amount in (("cpu", cpu), ("gpu", gpu), ("memory", memory)) if amount)
    return Role(
        name="worker", min=least, replicas=least + more, max=least + more + most, request=request,
        accelerator=draw(words),
    )  # fmt: skip


@st.composite
def targets(draw: st.DrawFn) -> Target:
    return Target(metric=draw(st.sampled_from(["loss", "top-1"])), value=draw(numbers) - 1, higher=draw(st.booleans()))


@st.composite
def jobs(draw: st.DrawFn, name: str) -> Job:
    submit = draw(numbers)
    deadline = draw(st.none() | numbers)
    return Job(
        id=JobId(name), roles=(draw(roles()),), user=draw(words), queue=draw(words), priority=draw(st.integers(-3, 3)),
        submit=submit, seconds=draw(st.none() | numbers), steps=draw(st.none() | st.integers(1, 10**9)),
        deadline=None if deadline is None else submit + deadline, model=draw(words),
        target=draw(st.none() | targets()),
    )  # fmt: skip


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    made = [draw(jobs(f"job-{number}")) for number in range(draw(st.integers(1, 4)))]
    true = {job.id: draw(numbers) for job in made if draw(st.booleans())}
    return Trace(name="t", jobs=tuple(sorted(made, key=lambda job: job.submit)), truth=true or None)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.yaml"])
@given(trace=traces())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_reads_back(tmp_path, name, trace):
    path = tmp_path / name
    if name == "a.yaml":
        trace = replace(trace, truth=None)
    write_workload(trace, path)
    once = path.read_bytes()
    again = open_workload(path)
    assert [replace(job, directory="") for job in again.jobs] == list(trace.jobs)
    assert again.truth == trace.truth
    write_workload(trace, path)
    assert path.read_bytes() == once


def test_several_roles_and_nodes_read_back(tmp_path):
    ps = Role(name="ps", request=(("cpu", 1500),), limit=(("cpu", 2000),), near=("worker",), tolerates=("spot",))
    worker = Role(
        name="worker", replicas=2, min=1, max=4, request=(("fpga", 1), ("gpu", 1)), after=("ps",), apart=("ps",),
        selector=(("zone", "a"),), command=("python", "x.py"), env=(("A", "1"),),
    )  # fmt: skip
    job = Job(id=JobId("a"), roles=(ps, worker), seconds=9.5, can=Can.STOP | Can.MOVE, checkpoints=False,
              target=Target(metric="accuracy", value=0.9, higher=True),
              success=Success(roles=("worker",), any_replica=True),
              restarts=Restarts(losses=9, window=60.0), retries=2, retry_on=(75, "out of memory"),
              retry_not_on=(2,))  # fmt: skip
    nodes = (
        *(
            Node(name=f"big-{i}", capacity=(("cpu", 8000), ("gpu", 4)), domain="r1", labels=(("zone", "a"),))
            for i in range(3)
        ),
        Node(name="odd", capacity=(("memory", 1024),), taints=("spot",), accelerator="T4"),
    )  # fmt: skip
    trace = Trace(name="t", jobs=(job,), nodes=nodes)
    write_workload(trace, tmp_path / "a.yaml")
    again = open_workload(tmp_path / "a.yaml")
    assert [replace(read, directory="") for read in again.jobs] == [job]
    assert again.nodes == nodes
    assert (tmp_path / "a.yaml").read_text().count("name: big") == 1
    write_workload(trace, tmp_path / "a.jsonl")
    assert open_workload(tmp_path / "a.jsonl").jobs == (job,)
    with pytest.raises(UserError, match="one role per job"):
        write_workload(trace, tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("field", "job"),
    [
        ("can", Job(id=JobId("a"), roles=(Role(name="worker", request=(("gpu", 1),)),), can=Can.STOP)),
        ("saves", Job(id=JobId("a"), roles=(Role(name="worker", request=(("gpu", 1),)),), saves_itself=True)),
        (
            "restarts",
            Job(id=JobId("a"), roles=(Role(name="worker", request=(("gpu", 1),)),), restarts=Restarts(losses=1)),
        ),
        ("checkpoints", Job(id=JobId("a"), roles=(Role(name="worker", request=(("gpu", 1),)),), checkpoints=False)),
        ("limit", Job(id=JobId("a"), roles=(Role(name="worker", request=(("cpu", 500),), limit=(("cpu", 900),)),))),
        ("resources", Job(id=JobId("a"), roles=(Role(name="worker", request=(("fpga", 1),)),))),
        ("selector", Job(id=JobId("a"), roles=(Role(name="worker", request=(("gpu", 1),), selector=(("a", "b"),)),))),
    ],
)
def test_what_a_row_cannot_hold_is_not_dropped_in_silence(tmp_path, field, job):
    with pytest.raises(UserError, match=f"job 'a': a csv file holds no {field}; write .jsonl or .yaml instead"):
        write_workload(Trace(name="t", jobs=(job,)), tmp_path / "a.csv")


def test_a_csv_may_be_short(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,seconds,replicas,submit,deadline\nb,1.5h,4,2m,\na,90,,0,5m\n")
    first, second = open_workload(path).jobs
    assert (first.id, first.seconds, first.replicas, first.deadline) == ("a", 90, 1, 300)
    assert (second.id, second.seconds, second.replicas, second.submit, second.deadline) == ("b", 5400, 4, 120, None)
    assert second.roles[0].request == (("gpu", 1),)
    assert second.roles[0].min == second.roles[0].max == 4


def test_a_row_may_say_where_its_job_stops(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,target_metric,target_at_least,target_at_most\na,accuracy,0.93,\nb,,,0.5\nc,,,\n")
    a, b, c = open_workload(path).jobs
    assert a.target == Target(metric="accuracy", value=0.93, higher=True)
    assert b.target == Target(metric="loss", value=0.5)
    assert c.target is None


def test_a_workload_cannot_be_written_just_anywhere(tmp_path):
    trace = Trace(name="t", jobs=(Job(id=JobId("a"), roles=(Role(name="worker", request=(("gpu", 1),)),)),))
    with pytest.raises(UserError, match=r"must end in \.yaml, \.jsonl, \.csv"):
        write_workload(trace, tmp_path / "a.txt")
    with pytest.raises(UserError, match="cannot be written: No such file"):
        write_workload(trace, tmp_path / "no" / "a.csv")
    with pytest.raises(UserError, match="no true ones"):
        write_workload(replace(trace, truth={JobId("a"): 1.0}), tmp_path / "a.yaml")


@pytest.mark.parametrize("name", schemas())
def test_the_published_schema_is_that_of_the_code(name):
    published = (ROOT / "docs" / "schema" / name).read_bytes()
    assert published == schemas()[name], "run python -m headway.workload.json_schema docs"
