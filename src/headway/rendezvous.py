"""How the replicas of a job find each other: the environment that stock training scripts read. Pure.

Example: a job of one `ps` and two `worker` replicas. The workers have `RANK` 0 and 1 and a `WORLD_SIZE` of 2. All
three know `MASTER_ADDR` and `MASTER_PORT`, where worker 0 may listen, and the whole cluster by `TF_CONFIG`.

Which roles have ranks: all that train. `ps` and `evaluator` do not, unless there is no other role. `chief` and `master`
come first, then the others in the order of the file; within a role the order is by index. Ranks have no gaps.

docs/frameworks.md lists the variables, and which framework reads which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headway.core.job import Can, Job

FIRST = ("chief", "master")
"""Roles whose first replica has rank 0, wherever they stand in the file."""
UNRANKED = ("ps", "evaluator")
"""Roles that serve or look on: they have no rank."""
MASTER_PORT = 29500
"""Where rank 0 listens if each replica has an address of its own: the port that torch takes by default."""
LONGEST = 120_000
"""Characters of a variable: with more, the kernel would not start the program. About 3,000 replicas fit."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TENSORFLOW_ROLES = ("chief", "worker", "ps", "evaluator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Where the replicas of one attempt of a job are. All of them are given the same."""

    job: str
    attempt: int = 0
    addresses: Mapping[str, Mapping[int, str]]
    """Role → index → `host:port`, where that replica may listen. Roles are in the order of the file."""
    master_port: int = MASTER_PORT
    """A second port of the replica of rank 0, for the framework's own store or coordinator."""
    min: int = 1
    max: int = 1
    """Min and max of the replicas with a rank."""
    joins: bool = False
    """Replicas may come and go while the others train on."""

    @classmethod
    def of(cls, job: Job, attempt: int, addresses: Mapping[str, Mapping[int, str]], master_port: int) -> Rendezvous:
        roles = [role for role in job.roles if role.name not in UNRANKED] or job.roles
        least, most = sum(role.min for role in roles), sum(role.max for role in roles)
        return cls(
            job=job.id, attempt=attempt, addresses=addresses, master_port=master_port, min=max(1, least), max=most,
            joins=bool(job.can & Can.SCALE) and not job.saves_itself,
        )  # fmt: skip

    def ranked(self) -> tuple[tuple[str, int], ...]:
        """The replicas with a rank, in its order: role and index."""
        present = [role for role, replicas in self.addresses.items() if replicas]
        roles = [role for role in present if role not in UNRANKED] or present
        roles.sort(key=lambda role: role not in FIRST)
        return tuple((role, index) for role in roles for index in sorted(self.addresses[role]))


def variables(where: Rendezvous, role: str, index: int, *, gpus: int = 0, own: Mapping[str, str]) -> dict[str, str]:
    """The environment of one replica. `own` is what the job's file sets for it: that wins, and is not in the answer.

    Its own `MASTER_ADDR` and `MASTER_PORT` also count for the variables that name both.
    """
    ranked = where.ranked()
    host, port = _master(where, ranked, own)
    endpoint = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    found = {"MASTER_ADDR": host, "MASTER_PORT": port}
    if (role, index) in ranked:
        rank, size = ranked.index((role, index)), len(ranked)
        found |= _torch(where, rank, size, endpoint, gpus) | _jax(
            rank, size, endpoint, gpus, alone=max(size, where.max) == 1
        )
        if host in _LOOPBACK:
            found["JAX_COORDINATOR_BIND_ADDRESS"] = endpoint  # else it listens to the whole network
    config = _tensorflow(where, role, index) if sum(map(len, where.addresses.values())) > 1 else ""
    if 0 < len(config) <= LONGEST:
        found["TF_CONFIG"] = config
    return {name: value for name, value in found.items() if name not in own}


def _master(where: Rendezvous, ranked: tuple[tuple[str, int], ...], own: Mapping[str, str]) -> tuple[str, str]:
    role, index = ranked[0]
    host = where.addresses[role][index].rpartition(":")[0]
    return own.get("MASTER_ADDR") or host.strip("[]"), own.get("MASTER_PORT") or str(where.master_port)


def _torch(where: Rendezvous, rank: int, size: int, endpoint: str, gpus: int) -> dict[str, str]:
    """For `init_process_group("env://")`, and, from `PET_` on, for torchrun, which starts a process per GPU."""
    nodes = f"{where.min}:{where.max}" if where.joins and where.min < where.max else str(size)
    return {
        "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": str(rank), "GROUP_RANK": str(rank),
        "PET_NNODES": nodes,
        "PET_NPROC_PER_NODE": str(max(1, gpus)),
        "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": endpoint, "PET_RDZV_ID": f"{where.job}-{where.attempt}",
    }  # fmt: skip


def _jax(rank: int, size: int, endpoint: str, gpus: int, *, alone: bool) -> dict[str, str]:
    """For `jax.distributed.initialize()`.

    Jax reads the first by itself. The next two are what scripts pass on. Without arguments it looks for a launcher that
    it knows; the rest is what it finds under Open MPI. The devices are named, or each process would see only one.
    """
    found = {"JAX_COORDINATOR_ADDRESS": endpoint, "JAX_NUM_PROCESSES": str(size), "JAX_PROCESS_ID": str(rank)}
    if alone:
        return found
    devices = ",".join(str(number) for number in range(max(1, gpus)))
    return found | {
        "JAX_LOCAL_DEVICE_IDS": devices, "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{endpoint}",
        "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }  # fmt: skip


def _tensorflow(where: Rendezvous, role: str, index: int) -> str:
    """The cluster without evaluators, as TensorFlow wants it, and which task this is."""
    named = {role: role for role in where.addresses}
    if "master" in named and "chief" not in named:
        named["master"] = "chief"
    ranked = [one for one in dict.fromkeys(role for role, _ in where.ranked()) if named[one] not in _TENSORFLOW_ROLES]
    if len(ranked) == 1 and "worker" not in named.values():
        named[ranked[0]] = "worker"  # a role of another name that trains
    cluster = {
        named[one]: [replicas[number] for number in sorted(replicas)]
        for one, replicas in where.addresses.items()
        if replicas and named[one] != "evaluator"
    }
    place = sorted(where.addresses[role]).index(index)
    return json.dumps({"cluster": cluster, "task": {"type": named[role], "index": place}})
