"""Will a job meet its deadline?"""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.estimates import Beliefs, Estimates
from headway.policies.deadline import Deadline
from headway.policies.value.deadlines import needs
from headway.policies.value.in_time import Verdict, in_time
from make import a_job, a_snapshot, some_nodes

FREE = Deadline(restart=0.0, margin=0.0, cool_down=0.0)


def linear(job, counts):
    """As fast as it has workers, relative to what it asked for."""
    return counts[0] / job.roles[0].replicas


def test_the_answer_says_yes_no_or_that_it_needs_a_trial():
    nodes = some_nodes(1, gpus=4)

    def ask(job, *others, left=None):
        entries = (job, *others)
        known = {entry.id: entry.seconds for entry in entries if entry.seconds is not None}
        return in_time(a_snapshot(*entries, nodes=nodes, left=left or known, speed=linear), 0, FREE.promises)

    yes = ask(a_job("a", 1, min=1, max=4, seconds=100.0, deadline=55.0))
    assert (yes.verdict, yes.counts, yes.done_at) == (Verdict.YES, (2,), 50.0)
    no = ask(a_job("a", 1, min=1, max=4, seconds=100.0, deadline=20.0))
    assert no.verdict is Verdict.NO
    assert "5 seconds later" in no.remedy
    crowded = ask(
        a_job("a", 4, seconds=100.0, deadline=150.0), a_job("b", 4, seconds=100.0, deadline=140.0), left=None
    )  # fmt: skip
    assert crowded.verdict is Verdict.NO
    assert crowded.done_at == pytest.approx(200.0)
    unknown = ask(a_job("a", deadline=100.0), left={"other": 1.0})
    assert unknown.verdict is Verdict.UNKNOWN
    assert "minutes" not in unknown.sentence + unknown.remedy, "a trial may not last longer than the deadline lets it"
    assert unknown.sentence.startswith("It has not shown its pace: its first reports will.")
    assert "about 50 s, as its deadline suggests, and planned with 1 replica" in unknown.sentence
    assert ask(a_job("a", seconds=5.0)).verdict is Verdict.YES


def test_the_answer_is_more_careful_where_the_estimate_is_loose():
    snapshot = a_snapshot(a_job("a", 1, deadline=100.0), nodes=some_nodes(1, gpus=1))

    def with_spread(spread):
        beliefs = Beliefs(
            np.array([130.0]), np.array([0.0]), np.array([False]), np.array([spread]), np.zeros(1, np.uint8),
            np.zeros(1), np.zeros(1, np.uint8),
        )  # fmt: skip
        return snapshot.with_estimates(Estimates(lambda: beliefs, lambda *_: 1.0))

    assert needs(with_spread(0.05), [0], 0.0)[0].chance(100.0) < 0.05
    assert needs(with_spread(0.5), [0], 0.0)[0].chance(100.0) > 0.05
