"""The published traces themselves, where they are at hand: HEADWAY_TRACES or ../shared/traces beside the repository."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from headway.workload.cluster import open_cluster
from headway.workload.open import open_workload
from headway.workload.origins.table import origins

TRACES = Path(os.environ.get("HEADWAY_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="the published traces are not on this machine")

COUNTS = {one.file: one.jobs for one in origins() if one.jobs} | {
    "chronus/trace_job_Philly_SLO.csv.gz": 30_940 - 205,
    "chronus/trace_job_Philly_MIX1.csv.gz": 30_940 - 184,
    "common/chronus_mix2_300.csv": 300,
    "sia/workloads/scale/scale_32x/workload-1.csv.gz": 5_120,
    "gavel/traces/msr/seed0/ee9e8c.trace.gz": 2_000,
    "shockwave/120_0.2_5_100_40_25_0_0.5_0.5_0.6_0.3_0.09_0.01_multigpu_dynamic.trace": 120,
}


@pytest.mark.parametrize("name", COUNTS)
def test_as_many_jobs_as_published(name):
    if not (TRACES / name).is_file():
        pytest.skip(f"{name} is not in the folder: `headway traces check` tells")
    trace = open_workload(TRACES / name)
    assert len(trace.jobs) == COUNTS[name]
    submits = [job.submit for job in trace.jobs]
    assert submits == sorted(submits)
    assert all(job.seconds is not None and job.seconds >= 0 for job in trace.jobs)


def test_philly_is_as_its_readme_says_and_quick():
    began = time.process_time()
    trace = open_workload(TRACES / "philly/philly_jobs.csv.gz")
    assert time.process_time() - began < 2.0
    assert len({job.queue for job in trace.jobs}) == 13
    assert trace.jobs[0].submit == 235_696
    assert sum(job.replicas == 1 for job in trace.jobs) / len(trace.jobs) == pytest.approx(0.942, abs=0.001)
    assert sum(job.replicas * job.seconds for job in trace.jobs) / 3600 == pytest.approx(732_000, rel=0.01)


def test_chronus_has_strict_soft_and_best_effort_jobs():
    trace = open_workload(TRACES / "common/chronus_mix2_300.csv")
    steps = Counter(min(2, len(trace.expectations.get(job.id, ()))) for job in trace.jobs)
    assert steps == {0: 34, 1: 82, 2: 184}


def test_hydra_has_its_finite_deadlines():
    trace = open_workload(TRACES / "hydra/20_ddl.csv.gz")
    assert sum(job.deadline is not None for job in trace.jobs) == 985


def test_clusters():
    assert sum(dict(node.capacity)["gpu"] for node in open_cluster(TRACES / "common/n32g4.csv")) == 128
    assert len(open_cluster(TRACES / "alibaba/openb_node_list_all_node.csv.gz")) == 1_523
    assert len(open_cluster(TRACES / "alibaba/spot_node_info.csv.gz")) == 4_278
    assert len(open_cluster(TRACES / "helios/venus_vc_nodes.csv")) == 135
