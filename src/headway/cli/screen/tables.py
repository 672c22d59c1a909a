"""Tables that fit the terminal: figures are never cut; columns are dropped and names folded instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from headway.core.text import lasting

NARROWEST_TEXT = 12
LONGEST_NAME = 24
"""A name in the first column of a divided table is folded beyond this."""
NARROWEST_REASON = 28
"""A text of one line keeps this much before names are folded."""
_GAP = 2
"""Columns between two cells, and at the edges."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    is_text: bool = False
    """Left-aligned, and folded over several lines where there is no room."""
    one_line: bool = False
    """A text that is cut instead of folded."""
    least: int = NARROWEST_REASON
    """So much of it is kept where other columns might be dropped for it."""
    left: bool = False
    """Left-aligned, but never folded or cut."""
    drop: int = 0
    """Where there is no room, it is dropped, those with the highest numbers first; 0 is never dropped."""


def fitted(
    title: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[str | Text]], width: int, *, edge: bool = True
) -> Table:
    """A table of these rows in so many columns of a terminal. A column without any content is left out.

    `edge`: with an empty line above and below, and a margin.
    """
    texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    shown = [number for number in range(len(columns)) if not rows or any(row[number].plain for row in texts)]
    droppable = sorted((number for number in shown if columns[number].drop), key=lambda number: columns[number].drop)
    shown = [number for number in shown if not columns[number].drop]
    for number in droppable:
        if _needed(columns, texts, more := sorted([*shown, number])) <= width:
            shown = more
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=edge)
    widths = _text_widths(columns, texts, shown, width)
    for number in shown:
        column = columns[number]
        if column.is_text:
            table.add_column(column.name, overflow="ellipsis" if column.one_line else "fold",
                             no_wrap=column.one_line, width=widths[number])  # fmt: skip
        else:
            side: Literal["left", "right"] = "left" if column.left else "right"
            table.add_column(column.name, justify=side, no_wrap=True, min_width=_natural(columns, texts, number))
    for row in texts:
        table.add_row(*[
            folded(row[number], widths[number]) if columns[number].is_text and not columns[number].one_line
            else row[number] for number in shown
        ])  # fmt: skip
    return table


def parts(title: str, names: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int) -> list[Table]:
    """As many tables as it takes to show all columns. Each begins with the first column; heads are on several lines."""
    texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    first = min(LONGEST_NAME, max(cell_len(row[0].plain) for row in texts)) if texts else NARROWEST_TEXT
    groups, taken = [[0]], width
    for number in range(1, len(names)):
        words = [cell_len(word) for word in names[number].split()]
        needed = max([*words, *(cell_len(row[number].plain) for row in texts)]) + _GAP
        if taken + needed > width:
            groups.append([0])
            taken = first + 2 * _GAP
        groups[-1].append(number)
        taken += needed
    tables = []
    for group in groups[1:]:
        widths = {number: max([cell_len(row[number].plain) for row in texts] or [0]) for number in group}
        columns = [TableColumn(_on_lines(names[number], widths[number]), is_text=not number) for number in group]
        name = title if group is groups[1] else f"{title} (continued)"
        tables.append(fitted(name, columns, [[row[number] for number in group] for row in texts], width))
    return tables


def deadline_cell(seconds: float, left: float | None) -> Text:
    """How long it is until a deadline, in few letters: `in 2.6 h`. Red: missed, or too long to train."""
    if seconds < 0:
        return Text("missed", style="red")
    hours = seconds / 3600
    told = lasting(seconds) if hours < 1 else f"{hours:.2g} h" if hours < 48 else f"{hours / 24:.2g} d"
    return Text(f"in {told}", style="red" if left is not None and seconds < left else "")


def cut(name: str, width: int = LONGEST_NAME) -> str:
    """A long name without its middle: the jobs of a sweep differ at their ends."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def _on_lines(name: str, width: int) -> str:
    """The words of a head, below each other where they are wider than the cells."""
    return folded(Text(name), max([width, *(cell_len(word) for word in name.split())])).plain


def folded(text: Text, width: int) -> Text:
    """The text on several lines, broken behind `:`, `_`, `-`, `/` or a space where that is possible."""
    lines, rest = [], text.plain
    while cell_len(rest) > width:
        part = set_cell_size(rest, width).rstrip()
        last = max(part.rfind(mark) for mark in ":_-/ ")
        cut = last + 1 if last >= width // 3 else len(part)
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return Text("\n".join([*lines, rest]), style=text.style)


def _text_widths(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], shown: Sequence[int], width: int
) -> dict[int, int]:
    """What figures leave goes to texts: to each its own width where there is room, else the widest is narrowed."""
    widths = {number: _natural(columns, rows, number) for number in shown if columns[number].is_text}
    figures = [_natural(columns, rows, number) for number in shown if not columns[number].is_text]
    over = sum(figures) + sum(widths.values()) + _GAP * (len(shown) + 1) - width
    while over > 0 and widths:
        widest = max(widths, key=lambda number: (columns[number].one_line, widths[number]))
        if columns[widest].one_line and widths[widest] <= columns[widest].least:
            widest = max(widths, key=lambda number: widths[number])
        if widths[widest] <= NARROWEST_TEXT:
            break
        widths[widest] -= 1
        over -= 1
    return widths


def _natural(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], number: int) -> int:
    heads = [cell_len(line) for line in columns[number].name.splitlines()]
    return max([0, *heads, *(cell_len(row[number].plain) for row in rows)])


def _needed(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], shown: Sequence[int]) -> int:
    """The least width in which no figure is cut, and enough of a reason is left to understand it."""
    widths = [_natural(columns, rows, number) for number in shown]
    for place, number in enumerate(shown):
        if columns[number].is_text:
            kept = columns[number].least if columns[number].one_line and not columns[number].drop else NARROWEST_TEXT
            widths[place] = min(widths[place], kept)
    return sum(widths) + _GAP * (len(shown) + 1)
