"""What finished jobs teach of sizes that nobody has asked for yet."""

from __future__ import annotations

import pytest

from headway.estimates.history.by_user import ModelHistory, Seconds, Shown
from headway.estimates.history.history import History
from headway.estimates.models.scaling import plain_speed
from headway.estimates.speed.model import Form
from headway.estimates.speed.requested import requested_setting
from make import a_job, some_nodes

NODES = some_nodes(2, gpus=8)
TWO_SECONDS = {4: Seconds().add(2.0).add(2.0)}


@pytest.mark.parametrize(
    "kind",
    [ModelHistory(seconds=TWO_SECONDS), ModelHistory(users={"ann": Shown(seconds=TWO_SECONDS)})],
    ids=["others'", "her own"],
)
def test_the_pace_of_a_size_that_nobody_asked_for_is_told_by_the_nearest_and_is_less_sure(kind):
    history = History({("bert", Form.GANG): kind})
    four, eight = (a_job("a", gpus=gpus, model="bert", user="ann") for gpus in (4, 8))
    at_four, at_eight = (history.step(job, requested_setting(job, NODES)) for job in (four, eight))
    assert at_four.seconds == pytest.approx(2.0)
    assert at_eight.seconds == pytest.approx(2.0 / plain_speed(four, (8,)), rel=0.1)
    assert at_eight.spread > at_four.spread
    assert history.step(a_job("b", gpus=4, model="other"), requested_setting(four, NODES)) is None
