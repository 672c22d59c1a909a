"""Stable host names of a job's replicas, and the headless Service that makes them known. Pure.

Example: replica 1 of role `worker` of job `mnist` is `worker-1.mnist-1a2b3c4d` for all pods of its namespace, in every
attempt and on every node. The name ends with the first digits of the job's uid: a job that is submitted again under
the same name has other hosts. A job that never has more than one replica needs no Service: a pod knows its own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from headway.core.job import Job
from headway.kube.api.objects import API_VERSION, KIND, LABEL_JOB, Meta

PORT = 2222
"""The port on which every replica may listen: each pod has its own address."""


def subdomain_of(meta: Meta, job: Job) -> str:
    """The name of the job's Service; empty if the job needs none."""
    if sum(role.max for role in job.roles) <= 1:
        return ""
    name = re.sub(r"[^a-z0-9]+", "-", f"{meta.name}-{meta.uid[:8]}".lower()).strip("-")
    return name if name[0].isalpha() else f"j{name}"


def hostname(role: str, index: int) -> str:
    return f"{role}-{index}"


def addresses(role: str, indexes: Iterable[int], subdomain: str) -> tuple[str, ...]:
    """Where these replicas may listen, as `host:port`."""
    tail = f".{subdomain}" if subdomain else ""
    return tuple(f"{hostname(role, index)}{tail}:{PORT}" for index in indexes)


def indexed(listening: Iterable[str]) -> dict[int, str]:
    """The same by index, from the addresses alone."""
    return {int(one.partition(":")[0].partition(".")[0].rpartition("-")[2]): one for one in listening}


def owner(meta: Meta) -> dict[str, Any]:
    """What belongs to the job is deleted with it."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": meta.name, "uid": meta.uid,
            "controller": True, "blockOwnerDeletion": False}  # fmt: skip


def service_of(meta: Meta, subdomain: str) -> dict[str, Any]:
    """Names are known before a pod is ready: replicas wait for each other before they are."""
    labels = {LABEL_JOB: meta.name}
    return {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": subdomain, "namespace": meta.namespace, "labels": labels,
                     "ownerReferences": [owner(meta)]},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels,
                 "ports": [{"name": "replica", "port": PORT}]},
    }  # fmt: skip
