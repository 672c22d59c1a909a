"""Lines that are handed on from plan to plan are those that would be written anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from headway.core.placement import Placement
from headway.core.scaling import Scaling, SizeSpan
from headway.estimates.sizes.cache import SizeCache
from headway.estimates.sizes.holder import SizesHolder
from headway.estimates.sizes.table import SizeTable

HOLDER = SizesHolder()
SPANS = (SizeSpan(1, 8, 4), SizeSpan(2, 12, 8))
SCALINGS = tuple(
    Scaling([0.0, *(n**power for n in range(1, 13))], apart) for power in (0.5, 0.9) for apart in (1.0, 0.7)
)
PLACEMENTS = tuple(Placement((nodes,)) for nodes in ((0, 0), (0, 1), (0, 0, 0, 1), (2, 2, 2, 2, 2, 3), (4, 4, 5, 5)))
PLACEMENTS += (PLACEMENTS[1].with_request(0, (3, 4)), Placement(((1,) * 13,)))
JOBS = some.dictionaries(
    some.integers(0, 9), some.tuples(*map(some.sampled_from, (SCALINGS, SPANS, PLACEMENTS))), max_size=8
)


def lines(standings, jobs, table_of=HOLDER.table):
    """`jobs`: arrival number to scaling, sizes and placement."""
    serials = np.array(sorted(jobs), np.int64)
    chosen = [jobs[serial] for serial in serials.tolist()]
    scalings, spans, placements = ([job[number] for job in chosen] for number in range(3))
    return standings.of(serials, spans, placements, lambda places: [scalings[place] for place in places], table_of)


@given(some.lists(JOBS, min_size=1, max_size=6), some.booleans())
def test_kept_lines_are_those_that_would_be_written_anew(cycles, changed_too):
    kept = SizeCache(changed_too=changed_too)
    for jobs in cycles:
        found, anew = (lines(one, jobs) for one in (kept, SizeCache(changed_too=changed_too)))
        assert found.tables == anew.tables
        assert np.array_equal(found.numbers, anew.numbers)


def test_a_job_that_did_not_change_is_not_looked_at_again():
    kept, asked = SizeCache(changed_too=False), []

    def table_of(scaling, span):
        asked.append(scaling)
        return SizeTable(scaling, span)

    for scaling in (SCALINGS[1], SCALINGS[2]):
        jobs = {7: (SCALINGS[0], SPANS[0], PLACEMENTS[0]), 9: (scaling, SPANS[0], PLACEMENTS[1])}
        lines(kept, jobs, table_of)
    assert asked == [SCALINGS[0], SCALINGS[1], SCALINGS[2]]


def test_a_job_that_has_no_table_has_no_line():
    kept = SizeCache(changed_too=False)
    resized = PLACEMENTS[0].with_request(0, (2, 2))
    jobs = {
        1: (SCALINGS[0], SPANS[0], PLACEMENTS[0]),
        2: (SCALINGS[0], SPANS[0], resized),
        3: (SCALINGS[0], None, resized),
    }
    assert (lines(kept, jobs).numbers[0] < 0.0).tolist() == [False, True, True]
    assert lines(SizeCache(changed_too=True), jobs).numbers[0].tolist() == [2.0, 2.0, -1.0]
