"""Decodes files into the structs that describe them. What is wrong is one sentence with file, line and field."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from headway.jobspec import meant
from headway.workload.errors import WorkloadError
from headway.workload.yaml_values import YamlError, line_of, shortened, values

T = TypeVar("T")
Steps = tuple[str | int, ...]
"""The way to a value: names of fields and numbers in lists."""

_TYPES = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "fields (name: value)", "null": "nothing",
}  # fmt: skip


def decode(path: Path, kind: type[T]) -> T:
    """Decodes a YAML file as `kind`. Raises with one sentence on what is wrong."""
    text = read_bytes(path)
    try:
        document = values(text)
    except YamlError as error:
        where = f", line {error.line}" if error.line else ""
        raise WorkloadError(f"{path}{where}: {error.why}") from error
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        steps, why = explained(error, document, kind)
        raise WorkloadError(f"{at_line(path, steps, text)}: {_owner(document, steps)}{why}") from error


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{shortened(str(path), 200)}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise WorkloadError(f"{shortened(str(path), 200)!r}: cannot be read: {error}") from error


def at_line(path: Path, steps: Sequence[str | int], text: bytes | None = None) -> str:
    """The file, and the line of the value where it is known."""
    try:
        line = line_of(path.read_bytes() if text is None else text, steps)
    except OSError:
        line = 0
    return f"{path}, line {line}" if line else str(path)


def _owner(document: Any, steps: Steps) -> str:
    """The job of which the value is a part, or the number of the entry."""
    if len(steps) < 2 or not isinstance(steps[1], int):
        return ""
    entry = document[steps[0]][steps[1]]
    name = entry.get("name") if isinstance(entry, dict) else None
    if steps[0] == "jobs" and isinstance(name, str) and name:
        return f"job {shortened(name, 60)!r}: "
    return f"{steps[0]}[{steps[1]}]: "


def explained(error: msgspec.ValidationError, document: Any, kind: Any) -> tuple[Steps, str]:
    """Where the wrong value is, and a sentence on it that begins with its field."""
    what, _, where = str(error).partition(" - at `$")
    steps, value, kind = _followed(re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", where), document, kind)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL)
    if unknown:
        name = unknown.group(1)
        return (*steps, name), f"{_field(steps)}unknown field {shortened(name)!r}{meant(name, _names(kind))}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", what)
    if missing:
        return steps, f"{_field(steps)}field {missing.group(1)} is missing"
    if document is None and not where:
        return steps, "the file is empty"
    if get_origin(kind) is Literal:
        return steps, f"{_field(steps)}must be {' or '.join(get_args(kind))}, not {shortened(str(value))!r}"
    return steps, f"{_field(steps)}{_plain(what, steps, value)}"


def _field(steps: Steps) -> str:
    """`field roles.ps.cpu: `, without the list of entries that the field belongs to."""
    inner = steps[2:] if len(steps) > 1 and isinstance(steps[1], int) else steps
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in inner)
    return f"field {shortened(text[1:], 80)}: " if text else ""


def _plain(what: str, steps: Steps, value: Any) -> str:
    """Msgspec's message in plain words."""
    found = re.fullmatch(r"Expected `(.*?)`( .*)?", what.partition(", got ")[0])
    if not found:
        return shortened(what.replace("`", "'"), 200)
    wanted, limit = found.group(1), found.group(2) or ""
    if isinstance(value, str) and "array" in wanted and "str" not in wanted and steps:
        return f"must be a list: write {steps[-1]}: [{', '.join(_word(word) for word in _words(value))}]"
    names = [name for name in wanted.split(" | ") if name != "null"]
    plain = " or ".join(_TYPES.get(name, name) for name in names if not (name == "int" and "float" in names))
    got = re.search(r", got `(.*)`", what)
    if not got:
        return f"must be {plain}{limit.replace('`', '')}, not {shortened(repr(value))}"
    kind = "text " if isinstance(value, str) else ""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return f"must be {plain}, not {kind}{shortened(repr(value))}"
    return f"must be {plain}, not {_TYPES.get(got.group(1), got.group(1))}"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _word(word: str) -> str:
    return word if re.fullmatch(r"[\w./=+-]+", word) else msgspec.json.encode(word).decode()


def _followed(path: list[tuple[str, str]], value: Any, kind: Any) -> tuple[Steps, Any, Any]:
    """Follows msgspec's path. It tells no keys of tables, so the entry that is wrong is looked for."""
    steps: list[str | int] = []
    for name, place in path:
        kind = _bare(kind)
        step: str | int | None = name or (int(place) if place.isdigit() else None)
        if name:
            kind = get_type_hints(kind, include_extras=True).get(name) if isinstance(kind, type) else None
        else:
            kind = (get_args(kind) or (None,))[-1]
        if step is None:
            step = _wrong_entry(value, kind)
        if step is None:
            break
        try:
            value = value[step]
        except (LookupError, TypeError):
            value = None
        steps.append(step)
    return tuple(steps), value, _bare(kind)


def _wrong_entry(table: Any, kind: Any) -> str | None:
    for key, value in table.items() if isinstance(table, dict) else ():
        try:
            msgspec.convert(value, kind)
        except (msgspec.ValidationError, TypeError):
            return str(key)
    return None


def _bare(kind: Any) -> Any:
    """The type without None and without what is said about it."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    return kind


def _names(kind: Any) -> tuple[str, ...]:
    return getattr(kind, "__struct_encode_fields__", ())
