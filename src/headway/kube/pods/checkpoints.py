"""Each job sees its own folder of the checkpoint volume, and nothing else of it. Pure.

Example: the cluster's template mounts volume `checkpoints` at /checkpoints, and `--checkpoints /checkpoints` names that
folder. The pods of job `textures` in namespace vision get the mount /checkpoints/vision/textures-1a2b3c4d with the
subPath vision/textures-1a2b3c4d in its place. The kubelet makes the folder.

This is done after the job's own template is merged, for all containers: a job that mounts the volume by its name, in a
container or init container of its own and with whatever subPath, gets its own folder, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from headway.kube.api.objects import Meta

CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointVolume:
    """The volume of the cluster's template in which jobs keep their checkpoints."""

    definition: Mapping[str, Any]
    """As in the template's `volumes`."""
    mounted: str
    """Where the container that trains has it."""
    inside: str = ""
    """The subPath of that mount, if it has one."""

    @property
    def name(self) -> str:
        return str(self.definition["name"])


def find_volume(template: Mapping[str, Any], container: str, root: str) -> CheckpointVolume | None:
    """The volume whose mount holds `root`, the innermost if there are several. Raises ValueError."""
    spec = template.get("spec") or {}
    mounts = [
        mount for one in spec.get("containers") or () if one.get("name") == container
        for mount in one.get("volumeMounts") or () if PurePosixPath(root).is_relative_to(str(mount.get("mountPath")))
    ]  # fmt: skip
    if not root or not mounts:
        return None
    mount = max(mounts, key=lambda found: len(PurePosixPath(found["mountPath"]).parts))
    if mount.get("subPathExpr"):
        raise ValueError(f"the mount {mount['mountPath']} has a subPathExpr; give it a subPath, or none")
    definition = next((one for one in spec.get("volumes") or () if one.get("name") == mount.get("name")), None)
    if definition is None:
        raise ValueError(f"the mount {mount['mountPath']} names volume {mount.get('name')!r}, which is not in volumes")
    return CheckpointVolume(
        definition=definition, mounted=str(mount["mountPath"]), inside=str(mount.get("subPath") or "")
    )


def checkpoint_folder(root: str, meta: Meta) -> str:
    """The job's folder. Its name has the uid: a job that is deleted and submitted again starts from zero."""
    return f"{root.rstrip('/')}/{meta.namespace}/{meta.name}-{meta.uid[:8]}"


def narrow(spec: Mapping[str, Any], volume: CheckpointVolume, folder: str) -> dict[str, Any]:
    """A pod's spec in which every mount of the volume shows only the job's folder, and the volume is the cluster's."""
    within = str(PurePosixPath(volume.inside) / PurePosixPath(folder).relative_to(volume.mounted))
    others = [one for one in spec.get("volumes") or () if one.get("name") != volume.name]
    changed: dict[str, Any] = {"volumes": [*others, dict(volume.definition)]}
    for kind in CONTAINER_LISTS:
        if spec.get(kind):
            changed[kind] = [_seeing(container, volume, within, folder) for container in spec[kind]]
    return {**spec, **changed}


def _seeing(container: Mapping[str, Any], volume: CheckpointVolume, within: str, folder: str) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if mounts := container.get("volumeMounts"):
        narrowed = (_narrowed(mount, volume, within, folder) for mount in mounts)
        changed["volumeMounts"] = list({mount.get("mountPath"): mount for mount in narrowed}.values())
    if devices := container.get("volumeDevices"):
        changed["volumeDevices"] = [one for one in devices if one.get("name") != volume.name]
    return {**container, **changed}


def _narrowed(mount: dict[str, Any], volume: CheckpointVolume, within: str, folder: str) -> dict[str, Any]:
    if mount.get("name") != volume.name:
        return mount
    kept = {key: value for key, value in mount.items() if key != "subPathExpr"}
    at = folder if mount.get("mountPath") == volume.mounted else mount.get("mountPath")
    return kept | {"mountPath": at, "subPath": within}
