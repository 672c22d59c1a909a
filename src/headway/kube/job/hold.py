"""How a pod that is bound waits for the roles before its own: by a volume that is not there yet. Pure.

Example: `worker` comes after `ps`. All pods are created and bound at once, so nobody else gets their room. The workers
mount a ConfigMap that does not exist, and a kubelet starts no container before all its volumes are there. Once every
`ps` runs, Headway makes the ConfigMap. This needs no tool in the image, and no image of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headway.kube.api.objects import Meta

VOLUME = "headway-after"
FOLDER = "/var/run/headway.dev/after"


def hold_name(subdomain: str, attempt: int, role: str) -> str:
    """The ConfigMap for which the pods of a role wait in this attempt."""
    return f"{subdomain}-{attempt}-{role}"


def with_hold(spec: dict[str, Any], container: dict[str, Any], name: str) -> None:
    """The container that trains starts when there is a ConfigMap of this name."""
    volume = {"name": VOLUME, "configMap": {"name": name, "optional": False}}
    spec["volumes"] = [*(one for one in spec.get("volumes") or [] if one.get("name") != VOLUME), volume]
    mounts = [one for one in container.get("volumeMounts") or [] if one.get("name") != VOLUME]
    container["volumeMounts"] = [*mounts, {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]


def release_of(meta: Meta, name: str, pods: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The ConfigMap. It belongs to these pods of the attempt, by name and uid, and is deleted with the last of them."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid} for pod, uid in pods]
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": meta.namespace, "ownerReferences": owners},
        "immutable": True,
    }  # fmt: skip
