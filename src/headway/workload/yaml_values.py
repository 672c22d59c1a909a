"""From the text of a YAML file to plain values, and the line of each. What is wrong is told with its line.

Stricter and kinder than YAML's own loaders: a key that exists twice is an error, as is nesting deeper than any of our
files has. Keys are text, dates are text, and the words of a command and the values of an environment stay as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

MOST_DEPTH = 50
MOST_VALUES = 5_000_000
"""With aliases counted as often as they are used: a short file can stand for a huge one."""
MOST_DIGITS = 40
LISTS_OF_WORDS = ("command", "on_end", "on_failure")
SWEEP = "for"
"""Its lists have words, too."""
TABLES_OF_WORDS = ("env", "labels", "selector")
_MERGE = "tag:yaml.org,2002:merge"
_KNOWN = {f"tag:yaml.org,2002:{name}": name for name in ("null", "bool", "int", "float", "str", "timestamp")}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SCALARS = yaml.constructor.SafeConstructor()


class YamlError(ValueError):
    """A text that is not YAML, or YAML that no file of ours has; `line` is 0 where it is not known."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why, self.line = why, line


@dataclass(slots=True)
class _Open:
    """A mapping or a list whose end is not read yet."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    line: int
    words: bool
    """Its scalars stay as they are written."""
    key: str | None = None
    merging: bool = False
    size: int = 1
    lines: dict[str | int, int] = field(default_factory=dict)
    merged: list[dict[str, Any]] = field(default_factory=list)


def values(text: bytes) -> Any:
    """The values of the only document of the text."""
    return _Reader().read(text)


def line_of(text: bytes, steps: Sequence[str | int]) -> int:
    """The line of a value, or of the last step towards it that exists; 0 if there is none."""
    reader = _Reader(keep=True)
    try:
        value, line = reader.read(text), 0
    except YamlError:
        return 0
    for step in steps:
        at = reader.lines.get(id(value), {}).get(step)
        if at is None:
            break
        line, value = at, value[step]
    return line


class _Reader:
    """Builds values from YAML's events, without recursion."""

    def __init__(self, *, keep: bool = False) -> None:
        self.lines: dict[int, dict[str | int, int]] = {}
        """By identity of the mapping or list: the lines of its values. Kept for `line_of` alone."""
        self._keep = keep
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._documents = 0
        self._result: Any = None
        self._resolver: Any = yaml.resolver.Resolver()

    def read(self, text: bytes) -> Any:
        for event in _events(text):
            line = event.start_mark.line + 1
            match event:
                case yaml.DocumentStartEvent():
                    self._documents += 1
                    if self._documents > 1:
                        raise YamlError("a second document begins here; a file has one", line)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._begin(event, line)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end()
                case yaml.ScalarEvent():
                    value = self._scalar(event, line)
                    if event.anchor:
                        self._anchors[event.anchor] = (value, 1)
                    self._put(value, line, 1, plain_merge=self._is_merge(event))
                case yaml.AliasEvent():
                    if event.anchor not in self._anchors:
                        raise YamlError(f"there is no &{event.anchor} before this *{event.anchor}", line)
                    value, size = self._anchors[event.anchor]
                    self._put(value, line, size)
        return self._result

    def _begin(self, event: Any, line: int) -> None:
        if len(self._open) >= MOST_DEPTH:
            raise YamlError(f"nested more than {MOST_DEPTH} levels deep", line)
        if event.tag not in (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise YamlError(f"the tag {event.tag} has no meaning here", line)
        top = self._open[-1] if self._open else None
        mapping = isinstance(event, yaml.MappingStartEvent)
        if top is not None and isinstance(top.value, dict) and top.key is None and not top.merging:
            raise YamlError("a key must be text", line)
        named = TABLES_OF_WORDS if mapping else LISTS_OF_WORDS
        swept = not mapping and len(self._open) > 1 and self._open[-2].key == SWEEP
        words = top is not None and (top.key in named or swept)
        self._open.append(_Open({} if mapping else [], event.anchor, line, words))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, dict):
            for other in done.merged:
                for key, value in other.items():
                    done.value.setdefault(key, value)
        if done.anchor:
            self._anchors[done.anchor] = (done.value, done.size)
        if self._keep:
            self.lines[id(done.value)] = done.lines
        self._put(done.value, done.line, done.size)

    def _put(self, value: Any, line: int, size: int, *, plain_merge: bool = False) -> None:
        if not self._open:
            self._result = value
            return
        top = self._open[-1]
        top.size += size
        if top.size > MOST_VALUES:
            raise YamlError(f"more than {MOST_VALUES} values, as aliases multiply them", line)
        if isinstance(top.value, list):
            top.lines[len(top.value)] = line
            top.value.append(value)
        elif top.merging:
            self._merge(top, value, line)
        elif top.key is None:
            self._key(top, value, line, plain_merge=plain_merge)
        else:
            top.value[top.key] = value
            top.key = None

    def _key(self, top: _Open, value: Any, line: int, *, plain_merge: bool) -> None:
        if plain_merge:
            top.merging = True
            return
        if not isinstance(value, str):
            raise YamlError("a key must be text", line)
        if value in top.lines:
            raise YamlError(f"field {shortened(value)}: exists twice, first in line {top.lines[value]}", line)
        top.key, top.lines[value] = value, line

    def _merge(self, top: _Open, value: Any, line: int) -> None:
        """`<<: *other` takes the fields of another mapping, or of a list of them."""
        others = value if isinstance(value, list) else [value]
        if not all(isinstance(other, dict) for other in others):
            raise YamlError("<<: must name a mapping", line)
        top.merged += others
        top.merging = False

    def _is_merge(self, event: Any) -> bool:
        return bool(event.value == "<<" and event.implicit[0])

    def _scalar(self, event: Any, line: int) -> Any:
        top = self._open[-1] if self._open else None
        text: str = event.value
        if top is not None and isinstance(top.value, dict) and top.key is None and not top.merging:
            return text
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(yaml.ScalarNode, text, event.implicit)
        kind = _KNOWN.get(tag)
        if kind is None and tag not in (_MERGE, "tag:yaml.org,2002:value"):
            raise YamlError(f"the tag {tag} has no meaning here", line)
        if kind == "null":
            return None
        if kind not in ("bool", "int", "float") or (top is not None and top.words and event.tag is None):
            return text
        if kind != "bool" and len(text) > MOST_DIGITS:
            raise YamlError(f"the number {shortened(text)} has {len(text)} digits", line)
        try:
            return getattr(_SCALARS, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
        except (ValueError, OverflowError, LookupError):
            return text


def _events(text: bytes) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise YamlError(
            f"not valid YAML: {error.problem}", error.problem_mark.line + 1 if error.problem_mark else 0
        ) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count(b"\n") + 1
        raise YamlError(f"not valid YAML: {error.reason}", line) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(f"not valid YAML: {' '.join(str(error).split())}") from error


def shortened(text: str, most: int = 40) -> str:
    """The text on one line, or its beginning if it is long: an error is one sentence."""
    line = " ".join(text[: 2 * most].splitlines())
    return line if len(text) <= most else f"{line[:most]}…"
