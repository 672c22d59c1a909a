"""Which waiting jobs are shown where more wait than there are slots."""

from __future__ import annotations

import numpy as np

from headway.learn.sight import Sight
from headway.policies.value.times import Rows


def shown_of(waiting: Rows, view: Sight, slots: int) -> Rows:
    """Places in `waiting`: half of the slots for those that came first, half for the shortest of the others.

    The shortest are those with the least believed time left, unknown ones last, of equals the first. In order of
    arrival, so that an agent that looks at the order sees one.
    """
    first = slots // 2
    rest = np.argsort(view.shortest_first(waiting[first:]), kind="stable")[: slots - first]
    return np.concatenate((np.arange(first), first + np.sort(rest)))
