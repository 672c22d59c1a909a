"""The administrator's file of queues: what each is guaranteed, and what jobs may claim in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from headway.core.errors import UserError
from headway.core.job import Amounts, Job
from headway.core.quantity import CPU, GPU, HUGE_PAGES, MEMORY, PODS, STORAGE, QuantityError, parse
from headway.core.queue_rules import ClaimRefused, QueueClaim, QueueRule, allowed_queue
from headway.core.text import clean
from headway.jobspec import Wrong, mistyped, priority_of
from headway.policies.wrappers.quota import Queue
from headway.workload.decode import decode

Amount = str | int | float
KINDS = (CPU, MEMORY, GPU, PODS, STORAGE)
"""Kinds that every cluster may have. Others are the nodes' own: `nvidia.com/gpu`, `tpu`."""


class QueueFields(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    quota: dict[str, Amount] = {}
    borrow: dict[str, Amount] = {}
    lend: dict[str, Amount] = {}
    weight: float = 1.0
    namespaces: list[str] | None = None
    highest_priority: int | None = None
    priority_classes: list[str] | None = None
    deadlines: bool = True


class QueuesFields(msgspec.Struct, forbid_unknown_fields=True):
    queues: list[QueueFields]


def in_full(path: Path | str) -> str:
    """What the file says, as one line that can stand in its place: a log must not depend on a file."""
    return msgspec.json.encode(QueuesFields(_fields(path))).decode()


def read_queues(path: Path | str) -> tuple[Queue, ...]:
    """Quotas and weights, for policies."""
    return tuple(_queue(path, field) for field in _fields(path))


def read_rules(path: Path | str) -> tuple[QueueRule, ...]:
    """What jobs may claim in each queue, in the file's order."""
    return tuple(_rule(path, field) for field in _fields(path))


def beyond_rules(rules: Sequence[QueueRule], jobs: Iterable[Job]) -> list[str]:
    """A sentence for each job that claims more than its queue allows. Jobs of a file have no namespace."""
    by_name, said = {rule.name: (rule,) for rule in rules}, []
    for job in jobs:
        claim = QueueClaim(queue=job.queue, priority=job.priority, has_deadline=job.deadline is not None)
        try:
            allowed_queue(by_name.get(job.queue, ()), claim)
        except ClaimRefused as refused:
            said.append(f"job {job.id!r}: field {refused}")
    return said


def _fields(path: Path | str) -> list[QueueFields]:
    fields = _decoded(path).queues
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}: queue {twice!r} is listed twice; give every queue its own name")
    return fields


def _decoded(path: Path | str) -> QueuesFields:
    if not str(path).startswith("{"):
        return decode(Path(path), QueuesFields)
    try:
        return msgspec.json.decode(str(path), type=QueuesFields)
    except msgspec.DecodeError as error:
        raise UserError(f"queues: {error}") from error


def _queue(path: Path | str, field: QueueFields) -> Queue:
    if not field.weight > 0:
        raise UserError(f"{path}: queue {field.name!r}: field weight: must be above zero, is {field.weight:g}")
    return Queue(
        name=clean(field.name), weight=field.weight,
        **{name: _amounts(path, field, name) for name in ("quota", "borrow", "lend")},
    )  # fmt: skip


def _rule(path: Path | str, field: QueueFields) -> QueueRule:
    try:
        highest = None if field.highest_priority is None else priority_of(field.highest_priority)
    except Wrong as wrong:
        raise UserError(f"{path}: queue {field.name!r}: field highest_priority: {wrong.why}") from wrong
    return QueueRule(
        name=clean(field.name), namespaces=_names(path, field, "namespaces"), highest_priority=highest,
        priority_classes=_names(path, field, "priority_classes"), deadlines=field.deadlines,
    )  # fmt: skip


def _names(path: Path | str, field: QueueFields, name: str) -> tuple[str, ...] | None:
    given: list[str] | None = getattr(field, name)
    if given is not None and not all(given):
        raise UserError(f"{path}: queue {field.name!r}: field {name}: a name is empty")
    return None if given is None else tuple(given)


def _amounts(path: Path | str, field: QueueFields, name: str) -> Amounts:
    found = []
    for kind, value in sorted(getattr(field, name).items()):
        own = kind in KINDS or "/" in kind or kind.startswith(HUGE_PAGES)
        if typo := "" if own else mistyped(kind, KINDS):
            raise UserError(f"{path}: queue {field.name!r}: field {name}: unknown resource {kind!r}{typo}")
        try:
            amount = parse(kind, value)
        except QuantityError as error:
            raise UserError(f"{path}: queue {field.name!r}: field {name}: {error}") from error
        if amount < 0:
            raise UserError(f"{path}: queue {field.name!r}: field {name}: {kind} must be 0 or more, is {value}")
        found.append((kind, amount))
    return tuple(found)
