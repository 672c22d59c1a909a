"""A table as HTML. Each cell knows its column's title: on a narrow screen the page shows a row as a list of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class HtmlCell:
    text: str
    small: str = ""
    """Its small print."""
    tone: str = ""
    """Class of the small print."""
    kind: str = ""
    """Class of the cell; `name` for a head that may be broken anywhere."""
    style: str = ""
    mark: str = ""
    """HTML that is put before the text, or after it where the cell is a figure."""


def html_table(heads: Sequence[HtmlCell], rows: Sequence[Sequence[HtmlCell]]) -> str:
    """The first cell of a row is its title."""
    top = "".join(f'<th scope="col"{_class(head)}>{escape(head.text)}{_small(head)}</th>' for head in heads)
    body = "".join(_row(heads, row) for row in rows)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(heads: Sequence[HtmlCell], row: Sequence[HtmlCell]) -> str:
    first, *others = row
    title = f'<th scope="row">{first.mark}{escape(first.text)}{_small(first)}</th>'
    return f"<tr>{title}{''.join(_cell(head, cell) for head, cell in zip(heads[1:], others, strict=True))}</tr>"


def _cell(head: HtmlCell, cell: HtmlCell) -> str:
    label = f"{head.text} ({head.small})" if head.small else head.text
    given = "".join(f' {name}="{escape(value)}"' for name, value in
                    (("class", cell.kind), ("style", cell.style), ("data-label", label)) if value)  # fmt: skip
    return f"<td{given}>{escape(cell.text)}{cell.mark}{_small(cell)}</td>"


def _class(cell: HtmlCell) -> str:
    return f' class="{cell.kind}"' if cell.kind else ""


def _small(cell: HtmlCell) -> str:
    tone = f' class="{cell.tone}"' if cell.tone else ""
    return f"<small{tone}>{escape(cell.small)}</small>" if cell.small else ""
