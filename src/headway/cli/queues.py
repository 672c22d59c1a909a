"""The file that says what each queue is guaranteed, may borrow and lends."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headway.core.errors import UserError
from headway.core.job import Amounts
from headway.core.quantity import QuantityError, parse
from headway.policies.queues import Queue
from headway.workload.jobsfile import decode

Amount = str | int | float


class QueueFields(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    quota: dict[str, Amount] = {}
    borrow: dict[str, Amount] = {}
    lend: dict[str, Amount] = {}
    weight: float = 1.0


class QueuesFields(msgspec.Struct, forbid_unknown_fields=True):
    queues: list[QueueFields]


def read_queues(path: Path) -> tuple[Queue, ...]:
    fields = decode(path, QueuesFields).queues
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}: queue {twice!r} is there twice")
    return tuple(_queue(path, field) for field in fields)


def _queue(path: Path, field: QueueFields) -> Queue:
    if not field.weight > 0:
        raise UserError(f"{path}: queue {field.name!r}: field weight must be above zero")
    return Queue(
        name=field.name, weight=field.weight,
        **{name: _amounts(path, field, name) for name in ("quota", "borrow", "lend")},
    )  # fmt: skip


def _amounts(path: Path, field: QueueFields, name: str) -> Amounts:
    found = []
    for kind, value in sorted(getattr(field, name).items()):
        try:
            amount = parse(kind, value)
        except QuantityError as error:
            raise UserError(f"{path}: queue {field.name!r}: field {name}: {error}") from error
        if amount < 0:
            raise UserError(f"{path}: queue {field.name!r}: field {name}: {kind} must not be below zero")
        found.append((kind, amount))
    return tuple(found)
