"""Times of Kubernetes objects."""

from __future__ import annotations

from headway.kube.api.objects import timestamp, unix


def test_times_go_both_ways():
    assert unix(timestamp(1234.5)) == 1234.5
    assert (timestamp(1e18)[:4], timestamp(-1e18)[:4]) == ("9999", "1970"), "no time is beyond what can be written"
    assert unix(None) == unix("nonsense") == 0.0
