"""Lines that are handed on from plan to plan are those that would be written anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from headway.core.placement import Placement
from headway.core.scaling import Scaling, SizeSpan
from headway.policies.value.standings import Standings
from headway.policies.value.table import SizeTable

SPANS = (SizeSpan(1, 8, 4), SizeSpan(2, 12, 8))
SCALINGS = tuple(
    Scaling([0.0, *(n**power for n in range(1, 13))], apart) for power in (0.5, 0.9) for apart in (1.0, 0.7)
)
PLACEMENTS = tuple(Placement((nodes,)) for nodes in ((0, 0), (0, 1), (0, 0, 0, 1), (2, 2, 2, 2, 2, 3), (4, 4, 5, 5)))
JOBS = some.dictionaries(
    some.integers(0, 9), some.tuples(*map(some.sampled_from, (SCALINGS, SPANS, PLACEMENTS))), max_size=8
)


@given(some.lists(JOBS, min_size=1, max_size=6))
def test_kept_lines_are_those_that_would_be_written_anew(cycles):
    kept = Standings()
    for jobs in cycles:
        serials, columns = list(jobs), [list(column) for column in zip(*jobs.values(), strict=True)] or [[], [], []]
        found, anew = (one.of(serials, *columns, SizeTable.of) for one in (kept, Standings()))
        assert found.tables == anew.tables
        assert np.array_equal(found.numbers, anew.numbers)


def test_a_job_that_did_not_change_is_not_looked_at_again():
    kept, asked = Standings(), []

    def table_of(scaling, span):
        asked.append(scaling)
        return SizeTable.of(scaling, span)

    for scalings in ([SCALINGS[0], SCALINGS[1]], [SCALINGS[0], SCALINGS[2]]):
        kept.of([7, 9], scalings, [SPANS[0]] * 2, [PLACEMENTS[0], PLACEMENTS[1]], table_of)
    assert asked == [SCALINGS[0], SCALINGS[1], SCALINGS[2]]
