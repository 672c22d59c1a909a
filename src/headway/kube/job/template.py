"""The shape of a pod template, as far as Headway merges and fills it. The API server checks the rest.

Example: `spec: {containers: "x"}` is an error that names the field, before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class TemplateError(ValueError):
    """The template is invalid. The message names the field, below the template."""


class _Named(msgspec.Struct):
    name: str = ""


class _Mount(msgspec.Struct):
    mountPath: str = ""  # noqa: N815  Kubernetes' spelling, here and below


class _Port(msgspec.Struct):
    containerPort: int = 0  # noqa: N815


class _Amounts(msgspec.Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct):
    name: str
    command: list[str] | None = None
    env: list[_Named] | None = None
    volumeMounts: list[_Mount] | None = None  # noqa: N815
    volumeDevices: list[_Named] | None = None  # noqa: N815
    ports: list[_Port] | None = None
    resources: _Amounts | None = None


class _PodShape(msgspec.Struct):
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None  # noqa: N815
    ephemeralContainers: list[_Container] | None = None  # noqa: N815
    volumes: list[_Named] | None = None
    imagePullSecrets: list[_Named] | None = None  # noqa: N815
    tolerations: list[dict[str, Any]] | None = None


class _MetadataShape(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _TemplateShape(msgspec.Struct):
    metadata: _MetadataShape | None = None
    spec: _PodShape | None = None


def check_template(template: Mapping[str, Any]) -> None:
    """Raises TemplateError where a part that Headway reads has another type."""
    try:
        msgspec.convert(template, _TemplateShape)
    except msgspec.ValidationError as error:
        raise TemplateError(_sentence(str(error))) from error


def _sentence(told: str) -> str:
    """From "Expected `object`, got `int` - at `$.spec`" to "spec: must be a map, not int"."""
    what, _, where = told.replace("`", "").partition(" - at ")
    field = where.removeprefix("$").removeprefix(".").replace("[...]", "[]")
    expected, _, got = what.removeprefix("Expected ").partition(", got ")
    words = {"object": "a map", "array": "a list", "str": "a text", "object | null": "a map", "array | null": "a list"}
    why = f"must be {words.get(expected, expected)}, not {got}" if got else f"{what[:1].lower()}{what[1:]}"
    return f"{field}: {why}" if field else why
