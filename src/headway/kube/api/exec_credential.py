"""Credentials from the program that a kubeconfig names, as clouds give them out: `users[].user.exec`.

Example: `aws eks get-token` prints a token that holds for a quarter of an hour. It is asked again before that is over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from headway.kube.api.errors import KubeError

SECONDS = 60.0
"""So long the program may take; a person may have to log in."""
AGAIN_SECONDS = 5.0
"""After this a program that has failed is asked again."""
EARLY_SECONDS = 60.0
"""It is asked again so long before its token expires."""


class Status(msgspec.Struct, frozen=True):
    token: str = ""
    expirationTimestamp: str = ""  # noqa: N815  Kubernetes' spelling, here and below
    clientCertificateData: str = ""  # noqa: N815
    clientKeyData: str = ""  # noqa: N815


class _Answer(msgspec.Struct):
    status: Status


class _Variable(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct):
    command: str
    apiVersion: str = "client.authentication.k8s.io/v1"  # noqa: N815
    args: list[str] | None = None
    env: list[_Variable] | None = None
    installHint: str = ""  # noqa: N815
    provideClusterInfo: bool = False  # noqa: N815


@dataclass(slots=True)
class ExecCredential:
    where: str
    """For messages: which user of which kubeconfig."""
    folder: Path
    """Of the kubeconfig: a command with a slash is relative to it."""
    how: _Exec
    cluster: dict[str, Any]
    _status: Status | None = None
    _until: float = 0.0
    """By the wall clock, in seconds."""
    _failed: KubeError | None = None
    _failed_at: float = 0.0
    """By the monotonic clock."""
    _asking: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def read(cls, where: str, folder: Path, how: object, cluster: dict[str, Any]) -> ExecCredential:
        try:
            return cls(where, folder, msgspec.convert(how, _Exec), cluster)
        except msgspec.ValidationError as error:
            raise KubeError(f"{where}: field exec: {error}") from error

    def is_at_hand(self) -> bool:
        """Whether `status` answers without asking the program."""
        return self._status is not None and time.time() <= self._until - EARLY_SECONDS

    def status(self) -> Status:
        """What the program said last, or says now if that is nearly over. Raises KubeError. From any thread."""
        with self._asking:
            if self._status is None or not self.is_at_hand():
                self._ask()
            assert self._status is not None
            return self._status

    def _ask(self) -> None:
        """One that has just failed is left alone for a while. What it said before counts until it is over."""
        if self._failed is None or time.monotonic() >= self._failed_at + AGAIN_SECONDS:
            try:
                self._status, self._failed = self._answer(), None
                self._until = _moment(self._status.expirationTimestamp)
            except KubeError as error:
                self._failed, self._failed_at = error, time.monotonic()
        if self._failed is not None and (self._status is None or time.time() >= self._until):
            raise KubeError(str(self._failed))

    def _answer(self) -> Status:
        how, command = self.how, self.how.command
        program = str(self.folder / command) if "/" in command else command
        spec: dict[str, Any] = {"interactive": sys.stdin is not None and sys.stdin.isatty()}
        if how.provideClusterInfo:
            spec["cluster"] = self.cluster
        info = {"apiVersion": how.apiVersion, "kind": "ExecCredential", "spec": spec}
        more = {one.name: one.value for one in how.env or ()} | {"KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            done = subprocess.run(
                [program, *(how.args or ())], env={**os.environ, **more}, stdout=subprocess.PIPE, check=True,
                timeout=SECONDS,
            )  # fmt: skip
            return msgspec.json.decode(done.stdout, type=_Answer).status
        except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
            hint = f"; {' '.join(how.installHint.split())}" if how.installHint else ""
            raise KubeError(f"{self.where}: field exec: {command} gives no credentials: {error}{hint}") from error


def _moment(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return float("inf")
