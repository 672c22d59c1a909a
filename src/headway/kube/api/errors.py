"""Errors of the API server. Their class decides whether a request is tried again.

ApiError
├── Unreachable      temporary, and unknown whether it was done: time-out, lost connection, 429, 5xx
└── Refused          permanent: the same request will be refused again
    ├── NotFound     404
    ├── Conflict     409: it exists already, has another uid or is bound already; a GET tells which
    ├── Expired      410, or 504 for a version from the future: the server lacks that version, list again
    ├── Forbidden    401, 403: Headway lacks a right
    ├── Denied       403: the cluster does not admit this object, for example because of a quota
    ├── Invalid      400, 422
    └── Faulty       not sent, or its answer not understood: a fault of Headway, or of what it was to send
"""

from __future__ import annotations

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


class Denied(Refused):
    pass


class Invalid(Refused):
    pass


class Faulty(Refused):
    pass


_BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid, 401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Expired, 422: Invalid,
}  # fmt: skip


def error_for(status: int, message: str, retry_after_seconds: float = 0.0) -> ApiError:
    if status in (408, 429) or status >= 500:
        return Unreachable(status, message, retry_after_seconds)
    if status == 403 and "cannot" not in message:  # as in: User "x" cannot create resource "pods"
        return Denied(status, message)
    return _BY_STATUS.get(status, Refused)(status, message)
