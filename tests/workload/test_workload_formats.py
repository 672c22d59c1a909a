"""Every published format, on a few rows made here in its published columns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tiny_traces import TINY

from headway.core.job import Job
from headway.workload.errors import WorkloadError
from headway.workload.open import FORMATS, guess, open_workload
from headway.workload.trace import Trace, compress, elastic, head, rebase, rigid

RAW_PHILLY = [
    {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "app_1",
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce",
        "attempts": [
            {
                "start_time": "2017-10-07 01:12:00",
                "end_time": "2017-10-07 01:13:00",
                "detail": [{"ip": "m1", "gpus": ["g0"]}],
            },
            {
                "start_time": "2017-10-07 01:13:30",
                "end_time": "2017-10-07 01:15:00",
                "detail": [{"ip": "m1", "gpus": ["g0", "g1"]}, {"ip": "m2", "gpus": ["g0"]}],
            },
        ],
    },
    {
        "status": "Killed",
        "vc": "v",
        "jobid": "app_2",
        "attempts": [],
        "submitted_time": "2017-10-07 01:00:00",
        "user": None,
    },
]


def opened(folder: Path, name: str) -> Trace:
    file, content = TINY[name]
    path = folder / file
    path.write_text(content)
    return open_workload(path)


def brief(job: Job) -> tuple[str, int, float, float | None]:
    return (job.id, job.replicas, job.submit, job.seconds)


@pytest.mark.parametrize("name", TINY)
def test_the_format_is_guessed_plain_and_gzipped_alike(tmp_path, name):
    file, content = TINY[name]
    plain, packed = tmp_path / file, tmp_path / f"{file}.gz"
    plain.write_text(content)
    packed.write_bytes(gzip.compress(content.encode()))
    assert guess(plain) == guess(packed) == name
    assert open_workload(plain).jobs == open_workload(packed).jobs == open_workload(plain, name).jobs


def test_every_format_has_a_tiny_file():
    assert set(FORMATS) - set(TINY) == {"yaml", "jsonl", "csv", "philly-log"}


def test_philly(tmp_path):
    trace = opened(tmp_path, "philly")
    assert [brief(job) for job in trace.jobs] == [("8", 1, 90, 30.5), ("7", 4, 100, 60)]
    assert trace.jobs[1].user == trace.jobs[1].queue == "aa"
    assert trace.notes == ("1 rows dropped: they ask for no GPU",)
    assert all(role.request == (("gpu", 1),) for job in trace.jobs for role in job.roles)


def test_equal_sizes_share_their_roles(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(TINY["philly"][1] + "10,96,2017-10-01 00:01:35,30,4,bb\n")
    wide = [job for job in open_workload(path).jobs if job.replicas == 4]
    assert len(wide) == 2
    assert wide[0].roles is wide[1].roles


def test_philly_raw_log(tmp_path):
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(RAW_PHILLY))
    trace = open_workload(path)
    assert [brief(job) for job in trace.jobs] == [("app_1", 3, 0, 150)]
    assert (trace.jobs[0].user, trace.jobs[0].queue) == ("ce", "ee9e8c")
    assert trace.notes == ("1 rows dropped: they were never given a GPU",)


def test_tiresias_with_and_without_a_tenant(tmp_path):
    trace = opened(tmp_path, "tiresias")
    assert [brief(job) for job in trace.jobs] == [("0", 1, 0, 164), ("1", 8, 30, 147)]
    assert (trace.jobs[1].steps, trace.jobs[1].model, trace.jobs[1].queue) == (133, "vgg11", "")
    path = tmp_path / "vc.csv"
    path.write_text(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval,vc\n0,1,0,1000,resnet50,9,2,6214e9\n"
    )
    assert open_workload(path).jobs[0].queue == "6214e9"


def test_elasticflow_keeps_deadline_and_true_duration(tmp_path):
    trace = opened(tmp_path, "elasticflow")
    assert [(job.deadline, job.steps, job.roles[0].min, job.roles[0].max) for job in trace.jobs] == [
        (771, 10, 1, 64),
        (2065, 20, 1, 64),
    ]
    assert trace.truth == {"1": 250}
    assert [trace.work(job) for job in trace.jobs] == [100, 250]


def test_itp_jobs_are_named_after_their_cluster(tmp_path):
    trace = opened(tmp_path, "itp")
    assert [(job.id, job.queue, job.deadline, job.replicas) for job in trace.jobs] == [
        ("c1-0", "c1", 120, 64),
        ("c2-0", "c2", 200, 1),
    ]


def test_chronus_is_in_minutes(tmp_path):
    trace = opened(tmp_path, "chronus")
    assert [brief(job) for job in trace.jobs] == [("1", 1, 120, 6360), ("2", 1, 180, 1200), ("0", 2, 600, 5760)]
    assert [job.deadline for job in trace.jobs] == [120 + 235 * 60, None, 600 + 159 * 60]
    assert trace.expectations == {
        "0": ((159 * 60, 10), (189 * 60, 8), (229 * 60, 5)),
        "1": ((235 * 60, 10),),
    }
    assert trace.notes[0] == "1 rows dropped: they ask for no GPU"


def test_pollux_has_fitted_durations(tmp_path):
    trace = opened(tmp_path, "pollux")
    cifar, ncf, new = trace.jobs
    assert ncf.seconds == pytest.approx(1443, rel=0.01)  # one replica at the base batch size: the fit's own constant
    assert ncf.steps == 194_174
    assert 500 < cifar.seconds < 1500
    assert cifar.roles[0].max == 64
    assert new.seconds is None
    assert "1 jobs run new, of which no duration is known" in trace.notes


def test_helios_counts_from_the_first_gpu_submission_and_finds_its_nodes(tmp_path):
    (tmp_path / "vc_config.csv").write_text(",num\nvcX,2\nvcY,1\n")
    trace = opened(tmp_path, "helios")
    assert [brief(job) for job in trace.jobs] == [("11", 8, 0, 36848), ("13", 1, 30, 245)]
    assert (trace.jobs[0].user, trace.jobs[0].queue) == ("uA", "vcX")
    assert [(node.name, node.labels) for node in trace.nodes] == [
        ("vcX-0", (("vc", "vcX"),)),
        ("vcX-1", (("vc", "vcX"),)),
        ("vcY-0", (("vc", "vcY"),)),
    ]


def test_lucid_names_model_and_data(tmp_path):
    trace = opened(tmp_path, "lucid")
    assert [(job.submit, job.model) for job in trace.jobs] == [(0, "resnet18-cifar-10"), (30, "bert-squad")]


def test_acme_minds_time_zones(tmp_path):
    trace = opened(tmp_path, "acme")
    assert [brief(job) for job in trace.jobs] == [("d", 1, 0, 5), ("a", 8, 10, 117)]
    assert set(trace.notes) == {"1 rows dropped: they ask for no GPU", "1 rows dropped: they have no duration"}


def test_acme_converted(tmp_path):
    assert [brief(job) for job in opened(tmp_path, "acme-converted").jobs] == [("0", 32, 3, 150)]


def test_pai_declares_the_estimate_and_knows_the_truth(tmp_path):
    trace = opened(tmp_path, "pai")
    assert [brief(job) for job in trace.jobs] == [("2", 2, 5, 60), ("1", 1, 10, 80.5)]
    assert trace.truth == {"1": 100}
    assert "1 jobs ask for a part of a GPU and were given a whole one" in trace.notes


def test_pai_tasks_make_jobs(tmp_path):
    (tmp_path / "pai_job_table.csv").write_text("jobA,i,userA,Terminated,90.0,260.0\n")
    trace = opened(tmp_path, "pai-tasks")
    assert [brief(job) for job in trace.jobs] == [("jobC", 1, 50, 1), ("jobA", 4, 100, 160)]
    assert trace.jobs[1].user == "userA"
    assert "1 rows dropped: they have no recorded start or end" in trace.notes


def test_hydra_has_a_duration_per_accelerator(tmp_path):
    trace = opened(tmp_path, "hydra")
    assert [(job.id, job.seconds, job.deadline) for job in trace.jobs] == [("x", 10, None), ("y", 5, 99)]
    assert trace.seconds_on["x"] == {"A100": 10, "V100": 15, "GTX2080Ti": 26}


def test_openb_pods_and_nodes(tmp_path):
    (tmp_path / "openb_node_list_all_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,8,V100M32\nn1,32000,262144,0,\n"
    )
    trace = opened(tmp_path, "openb")
    shared, whole, cpu, t4 = (job.roles[0] for job in trace.jobs)
    assert shared.request == (("cpu", 12000), ("gpu_milli", 460), ("memory", 16384))
    assert whole.amount("gpu_milli") == 8000
    assert cpu.request == (("cpu", 6000), ("memory", 12288))
    assert (t4.accelerator, whole.accelerator) == ("T4", "")
    assert set(whole.selector) <= set(trace.nodes[0].labels)
    assert trace.nodes[1].labels == ()
    assert [job.seconds for job in trace.jobs] == [90, 45, 42, 41]
    assert "1 jobs were never scheduled and count from creation to deletion" in trace.notes


def test_openb_without_times(tmp_path):
    path = tmp_path / "openb_pod_list_multigpu50.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,12000,16384,1,1000\n")
    trace = open_workload(path)
    assert trace.jobs[0].seconds is None
    assert trace.notes == ("1 jobs have no times: this list holds none",)


def test_gavel_takes_durations_from_a_table_above(tmp_path):
    table = {
        "k80": {"('A3C', 1)": {"null": 2.0, "('X', 1)": [1.0, 1.0]}},
        "v100": {"('A3C', 1)": {"null": 4.0}, "('ResNet-18 (batch size 128)', 2)": {"null": 100.0}},
        "v100_unconsolidated": {"('A3C', 1)": {"null": 40.0}},
    }
    (tmp_path / "simulation_throughputs.json").write_text(json.dumps(table))
    folder = tmp_path / "traces" / "physical"
    folder.mkdir(parents=True)
    trace = opened(folder, "gavel")
    resnet, a3c = trace.jobs
    assert (a3c.seconds, a3c.submit, a3c.deadline, a3c.steps) == (150, 30.5, 330.5, 600)
    assert trace.seconds_on[a3c.id] == {"k80": 300, "v100": 150}
    assert (resnet.seconds, resnet.replicas, resnet.model) == (90, 4, "gavel-resnet-18")
    assert trace.notes[0] == "1 jobs have the speed of the next smaller scale, because theirs was not measured"


def test_gavel_without_a_table_says_so(tmp_path):
    trace = opened(tmp_path, "gavel")
    assert trace.jobs[0].seconds is None
    assert trace.notes == ("2 jobs have no duration: give a throughput table", "no throughput table was found")


def test_gavels_other_layout_and_shockwave(tmp_path):
    msr = tmp_path / "vc.trace"
    msr.write_text("A3C\tcmd\t-n\t1\t95121\t6.5\t2\n")
    assert [(job.steps, job.submit, job.replicas) for job in open_workload(msr).jobs] == [(95121, 6.5, 2)]
    shockwave = tmp_path / "120.trace"
    shockwave.write_text("LM (batch size 10)\tcmd\tlm\t--steps\t1\t134583\t1\tgns\t1\t-1.000000\t1418\t55\n")
    trace = open_workload(shockwave)
    assert [brief(job) for job in trace.jobs] == [("0", 1, 55, 1418)]
    assert trace.name == "shockwave/120"


def test_traces_can_be_compressed_rebased_and_cut(tmp_path):
    trace = opened(tmp_path, "itp")
    quick = compress(trace, 2)
    assert [(job.submit, job.deadline) for job in quick.jobs] == [(5, 115), (5.5, 194.5)]
    assert [(job.submit, job.deadline) for job in rebase(trace).jobs] == [(0, 110), (1, 190)]
    assert len(head(trace, 1).jobs) == 1
    with pytest.raises(WorkloadError, match="give a number above 0"):
        compress(trace, 0)


def test_traces_can_be_made_rigid_and_elastic(tmp_path):
    def sizes(trace):
        return [(role.min, role.replicas, role.max) for job in trace.jobs for role in job.roles]

    trace = opened(tmp_path, "elasticflow")
    assert sizes(trace) == [(1, 1, 64), (1, 4, 64)]
    assert sizes(rigid(trace)) == [(1, 1, 1), (4, 4, 4)]
    assert sizes(elastic(rigid(trace), most=2)) == [(1, 1, 2), (1, 4, 4)]
    assert sizes(elastic(rigid(trace), most=8, least=2)) == [(1, 1, 8), (2, 4, 8)]
    assert [job.deadline for job in rigid(trace).jobs] == [job.deadline for job in trace.jobs]
