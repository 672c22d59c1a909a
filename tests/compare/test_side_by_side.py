"""From Python the figures are those of the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from headway.cli import main
from headway.compare.scenario import read_scenario, scenario_of
from headway.compare.side_by_side import compare_policies, simulate_policy
from headway.core.errors import UserError
from headway.policies.registry import POLICIES
from headway.workload.trace import Trace

JOBS = "nodes: [{name: n, gpu: 2}]\njobs:\n" + "".join(
    f"  - {{name: job-{i}, gpu: 1, seconds: {20 + 13 * i % 60}, submit: {2 * i}}}\n" for i in range(10)
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path / "jobs.yaml"


def test_the_figures_are_those_of_compare(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["headway", "compare", str(file), "--policies", "fifo,srtf", "--json", "-j", "1"])
    with pytest.raises(SystemExit):
        main()
    told = json.loads(capsys.readouterr().out)
    found = compare_policies(read_scenario(file), {name: POLICIES[name]() for name in ("fifo", "srtf")})
    assert json.loads(json.dumps(found.as_json())) == told


def test_one_policy_is_a_row_of_the_comparison(file: Path) -> None:
    scenario = read_scenario(file)
    alone = simulate_policy(scenario, POLICIES["las"]())
    row = compare_policies(scenario, {"las": POLICIES["las"]()}, bounds=False).rows[0]
    assert {name: row[name] for name in ("jct", "wait", "makespan")} == {
        name: alone[name] for name in ("jct", "wait", "makespan")
    }


def test_a_trace_without_jobs_or_nodes_is_told() -> None:
    with pytest.raises(UserError, match="mine: there is no job"):
        scenario_of(Trace(name="mine", jobs=()))
