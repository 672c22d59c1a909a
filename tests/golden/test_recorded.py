"""Logs that an earlier release wrote, kept: their replay decides the same, and the same workload simulated again gives
the same log byte for byte. Where a change is meant, the log is recorded anew and the change log says why.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app_for

HERE = Path(__file__).parent
LOGS = sorted(HERE.glob("*.log.gz"))
SIMULATED = [log for log in LOGS if log.name.startswith("sim-") and log.name.count("-") >= 2]


def _headway(*words: str) -> str:
    result = CliRunner().invoke(app_for(list(words)), list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def _in_the_root(monkeypatch):
    """A recorded policy file is named from there."""
    monkeypatch.chdir(HERE.parents[1])


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name.removesuffix(".log.gz"))
def test_a_recorded_run_is_decided_as_it_was(log):
    assert "0 plans differ" in _headway("replay", str(log))


@pytest.mark.parametrize("log", SIMULATED, ids=lambda log: log.name.removesuffix(".log.gz"))
def test_the_same_workload_simulated_again_gives_the_same_log(log, tmp_path):
    policy, _, estimates = log.name.removeprefix("sim-").removesuffix(".log.gz").rpartition("-")
    jobs = tmp_path / "workload.yaml"
    jobs.write_bytes((HERE / "workload.yaml").read_bytes())
    again = tmp_path / "again.log"
    _headway("simulate", str(jobs), "--policy", policy, "--estimates", estimates, "--log", str(again), "--json")
    assert _lines(again.read_text(), tmp_path) == _lines(gzip.decompress(log.read_bytes()).decode(), tmp_path)


def _lines(text: str, folder: Path) -> list[str]:
    """Without the folder, which is another in every run."""
    return text.replace(str(folder), "golden").splitlines()
