"""The key of the marks on pods: one Secret in Headway's own namespace.

The first scheduler makes it, all later ones read it, and so know the pods of those before them. Nobody needs to rotate
it. Whoever deletes it has every running job start again from its checkpoint, at the next start of Headway.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Any

from headway.kube.api.errors import KubeError
from headway.kube.own_secret import OwnSecret

SECRET = "headway-pods"  # noqa: S105  its name
FIELD = "key"
KEY_BYTES = 32


def _read(secret: Mapping[str, Any], namespace: str) -> bytes:
    try:
        key = base64.b64decode(secret["data"][FIELD], validate=True)
    except (LookupError, TypeError, ValueError, binascii.Error):
        key = b""
    if not KEY_BYTES <= len(key) <= 64:
        raise KubeError(f"Secret {SECRET} in namespace {namespace}: field {FIELD}: must be 32 to 64 bytes, as base64")
    return key


POD_KEY = OwnSecret(
    SECRET, "the key of the marks on pods", "Opaque", lambda: secrets.token_bytes(KEY_BYTES),
    lambda key: {FIELD: key}, _read,
)  # fmt: skip
