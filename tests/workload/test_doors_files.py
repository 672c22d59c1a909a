"""Hostile files against every reader: each is read or refused in one sentence. `bench/doors_files.py` sends more."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("doors_files", Path(__file__).parents[2] / "bench" / "doors_files.py")
assert _SPEC is not None
assert _SPEC.loader is not None
doors_files = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(doors_files)


@pytest.mark.parametrize("door", doors_files.DOORS)
def test_whatever_a_file_holds_it_is_read_or_refused(door, tmp_path):
    taken, refused = doors_files.knock(door, tmp_path, 60)
    assert taken + refused >= 30
