"""Whatever a file holds, it is read or refused in one sentence; nothing else comes out of the readers."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tiny_traces import PHILLY_LOG, TINY

from headway.core.errors import UserError
from headway.workload.cluster import open_cluster
from headway.workload.open import open_workload

OWN = {
    "csv": (
        "a.csv",
        ("name,submit,seconds,replicas,min,max,gpu,cpu,memory,deadline\na,0,5,2,1,4,1,500m,2Gi,9\nb,1,5,1,,,1,,,\n"),
    ),
    "jsonl": (
        "a.jsonl",
        ('{"name":"a","gpu":1,"seconds":"5m"}\n{"name":"b","roles":{"ps":{"cpu":1},"worker":{"gpu":2}}}\n'),
    ),
    "yaml": ("a.yaml", "nodes: [{gpu: 4}]\njobs: [{name: a, gpu: 1, seconds: 5}, {name: b, replicas: 2, cpu: 500m}]\n"),
    "philly-log": ("cluster_job_log", PHILLY_LOG),
}
FILES = {**TINY, **OWN}
NASTY = [
    "",
    "-1",
    "0",
    "nan",
    "inf",
    "1e400",
    "1e15",
    "99999999999999999999",
    "0.5",
    "x",
    '"',
    ",",
    "\t",
    "\n",
    "é",
    "None",
    "9" * 3000,
    "[" * 3000,
]
cuts = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(NASTY))


def mangled(content: str, changes: list[tuple[float, int, str]]) -> str:
    for at, length, put in changes:
        start = int(at * len(content))
        content = content[:start] + put + content[start + length :]
    return content


def read_or_refused(read, path):
    refusal = ""
    try:
        return read()
    except UserError as error:
        refusal = str(error)
    assert path in refusal
    assert "\n" not in refusal
    assert len(refusal) < 1000 + len(path)
    return None


@pytest.mark.parametrize("name", FILES)
@given(changes=st.lists(cuts, min_size=1, max_size=3))
@example(changes=[(0.0, 10**6, "")])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mangled_workload_is_read_or_refused(tmp_path, name, changes):
    file, content = FILES[name]
    path = tmp_path / file
    path.write_text(mangled(content, changes), newline="")
    trace = read_or_refused(lambda: open_workload(path, name), str(path))
    if trace is None:
        return
    assert len({job.id for job in trace.jobs}) == len(trace.jobs) > 0
    for job in trace.jobs:
        assert math.isfinite(job.submit)
        assert job.seconds is None or 0 <= job.seconds < math.inf
        assert all(role.replicas >= 1 for role in job.roles) or name in OWN
        assert all(0 <= amount <= 2**31 - 1 for role in job.roles for _, amount in role.request)


CLUSTERS = {
    "a.yaml": "nodes:\n- {name: a, count: 2, gpu: 8, domain: rack1}\n- {name: b, cpu: 4, memory: 2Gi}\n",
    "spec.csv": "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,3,4,40,256\n",
    "openb.csv": "sn,cpu_milli,memory_mib,gpu,model\na,32000,1024,2,T4\nb,32000,1024,0,\n",
    "spot.csv": "gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,2\n",
    "vc.csv": ",num\nvcX,2\n",
}


@pytest.mark.parametrize("name", CLUSTERS)
@given(changes=st.lists(cuts, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mangled_cluster_is_read_or_refused(tmp_path, name, changes):
    path = tmp_path / name
    path.write_text(mangled(CLUSTERS[name], changes), newline="")
    nodes = read_or_refused(lambda: open_cluster(path), str(path))
    if nodes is None:
        return
    assert len({node.name for node in nodes}) == len(nodes) > 0
    assert all(0 <= amount <= 2**31 - 1 for node in nodes for _, amount in node.capacity)
