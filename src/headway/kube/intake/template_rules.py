"""What a job's own template may set. Pure.

Example: the administrator fixes `spec.containers.main.securityContext`. A job whose template sets
`spec.containers.main.securityContext.privileged` is refused, and the sentence names that field.

A field is a path: keys, and for entries of named lists their names. `*` stands for any one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.job import Job

NAMED_LISTS = {"containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
               "volumeMounts": "mountPath", "imagePullSecrets": "name", "ports": "containerPort"}  # fmt: skip
_MAPS_OF_NAMES = ("metadata.labels.", "metadata.annotations.", "spec.nodeSelector.")
"""Their keys may have dots."""

DECIDED = ("nodeName", "schedulingGates")
"""Fields of a pod's spec with which a job would be placed, or held back, by another hand than Headway's."""

FieldPath = tuple[str, ...]


class TemplateRefused(ValueError):  # noqa: N818  it names what became of a template
    """A template beyond what is allowed, in a sentence that names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRules:
    fixed: tuple[str, ...] = ()
    """Fields that a job may not set."""
    allowed: tuple[str, ...] | None = None
    """The only fields that a job's template may set; None: any."""


def check_rules(job: Job, own: Mapping[str, Any], rules: TemplateRules) -> None:
    """Raises TemplateRefused if the job sets a field that it may not."""
    fixed = [_path(field) for field in rules.fixed]
    allowed = None if rules.allowed is None else [_path(field) for field in rules.allowed]
    spec = own.get("spec")
    for field in DECIDED:
        if isinstance(spec, Mapping) and spec.get(field):
            raise TemplateRefused(f"template.spec.{field}: Headway decides where and when pods start; leave it out")
    for path in _set_by(own):
        at = ".".join(("template", *path))
        if any(_meets(path, rule) for rule in fixed):
            raise TemplateRefused(f"{at[:200]}: is fixed by the administrator; leave it out")
        if allowed is not None and not any(_holds(rule, path) for rule in allowed):
            offer = ", ".join(rules.allowed or ()) or "nothing"
            raise TemplateRefused(f"{at[:200]}: may not be set; a job's template may set {offer[:400]}")
    for written, path in _set_elsewhere(job):
        if any(_meets(path, rule) for rule in fixed):
            raise TemplateRefused(f"{written[:200]}: is fixed by the administrator; leave it out")


def _path(field: str) -> FieldPath:
    at_most = 2 if field.startswith(_MAPS_OF_NAMES) else -1
    return tuple(field.split(".", at_most))


def _set_by(template: Mapping[str, Any]) -> Iterator[FieldPath]:
    """The paths of all values in the template; of an empty map or list its own path."""
    stack: list[tuple[FieldPath, Any]] = [((), template)]
    while stack:
        path, value = stack.pop()
        parts: Sequence[tuple[str, Any]] = ()
        if isinstance(value, Mapping):
            parts = [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            name = NAMED_LISTS.get(path[-1], "name") if path else "name"
            parts = [(_name(entry, name, number), entry) for number, entry in enumerate(value)]
        if path and not parts:
            yield path
        # A named entry's own name is its place in the list, and sets nothing by itself.
        named = len(path) > 1 and path[-2] in NAMED_LISTS
        key = NAMED_LISTS[path[-2]] if named else None
        inner_parts = [part for part in parts if part[0] != key]
        if named and parts and not inner_parts:
            yield path
        stack += [((*path, part), inner) for part, inner in inner_parts]


def _name(entry: Any, key: str, number: int) -> str:
    return str(entry.get(key, number)) if isinstance(entry, Mapping) else str(number)


def _set_elsewhere(job: Job) -> Iterator[tuple[str, FieldPath]]:
    """What a job sets by fields of its own: how the job writes it, and its path in a pod."""
    main = ("spec", "containers", "main")
    for role in job.roles:
        for name, _ in role.env:
            yield f"roles.{role.name}.env.{name}", (*main, "env", name)
        if role.command:
            yield f"roles.{role.name}.command", (*main, "command")
        if role.tolerates:
            yield f"roles.{role.name}.tolerates", ("spec", "tolerations")
    if job.directory:
        yield "directory", (*main, "workingDir")


def _holds(rule: FieldPath, path: FieldPath) -> bool:
    """Whether the path is the rule's field, or inside it."""
    return len(path) >= len(rule) and all(want in ("*", is_) for want, is_ in zip(rule, path, strict=False))


def _meets(path: FieldPath, rule: FieldPath) -> bool:
    """Whether a value at the path sets the rule's field, or a part of it, or all that it is in."""
    return all(want in ("*", is_) for want, is_ in zip(rule, path, strict=False))
