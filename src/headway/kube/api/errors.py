"""Errors of the API server. Their class decides whether a request is tried again.

ApiError
├── Unreachable      temporary, and unknown whether it was done: time-out, lost connection, 429, 5xx
└── Refused          permanent: the same request will be refused again
    ├── NotFound     404
    ├── Conflict     409: it exists already, has another uid or is bound already; a GET tells which
    ├── Expired      410, or 504 for a version from the future: the server lacks that version, list again
    ├── Forbidden    401, 403: Headway lacks a right
    ├── OverQuota    403: a ResourceQuota is full; there may be room later
    ├── Denied       403: a rule of the cluster does not admit this object, and would not later
    ├── Invalid      400, 422
    └── Faulty       not sent, or its answer not understood: a fault of Headway, or of what it was to send
"""

from __future__ import annotations

import re

from headway.core.errors import UserError


class KubeError(UserError):
    """The command cannot go on. The message is one sentence for the user."""


class ApiError(Exception):
    def __init__(self, status: int, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class Unreachable(ApiError):  # noqa: N818  these name facts
    pass


class Refused(ApiError):  # noqa: N818
    pass


class NotFound(Refused):
    pass


class Conflict(Refused):
    pass


class Expired(Refused):
    pass


class Forbidden(Refused):
    pass


class OverQuota(Refused):
    pass


class Denied(Refused):
    pass


class Invalid(Refused):
    pass


class Faulty(Refused):
    pass


_BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid, 401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Expired, 422: Invalid,
}  # fmt: skip


_NO_RIGHT = re.compile(r'User ".*" cannot \w+ (resource|path) ', re.DOTALL)
"""As in: pods is forbidden: User "x" cannot create resource "pods". A policy's own words may have a `cannot`, too."""
_PASSING = ("error looking up service account", "is being terminated", "not yet ready to handle request")
"""Words of the API server itself about what is not there yet, or not any more."""


def error_for(status: int, message: str, retry_after_seconds: float = 0.0) -> ApiError:
    if status in (408, 429) or status >= 500:
        return Unreachable(status, message, retry_after_seconds)
    kind = _forbidding(message) if status == 403 else _BY_STATUS.get(status, Refused)
    return kind(status, message)


def _forbidding(message: str) -> type[Refused]:
    """What a 403 means: its status object says Forbidden in every case, only the sentence differs."""
    if _NO_RIGHT.search(message):
        return Forbidden
    if "exceeded quota: " in message:
        return OverQuota
    return Refused if any(words in message for words in _PASSING) else Denied
