from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def headway(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The real command, in a folder of its own."""

    def call(*words: str, code: int = 0, seconds: float = 400) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "headway", *words], cwd=tmp_path, capture_output=True, text=True, timeout=seconds,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


def lines(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]
