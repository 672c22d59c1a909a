"""Tables that fit the terminal: figures are never cut; columns are dropped and names folded instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

NARROWEST_TEXT = 12
_GAP = 2
"""Columns between two cells, and at the edges."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    is_text: bool = False
    """Left-aligned, and folded over several lines where there is no room."""
    one_line: bool = False
    """A text that is cut instead of folded."""
    drop: int = 0
    """Where there is no room, the column with the highest number is dropped first; 0 is never dropped."""


def fitted(title: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[str | Text]], width: int) -> Table:
    """A table of these rows in so many columns of a terminal. A column without any content is left out."""
    texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    shown = [number for number in range(len(columns)) if not rows or any(row[number].plain for row in texts)]
    while _needed(columns, texts, shown) > width:
        droppable = [number for number in shown if columns[number].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda number: columns[number].drop))
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number in shown:
        column = columns[number]
        if column.is_text:
            least = min(NARROWEST_TEXT, _natural(columns, texts, number))
            most = _left_over(columns, texts, shown, width) if column.one_line else None
            table.add_column(column.name, overflow="ellipsis" if column.one_line else "fold",
                             no_wrap=column.one_line, min_width=least, max_width=most)  # fmt: skip
        else:
            table.add_column(column.name, justify="right", no_wrap=True, min_width=_natural(columns, texts, number))
    for row in texts:
        table.add_row(*[row[number] for number in shown])
    return table


def _natural(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], number: int) -> int:
    return max([cell_len(columns[number].name), *(cell_len(row[number].plain) for row in rows)])


def _left_over(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], shown: Sequence[int], width: int) -> int:
    """What a text of one line may take: what the others leave, names of up to 24 letters whole."""
    others = [number for number in shown if not columns[number].one_line]
    taken = [_natural(columns, rows, number) for number in others]
    taken = [min(one, 24) if columns[number].is_text else one for one, number in zip(taken, others, strict=True)]
    return max(NARROWEST_TEXT, width - sum(taken) - _GAP * (len(shown) + 1))


def _needed(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], shown: Sequence[int]) -> int:
    """The least width in which no figure is cut."""
    widths = [_natural(columns, rows, number) for number in shown]
    for place, number in enumerate(shown):
        if columns[number].is_text:
            widths[place] = min(widths[place], NARROWEST_TEXT)
    return sum(widths) + _GAP * (len(shown) + 1)
