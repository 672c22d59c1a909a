"""A Secret of Headway's own: the first scheduler makes it, all later ones read it."""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headway.kube.api.access import Access
from headway.kube.api.client import Client, loads
from headway.kube.api.errors import Conflict, Denied, Forbidden, KubeError, NotFound, Refused
from headway.kube.api.patience import PATIENCE_SECONDS, patiently

log = logging.getLogger("headway.kube")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwnSecret(Generic[T]):
    name: str
    what: str
    """In a few words, for the log."""
    kind: str
    """The type of the Secret."""
    make: Callable[[], T]
    fields: Callable[[T], Mapping[str, bytes]]
    read: Callable[[Mapping[str, Any], str], T]
    """Out of the Secret; the second is the namespace, for errors."""

    async def find(self, access: Access, namespace: str, seconds: float = PATIENCE_SECONDS) -> T:
        """Waits while the API server is slow or restarts, but not if it refuses."""
        return await patiently(access, lambda client: self.ensure(client, namespace), seconds)

    async def ensure(self, client: Client, namespace: str) -> T:
        """Reads the Secret; makes it if there is none. Of two that make it at the same time one is kept."""
        path = f"/api/v1/namespaces/{namespace}/secrets"
        where = f"Secret {self.name} in namespace {namespace}"
        try:
            try:
                return self.read(loads(await client.get(f"{path}/{self.name}")), namespace)
            except NotFound:
                made = self.make()
            try:
                await client.post(path, self._body(made))
            except Conflict:
                return self.read(loads(await client.get(f"{path}/{self.name}")), namespace)
        except NotFound as error:
            raise KubeError(
                f"there is no namespace {namespace}: run `headway schedule --install`, or give --system-namespace"
            ) from error
        except (Forbidden, Denied) as error:
            raise KubeError(
                f"{where} cannot be read or made: {error.message}; "
                "run `headway schedule --install`, or give --system-namespace"
            ) from error
        except Refused as error:
            raise KubeError(f"{where} cannot be read or made: {error}") from error
        log.info("made %s: %s", where, self.what)
        return made

    def _body(self, made: T) -> dict[str, Any]:
        return {
            "apiVersion": "v1", "kind": "Secret", "type": self.kind, "metadata": {"name": self.name},
            "data": {name: base64.b64encode(value).decode() for name, value in self.fields(made).items()},
        }  # fmt: skip


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
