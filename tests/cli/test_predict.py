"""`headway predict evaluate`: two tables, the same each time, and mistakes told in a sentence."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.studies.predict import app, verdicts
from headway.core.errors import UserError
from headway.estimates.evaluate import SHARES, evaluate_targets
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.predict_curves import made_up_ways, read_ways
from headway.experiment.predict_steps import METHODS, evaluate_steps

TRACES = Path(os.environ.get("HEADWAY_TRACES", Path(__file__).parents[2] / "../shared/traces"))


def test_known_steps_beat_a_line_under_resizes_and_contention_and_reach_the_aim():
    found = evaluate_steps(BUILT_IN, 25, 3, lambda _: None)
    assert found.jobs == 25
    assert found.resizes > 25
    ours, line = METHODS.index("headway"), METHODS.index("linear")
    for share, errors in zip(SHARES, found.as_it_is, strict=True):
        assert all(error.count + error.none == 25 for error in errors)
        if share >= 0.1:
            assert errors[ours].median <= 0.10
        if share >= 0.5:
            assert errors[ours].median < 0.5 * errors[line].median
            assert errors[ours].p90 < errors[line].p90
    assert found == evaluate_steps(BUILT_IN, 25, 3, lambda _: None), "the seed decides"


def test_made_up_curves_are_read_and_like_jobs_help():
    ways = made_up_ways(0)
    assert len({way.model for way in ways}) == 6
    found = evaluate_targets(ways, 3)
    ours, like, _ = found.shares[SHARES.index(0.2)]
    assert like.median < 0.15 < ours.median


def _write(folder: Path, metric="0.1") -> None:
    (folder / "mlperf").mkdir(parents=True)
    chance = random.Random(0)
    with gzip.open(folder / "mlperf/runs.csv.gz", "wt", newline="") as file:
        out = csv.DictWriter(file, ["run_id", "round", "benchmark", "system", "global_batch_size", "status"])
        out.writeheader()
        for run in range(4):
            out.writerow({"run_id": run, "round": "v1.0", "benchmark": "resnet", "system": "s", "status": "success",
                          "global_batch_size": 256})  # fmt: skip
    with gzip.open(folder / "mlperf/eval_curves.csv.gz", "wt", newline="") as file:
        out = csv.DictWriter(file, ["run_id", "epoch", "elapsed_s", "metric"])
        out.writeheader()
        for run in range(4):
            for epoch in range(1, 12):
                value = metric if metric != "0.1" else 0.07 * epoch * chance.uniform(0.98, 1.02)
                out.writerow({"run_id": run, "epoch": epoch, "elapsed_s": 60 * epoch, "metric": value})


def test_published_curves_are_cut_at_their_target(tmp_path):
    _write(tmp_path)
    ways = read_ways(tmp_path)
    assert len(ways) == 4
    assert all(way.points[-1][1] >= way.target > way.points[-2][1] for way in ways)
    assert len({way.like for way in ways}) == 1


def test_a_damaged_file_is_told_with_its_field(tmp_path):
    _write(tmp_path, metric="high")
    with pytest.raises(UserError, match=r"eval_curves.*field metric.*'high'"):
        read_ways(tmp_path)


def test_the_command_prints_tables_and_json():
    runner = CliRunner()
    shown = runner.invoke(app, ["evaluate", "--jobs", "6"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    assert "1. The total of steps is known: 6 jobs" in shown.output
    assert "2. The job stops at a target" in shown.output
    assert "known steps, as it is: median at most 10% from 10% on" in shown.output
    found = json.loads(runner.invoke(app, ["evaluate", "--jobs", "6", "--json"]).output)
    assert [row["done"] for row in found["steps"]["as_it_is"]] == list(SHARES)
    assert set(found["targets"]["shares"][0]) == {"done", "headway", "like jobs", "linear"}
    assert len(verdicts(found)) == 4


def test_a_folder_that_is_not_there_or_empty_is_a_users_mistake(tmp_path):
    for folder, words in ((tmp_path / "no", "no such folder"), (tmp_path, "no curve")):
        result = CliRunner().invoke(app, ["evaluate", "--traces", str(folder)])
        assert isinstance(result.exception, UserError)
        assert words in str(result.exception)


def test_real_curves_with_like_jobs_reach_the_aim():
    if not (TRACES / "mlperf").is_dir():
        pytest.skip("no published traces at HEADWAY_TRACES or ../shared/traces")
    ways = read_ways(TRACES)
    assert len(ways) > 1000
    found = evaluate_targets([way for number, way in enumerate(ways) if number % 3], 3)
    for share, (ours, like, line) in zip(SHARES, found.shares, strict=True):
        if share >= 0.1:
            assert like.median <= 0.10
            assert ours.median < line.median
