"""The environment that stock scripts read: ranks without gaps, one address of rank 0, the whole cluster."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from headway.core.job import Can, Job, JobId, Role
from headway.rendezvous import MASTER_PORT, Rendezvous, variables


def a_rendezvous(counts: dict[str, int], **more: object) -> Rendezvous:
    addresses = {role: {i: f"{role}-{i}.job:2222" for i in range(count)} for role, count in counts.items()}
    return Rendezvous(job="j", addresses=addresses, **more)  # type: ignore[arg-type]


def of(where: Rendezvous, role: str, index: int, **more: object) -> dict[str, str]:
    return variables(where, role, index, **({"own": {}} | more))  # type: ignore[arg-type]


def test_workers_have_ranks_and_a_parameter_server_has_none():
    where = a_rendezvous({"ps": 1, "worker": 2})
    server, second = of(where, "ps", 0), of(where, "worker", 1)
    assert (second["RANK"], second["WORLD_SIZE"], second["NODE_RANK"]) == ("1", "2", "1")
    assert (second["MASTER_ADDR"], second["MASTER_PORT"]) == ("worker-0.job", str(MASTER_PORT))
    assert (server["MASTER_ADDR"], server["MASTER_PORT"]) == ("worker-0.job", str(MASTER_PORT))
    assert not {"RANK", "WORLD_SIZE", "JAX_PROCESS_ID", "PET_NNODES"} & set(server)
    assert json.loads(server["TF_CONFIG"]) == {
        "cluster": {"ps": ["ps-0.job:2222"], "worker": ["worker-0.job:2222", "worker-1.job:2222"]},
        "task": {"type": "ps", "index": 0},
    }


def test_a_master_comes_first_wherever_it_stands_and_is_tensorflows_chief():
    where = a_rendezvous({"worker": 2, "master": 1, "evaluator": 1})
    assert where.ranked() == (("master", 0), ("worker", 0), ("worker", 1))
    assert of(where, "worker", 1)["MASTER_ADDR"] == "master-0.job"
    seen = json.loads(of(where, "evaluator", 0)["TF_CONFIG"])
    assert set(seen["cluster"]) == {"chief", "worker"}
    assert seen["task"] == {"type": "evaluator", "index": 0}
    assert json.loads(of(where, "master", 0)["TF_CONFIG"])["task"] == {"type": "chief", "index": 0}


def test_a_role_of_any_name_trains_and_is_tensorflows_worker():
    where = a_rendezvous({"main": 2})
    assert of(where, "main", 1)["RANK"] == "1"
    assert json.loads(of(where, "main", 1)["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert a_rendezvous({"ps": 2}).ranked() == (("ps", 0), ("ps", 1)), "a job of parameter servers alone"


def test_a_job_of_one_is_a_world_of_one_and_pretends_no_launcher():
    alone = of(a_rendezvous({"main": 1}), "main", 0)
    assert (alone["RANK"], alone["WORLD_SIZE"], alone["MASTER_PORT"]) == ("0", "1", str(MASTER_PORT))
    assert "TF_CONFIG" not in alone
    assert not [name for name in alone if name.startswith("OMPI")]


def test_what_the_job_sets_wins_and_its_own_port_counts_everywhere():
    seen = of(a_rendezvous({"worker": 2}), "worker", 1, own={"MASTER_PORT": "7", "RANK": "9"})
    assert not {"MASTER_PORT", "RANK"} & set(seen)
    assert seen["PET_RDZV_ENDPOINT"] == seen["JAX_COORDINATOR_ADDRESS"] == "worker-0.job:7"


def test_torchrun_is_told_a_process_per_gpu_and_the_bounds_of_a_job_that_scales():
    worker = Role(name="worker", replicas=2, min=1, max=4)
    addresses = {"ps": {0: "s:1"}, "worker": {0: "a:1", 1: "b:1"}}
    jobs = {
        "joins": Job(id=JobId("j"), roles=(Role(name="ps", max=9), worker)),
        "starts anew": Job(id=JobId("j"), roles=(worker,), saves_itself=True),
        "keeps its size": Job(id=JobId("j"), roles=(worker,), can=Can.SIZE | Can.STOP),
    }
    seen = {name: of(Rendezvous.of(job, 3, addresses, 7), "worker", 0, gpus=8) for name, job in jobs.items()}
    assert {name: one["PET_NNODES"] for name, one in seen.items()} == {
        "joins": "1:4", "starts anew": "2", "keeps its size": "2",
    }  # fmt: skip
    assert (seen["joins"]["PET_NPROC_PER_NODE"], seen["joins"]["PET_RDZV_ID"]) == ("8", "j-3")
    assert seen["joins"]["JAX_LOCAL_DEVICE_IDS"] == "0,1,2,3,4,5,6,7"


def test_jax_finds_its_launcher_in_a_world_that_shrank_to_one():
    job = Job(id=JobId("j"), roles=(Role(name="worker", replicas=2, min=1, max=2),), saves_itself=True)
    seen = of(Rendezvous.of(job, 0, {"worker": {0: "a:1"}}, 7), "worker", 0)
    assert (seen["OMPI_COMM_WORLD_SIZE"], seen["OMPI_COMM_WORLD_RANK"]) == ("1", "0")


def test_jax_listens_on_this_machine_only_if_all_are_here():
    here = Rendezvous(job="j", addresses={"worker": {0: "127.0.0.1:1", 1: "127.0.0.1:2"}}, master_port=3)
    assert of(here, "worker", 1)["JAX_COORDINATOR_BIND_ADDRESS"] == "127.0.0.1:3"
    assert "JAX_COORDINATOR_BIND_ADDRESS" not in of(a_rendezvous({"worker": 2}), "worker", 1)
    six = Rendezvous(job="j", addresses={"worker": {0: "[fd00::1]:1", 1: "[fd00::2]:1"}})
    assert of(six, "worker", 1)["MASTER_ADDR"] == "fd00::1"
    assert of(six, "worker", 1)["JAX_COORDINATOR_ADDRESS"] == f"[fd00::1]:{MASTER_PORT}"


@given(st.dictionaries(
    st.sampled_from(["ps", "worker", "chief", "master", "evaluator", "main"]),
    st.sets(st.integers(0, 30), max_size=4), min_size=1,
).filter(lambda found: any(found.values())))  # fmt: skip
def test_ranks_have_no_gaps_whatever_the_indices_are(indices):
    where = Rendezvous(job="j", addresses={role: {i: f"h{i}:1" for i in found} for role, found in indices.items()})
    everyone = [(role, index) for role, found in indices.items() for index in found]
    seen = [of(where, role, index) for role, index in everyone]
    ranks = sorted(int(one["RANK"]) for one in seen if "RANK" in one)
    assert ranks == list(range(len(ranks)))
    assert {one["WORLD_SIZE"] for one in seen if "RANK" in one} == {str(len(ranks))}
    assert len({(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in seen}) == 1
