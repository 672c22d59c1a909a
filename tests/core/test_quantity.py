from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.quantity import LARGEST, QuantityError, count, parse, planned, show, write


@pytest.mark.parametrize(
    ("kind", "text", "amount"),
    [
        ("cpu", "500m", 500),
        ("cpu", 1.5, 1500),
        ("cpu", "2", 2000),
        ("memory", "512Mi", 512),
        ("memory", "2Gi", 2048),
        ("memory", "1", 1),
        ("memory", "1G", 954),
        ("memory", "3221225472000m", 3072),
        ("cpu", "0.0001", 1),
        ("cpu", 0.1 + 0.2, 300),
        ("memory", "8K", 1),
        ("ephemeral-storage", "10Gi", 10240),
        ("hugepages-2Mi", "1Gi", 1024),
        ("gpu", 4, 4),
        ("gpu", "8", 8),
        ("example.com/card", "2", 2),
    ],
)
def test_amounts_are_read_as_people_write_them(kind, text, amount):
    assert parse(kind, text) == amount


@pytest.mark.parametrize(
    ("kind", "text"),
    [("cpu", "half"), ("cpu", "-1"), ("memory", "2Xi"), ("memory", ""), ("gpu", "nan"), ("cpu", "inf"),
     ("memory", "Gi"), ("memory", "9999999Ti")]
)  # fmt: skip
def test_nonsense_is_refused_with_the_kind_named(kind, text):
    with pytest.raises(QuantityError, match=kind):
        parse(kind, text)


@given(kind=st.sampled_from(["cpu", "memory", "gpu"]), amount=st.integers(0, LARGEST))
def test_written_amounts_are_read_back(kind, amount):
    assert parse(kind, write(kind, amount)) == amount
    assert show(kind, amount)


def test_amounts_are_read_as_the_api_server_reads_them():
    """The verdicts of its own parser; bench/quantities.py records them."""
    recorded = json.loads((Path(__file__).parent.parent / "golden" / "quantities.json").read_text())
    assert len(recorded) > 300
    for text, is_read, milli, value in recorded:
        if is_read:
            assert (count("cpu", text), count("memory", text)) == (milli, value), text
        else:
            with pytest.raises(QuantityError):
                count("cpu", text)


def test_a_node_never_seems_larger_than_it_is_and_a_pod_never_smaller():
    assert (planned("memory", 2**20 + 1), planned("memory", 2**20 + 1, floor=True)) == (2, 1)
    assert (planned("cpu", 1500), planned("gpu", 3, floor=True)) == (1500, 3)
