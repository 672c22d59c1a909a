"""Whether a node suits: its taints and labels against what a role tolerates and asks for. Pure.

Both sides are written as kubectl writes them. Taints: `slow`, `team=vision`, `team=vision:NoExecute`. Selectors:
`zone in (a, b), gpu-memory > 40, !spot`. As text they are short in logs and need no explanation in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

ANY = "*"
"""A toleration of every key: `*`, or `*:NoExecute` for one effect."""
NODE_NAME = "field:metadata.name"
"""The node's name in a selector. No label has such a key."""
_EFFECT = "NoSchedule"
"""The effect of a taint that does not say one."""
_PART = re.compile(r"\s*(!?)\s*([^\s,()=!<>]+)\s*(?:(==|=|!=|>|<|in\b|notin\b)\s*(\([^()]*\)|[^\s,()]*))?\s*")


class Requirement(NamedTuple):
    """One demand on the labels of a node or a pod, with Kubernetes' operators."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        return _OPERATORS[self.operator](labels.get(self.key), self.values)

    def __str__(self) -> str:
        return _WRITTEN[self.operator].format(key=self.key, values=",".join(self.values))


_WRITTEN = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}",
            "DoesNotExist": "!{key}", "Gt": "{key} > {values}", "Lt": "{key} < {values}"}  # fmt: skip


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else None


def _above(label: str | None, values: tuple[str, ...]) -> bool:
    found, bound = _number(label), _number(values[0]) if len(values) == 1 else None
    return found is not None and bound is not None and found > bound


def _below(label: str | None, values: tuple[str, ...]) -> bool:
    found, bound = _number(label), _number(values[0]) if len(values) == 1 else None
    return found is not None and bound is not None and found < bound


_OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda label, values: label is not None and label in values,
    "NotIn": lambda label, values: label is None or label not in values,
    "Exists": lambda label, _: label is not None,
    "DoesNotExist": lambda label, _: label is None,
    "Gt": _above,
    "Lt": _below,
}
OPERATORS = frozenset(_OPERATORS)


class SelectorError(ValueError):
    """A selector that cannot be read; its message is a sentence for the user."""


@lru_cache(maxsize=1024)
def read_selector(text: str) -> tuple[Requirement, ...]:
    """The requirements of a selector such as `zone in (a, b), !spot`. All of them must hold."""
    found: list[Requirement] = []
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or (part.end() < len(text) and text[part.end()] != ","):
            raise SelectorError(f"the selector {text[:80]!r} cannot be read: write it as in 'zone in (a, b), !spot'")
        found.append(_requirement(text, *part.groups()))
        at = part.end() + 1
    return tuple(found)


def _requirement(text: str, without: str, key: str, sign: str | None, written: str | None) -> Requirement:
    if sign is None:
        return Requirement(key, "DoesNotExist" if without else "Exists")
    listed = (written or "").startswith("(")
    if without or listed != (sign in ("in", "notin")):
        raise SelectorError(f"the selector {text[:80]!r} cannot be read at {key!r}")
    values = tuple(value.strip() for value in (written or "").strip("()").split(","))
    operator = {"in": "In", "=": "In", "==": "In", "notin": "NotIn", "!=": "NotIn", ">": "Gt", "<": "Lt"}[sign]
    return Requirement(key, operator, values)


def write_selector(requirements: Iterable[Requirement]) -> str:
    return ", ".join(str(requirement) for requirement in requirements)


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in read_selector(selector))


class Mark(NamedTuple):
    """A taint, or the toleration of one. Of a toleration, None means any."""

    key: str
    value: str | None
    effect: str


@lru_cache(maxsize=1024)
def read_mark(text: str) -> Mark:
    rest, _, effect = text.partition(":")
    key, sign, value = rest.partition("=")
    return Mark(key, value if sign else None, effect)


def write_mark(key: str, value: str | None, effect: str) -> str:
    return key + ("" if value is None else f"={value}") + (f":{effect}" if effect else "")


def tolerated(taint: str, tolerates: Iterable[str]) -> bool:
    """Whether one of these tolerations accepts this taint."""
    mark = read_mark(taint)
    return any(_accepts(read_mark(toleration), mark) for toleration in tolerates)


def _accepts(toleration: Mark, taint: Mark) -> bool:
    return (
        toleration.key in (ANY, taint.key)
        and toleration.effect in ("", taint.effect or _EFFECT)
        and (toleration.value is None or toleration.value == (taint.value or ""))
    )
