"""How many pods a gang of others has, read from its object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Forbidden, NotFound
from headway.kube.intake.groups import JOBSET, GroupRead, GroupRef, size_of_job, size_of_job_set, size_of_pod_group

SCHEDULING = "scheduling.k8s.io"
POD_GROUPS = "podgroups"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] = []


class _Named(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Named] = []


async def group_read(client: Client, ref: GroupRef) -> GroupRead:
    """Never raises: who asked must not wait for ever."""
    try:
        return GroupRead(ref, await _size(client, ref))
    except NotFound:
        return GroupRead(ref, None, f"its {ref.kind} {ref.name} is not there")
    except Forbidden as error:
        return GroupRead(ref, None, f"its {ref.kind} {ref.name} may not be read: {error}; see `--install --beside`")
    except (ApiError, ValueError, TypeError, AttributeError) as error:
        return GroupRead(ref, None, f"its {ref.kind} {ref.name} cannot be read: {error}")


async def _size(client: Client, ref: GroupRef) -> int:
    if ref.kind == "Job":
        return size_of_job(await _get(client, f"/apis/batch/v1/namespaces/{ref.namespace}/jobs/{ref.name}"))
    if ref.kind == "JobSet":
        path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{ref.namespace}/jobsets/{ref.name}"
        found = await _get(client, path)
        return max(1, size_of_job_set(found) - await _done(client, ref, found))
    version = await served(client)
    path = f"/apis/{SCHEDULING}/{version}/namespaces/{ref.namespace}/{POD_GROUPS}/{ref.name}"
    return size_of_pod_group(await _get(client, path))


async def _done(client: Client, ref: GroupRef, found: Mapping[str, Any]) -> int:
    """How many pods of this attempt of a JobSet have succeeded: its own status counts Jobs."""
    attempt = int((found.get("status") or {}).get("restarts") or 0)
    labels = quote(f"{JOBSET}={ref.name},{ATTEMPT}={attempt}", safe=",")
    query = f"labelSelector={labels}&fieldSelector={quote('status.phase=Succeeded')}"
    return len((await _get(client, f"/api/v1/namespaces/{ref.namespace}/pods?{query}")).get("items") or [])


async def served(client: Client) -> str:
    """The newest version of PodGroup that the API server has. Raises NotFound if it has none."""
    listed = msgspec.json.decode(await client.get(f"/apis/{SCHEDULING}"), type=_Group)
    for one in listed.versions:
        found = msgspec.json.decode(await client.get(f"/apis/{SCHEDULING}/{one.version}"), type=_Resources)
        if any(resource.name == POD_GROUPS for resource in found.resources):
            return one.version
    raise NotFound(404, "this API server has no PodGroups")


async def _get(client: Client, path: str) -> Mapping[str, Any]:
    found = json.loads(await client.get(path))
    if not isinstance(found, Mapping):
        raise TypeError("it is no object")
    return found
