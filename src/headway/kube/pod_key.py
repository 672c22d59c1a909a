"""The key of the marks on pods: one Secret in Headway's own namespace.

The first scheduler makes it, all later ones read it, and so know the pods of those before them. Nobody needs to rotate
it. Whoever deletes it has every running job start again from its checkpoint, at the next start of Headway.
"""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
from typing import Any

from headway.kube.api.access import Access
from headway.kube.api.client import Client, loads
from headway.kube.api.errors import ApiError, Conflict, KubeError, NotFound

log = logging.getLogger("headway.kube")
SECRET = "headway-pods"  # noqa: S105  its name
FIELD = "key"
KEY_BYTES = 32


async def find_pod_key(access: Access, namespace: str) -> bytes:
    """Reads the Secret; makes it if there is none. Of two that make it at the same time one is kept."""
    async with Client(access) as client:
        return await ensure_pod_key(client, namespace)


async def ensure_pod_key(client: Client, namespace: str) -> bytes:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    try:
        try:
            return _read(loads(await client.get(f"{path}/{SECRET}")), namespace)
        except NotFound:
            made = secrets.token_bytes(KEY_BYTES)
        try:
            await client.post(path, _secret(made))
        except Conflict:
            return _read(loads(await client.get(f"{path}/{SECRET}")), namespace)
    except ApiError as error:
        raise KubeError(
            f"Secret {SECRET} in namespace {namespace} cannot be read or made: {error.message}; "
            "run `headway schedule --install`, or give --system-namespace"
        ) from error
    log.info("made Secret %s in namespace %s: the key of the marks on pods", SECRET, namespace)
    return made


def _secret(key: bytes) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": SECRET},
        "data": {FIELD: base64.b64encode(key).decode()},
    }  # fmt: skip


def _read(secret: dict[str, Any], namespace: str) -> bytes:
    try:
        key = base64.b64decode(secret["data"][FIELD], validate=True)
    except (LookupError, TypeError, ValueError, binascii.Error):
        key = b""
    if not KEY_BYTES <= len(key) <= 64:
        raise KubeError(f"Secret {SECRET} in namespace {namespace}: field {FIELD}: must be 32 to 64 bytes, as base64")
    return key
