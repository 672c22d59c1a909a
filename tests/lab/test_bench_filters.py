"""Our bindings before the scheduler's own filters, and our amounts before the API server's own parser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headway.lab.programs import locate

BENCH = Path(__file__).parents[2] / "bench"
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        locate("filter-check") is None, reason="filter-check is not built: headway lab build filter-check"
    ),
]


def test_the_native_filters_accept_every_binding_and_place_hardly_more():
    script = [sys.executable, str(BENCH / "filters.py"), "--pods", "300", "--nodes", "25"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bindings accepted by the native filters" in done.stdout


def test_the_api_server_reads_the_same_amounts():
    script = [sys.executable, str(BENCH / "quantities.py"), "--texts", "500", "--seed", "11"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
