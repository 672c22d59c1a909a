"""Which waiting jobs are shown where more wait than there are slots."""

from __future__ import annotations

import numpy as np

from headway.learn.line import LEFT_SECONDS, WaitingLine
from headway.learn.sight import Sight
from headway.policies.value.times import Rows


def shown_of(view: Sight, slots: int) -> Rows | None:
    """Places in the line: half of the slots for those that came first, half for the shortest of the others.

    None where there are slots for all. The shortest are those with the least believed time left, unknown ones last, of
    equals the first. In order of arrival, so that an agent that looks at the order sees one.
    """
    if len(view.line.rows) <= slots:
        return None
    first = slots // 2
    rest = view.line.table[first:, LEFT_SECONDS].argsort(kind="stable")[: slots - first]  # NaN comes last
    rest.sort()
    return np.concatenate((np.arange(first), first + rest))


def rows_at(line: WaitingLine, places: Rows | None) -> Rows:
    """The jobs at these places, as rows of the snapshot; None means all."""
    rows: Rows = np.array(line.rows, np.intp)
    return rows if places is None else rows[places]
