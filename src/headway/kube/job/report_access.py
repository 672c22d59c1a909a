"""What a pod needs to report: a token of its service account for Headway only, and whom to trust. Pure.

The kubelet puts the token into a file and renews it. The API server binds it to this pod: it names no other, and is
void once the pod is deleted.
"""

from __future__ import annotations

from typing import Any

from headway.kube.settings import PodDefaults

AUDIENCE = "headway"
FOLDER = "/var/run/secrets/headway.dev"
VOLUME = "headway-token"
TOKEN_SECONDS = 3600
"""How long a token is valid; the kubelet renews it after four fifths of that."""


def report_environment(defaults: PodDefaults) -> dict[str, str]:
    if not defaults.progress:
        return {}
    found = {"HEADWAY_PROGRESS": defaults.progress}
    if defaults.authority:
        found |= {"HEADWAY_PROGRESS_CA": defaults.authority, "HEADWAY_PROGRESS_TOKEN": f"{FOLDER}/token"}
    return found


def with_token(spec: dict[str, Any], container: dict[str, Any], defaults: PodDefaults) -> None:
    """Adds the token to the pod and mounts it in the container that trains. A template's own of the same name goes."""
    if not defaults.authority:
        return
    source = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    volume = {"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": source}]}}
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    others = [one for one in spec.get("volumes") or [] if one.get("name") != VOLUME]
    spec["volumes"] = [*others, volume]
    mounts = [one for one in container.get("volumeMounts") or [] if one.get("mountPath") != FOLDER]
    container["volumeMounts"] = [*(one for one in mounts if one.get("name") != VOLUME), mount]
