from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.quantity import LARGEST, QuantityError, parse, show, write


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
                       ("memory", "9999999Ti")]
)  # fmt: skip
def test_nonsense_is_refused_with_the_kind_named(kind, text):
    with pytest.raises(QuantityError, match=kind):
        parse(kind, text)


@given(kind=st.sampled_from(["cpu", "memory", "gpu"]), amount=st.integers(0, LARGEST))
def test_written_amounts_are_read_back(kind, amount):
    assert parse(kind, write(kind, amount)) == amount
    assert show(kind, amount)
