"""The fields in which people write roles and targets. Unknown fields are errors, never silently dropped."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headway.core.quantity import CPU, GPU, MEMORY

Number = int | float | str
KINDS = (CPU, MEMORY, GPU)


class Limit(msgspec.Struct, forbid_unknown_fields=True):
    """What a replica may grow to in place."""

    cpu: Number | None = None
    memory: Number | None = None


class RoleFields(msgspec.Struct, forbid_unknown_fields=True):
    replicas: int = 1
    least: int | None = None
    most: int | None = None
    cpu: Number | None = None
    memory: Number | None = None
    gpu: Number | None = None
    resources: dict[str, Number] = {}
    limit: Limit | None = None
    selector: dict[str, str] = {}
    tolerates: list[str] = []
    accelerator: str = ""
    after: list[str] = []
    near: list[str] = []
    apart: list[str] = []
    command: list[str] | None = None
    env: dict[str, str] = {}


class TargetFields(msgspec.Struct, forbid_unknown_fields=True):
    """The job stops by itself when a metric that it reports is at least, or at most, so much."""

    metric: str = "loss"
    at_least: float | None = None
    at_most: float | None = None


class SuccessFields(msgspec.Struct, forbid_unknown_fields=True):
    """Which replicas must end well for the job to have succeeded."""

    roles: list[str] = []
    """Empty: `chief` or `master` if there is one, else the roles that no other role comes after."""
    when: Literal["all", "any"] = "all"
    """Whether all replicas of these roles must end well, or any one of them."""


def amounts_of(fields: Any) -> dict[str, Number]:
    """Every resource named, whether by its own field or under `resources`."""
    named = {kind: getattr(fields, kind) for kind in KINDS if getattr(fields, kind) is not None}
    return {**fields.resources, **named}
