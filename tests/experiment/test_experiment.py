"""Experiments: the grid is whole, figures are what they say, and the command tells mistakes in one sentence."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from forked import headway
from headway.compare.scenario import Scenario
from headway.core.errors import UserError
from headway.estimates.models.scaling import plain_speed
from headway.experiment.bound import most_met
from headway.experiment.case import Cell, Goal, RunSize, said
from headway.experiment.deadline import _world, native_load
from headway.experiment.gather import result, run
from headway.experiment.page import MOST_FIGURES, page
from headway.experiment.perform import measure, perform
from headway.experiment.registry import EXPERIMENTS
from headway.workload.cluster import open_cluster
from headway.workload.trace import Trace
from make import a_job

TINY = RunSize(12, (1, 2), quick=True)


PUBLISHED = {"deadline-peer", "elastic-published", "everything", "unlike"}
"""These need traces that are not part of Headway."""


@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - PUBLISHED))
def test_a_grid_is_whole_and_the_same_when_run_again(name):
    experiment = EXPERIMENTS[name]
    cells = experiment.cells[:2]
    found = run(experiment, cells, TINY, 1, lambda _: None)
    told = result(experiment, found, TINY)
    assert [(cell["load"], cell["mix"]) for cell in told["cells"]] == [(cell.load, cell.mix) for cell in cells]
    for cell in told["cells"]:
        assert set(cell["policies"]) == {entry.label for entry in experiment.entries}
        for figures in cell["policies"].values():
            assert set(figures) == {figure.name for figure in experiment.figures}
    again = measure(experiment, cells[0], 1, TINY)
    assert repr(again.figures) == repr(found[0].figures)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    text = page(experiment, told, "headway experiment")
    assert all(f"{cell.load}, {cell.mix}" in text for cell in cells)
    assert all(target["what"].split(",")[0] in text for target in told["targets"])


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [("{:.0%}", 0.11, "11 %"), ("{:+.1f} %", -0.04, "0.0 %"), ("{:.0%}", -0.001, "0 %"), ("{:+.1f} %", 5.6, "+5.6 %"),
     ("{:+.1f} %", -17.7, "-17.7 %"), ("{:,.0f} s", 2094.0, "2,094 s"), ("{:.2f}", -0.001, "0.00")],
)  # fmt: skip
def test_figures_are_said_in_one_way(form, value, text):
    assert said(form, value) == text


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_no_table_of_the_page_has_more_columns_than_a_screen_holds(name):
    experiment = EXPERIMENTS[name]
    figures = {figure.name: {"mean": 1.0, "ci": [0.5, 1.5]} for figure in experiment.figures}
    cell = {"load": "x", "mix": "y", "policies": {"p": figures}, "bound": {}}
    told = {
        "jobs": 1,
        "seeds": [1],
        "about": "",
        "setup": "",
        "targets": [],
        "cells": [cell],
        "analysis": [],
        "title": "",
    }
    grid = page(experiment, told, "headway experiment").partition("The whole grid")[2].partition("How to read it")[0]
    tables = grid.split("<table>")[1:]
    assert all(table.count('scope="col"') <= MOST_FIGURES + 1 for table in tables)
    assert sum(table.count("<td") for table in tables) == len(experiment.figures), "none is left out"


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_quick_cells_belong_to_the_grid(name):
    experiment = EXPERIMENTS[name]
    assert set(experiment.quick_cells) <= set(experiment.cells)
    assert experiment.main in {entry.label for entry in experiment.entries}
    assert experiment.baseline in {entry.label for entry in experiment.entries}


def test_the_load_is_set_so_that_native_order_meets_the_share():
    experiment = EXPERIMENTS["deadline-scarce"]
    found = measure(experiment, Cell("native meets 50 %", "balanced"), 3, RunSize(30, (3,)))
    assert found.figures["fifo"]["met"] == pytest.approx(0.5, abs=0.1)
    assert found.figures["fifo"]["gained"] == 0.0
    assert found.figures["deadline"]["met"] <= found.bound["met"] + 1e-9
    assert native_load("balanced", 0.7, 30, 3) < native_load("balanced", 0.3, 30, 3)


def test_ample_demand_never_exceeds_what_is_booked():
    """Counted anew: the fewest workers that make each deadline, of all jobs between submission and deadline."""
    experiment = EXPERIMENTS["deadline-ample"]
    case = experiment.make(Cell("60 % booked", "balanced"), 1, RunSize(40, (1,)))

    def fewest(job):
        return next(
            n for n in range(1, job.roles[0].max + 1)
            if job.seconds / plain_speed(job, (n,)) + 10.0 <= job.deadline - job.submit + 1e-6
        )  # fmt: skip

    for job in case.trace.jobs:
        alive = [other for other in case.trace.jobs if other.submit <= job.submit < other.deadline]
        assert sum(fewest(other) for other in alive) <= 0.6 * 128 or len(alive) == 1


def test_the_bound_on_deadlines_holds_for_every_policy_and_is_reached_where_it_is_easy():
    jobs = [a_job(f"j{i}", seconds=100.0, deadline=150.0) for i in range(3)]
    case = Scenario(Trace(name="t", jobs=tuple(jobs)), tuple(open_cluster("1x1")), _world)
    assert most_met(case) == pytest.approx(1 / 3)
    impossible = replace(case, trace=Trace(name="t", jobs=(a_job("a", seconds=100.0, deadline=50.0),)))
    assert most_met(impossible) == 0.0
    for entry in EXPERIMENTS["deadline-scarce"].entries:
        assert perform(case, entry, 0).result["deadlines"]["met"] <= 1


def test_targets_are_reached_from_the_right_side():
    assert Goal("", lambda _: None, 26.0).reached(26.0)
    assert not Goal("", lambda _: None, 26.0).reached(25.9)
    assert Goal("", lambda _: None, 0.0, at_least=False).reached(0.0)
    assert not Goal("", lambda _: None, 0.0, at_least=False).reached(0.1)


def test_a_cell_that_says_nothing_of_a_target_does_not_count():
    experiment = EXPERIMENTS["deadline-scarce"]
    found = [measure(experiment, Cell("native meets 70 %", "balanced"), 1, RunSize(30, (1,)))]
    told = result(experiment, found, RunSize(30, (1,)))
    assert told["targets"][0]["cells"] == 0
    assert told["targets"][0]["median"] is None
    assert not math.isnan(told["targets"][2]["median"])


def test_any_executor_finds_what_this_process_finds():
    experiment, size = EXPERIMENTS["deadline-scarce"], RunSize(12, (1, 2))
    here = run(experiment, experiment.quick_cells[:1], size, 1, lambda _: None)
    told = []
    with ThreadPoolExecutor(1) as pool:
        there = run(experiment, experiment.quick_cells[:1], size, pool, told.append)
    assert repr(there) == repr(here)
    assert told == [0.5, 1.0]


@pytest.mark.parametrize(
    ("words", "sentence"), [(["nothing"], "no such experiment"), (["combined", "--seeds", "1,1"], "none twice")]
)
def test_mistakes_are_told_in_one_sentence(words, sentence):
    done = headway("experiment", *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_that_asks_for_more_workers_than_do_it_good_takes_its_steps_at_every_size(tmp_path, monkeypatch):
    """100 steps at 0.5 a second on four workers, as published, are 50 seconds on two."""
    folder = tmp_path / "elasticflow"
    (folder / "throughputs_T4").mkdir(parents=True)
    (folder / "throughputs_T4" / "yolov3.csv").write_text("global_batch_size,1,2,4\n64,1.0,2.0,0.5\n")
    (folder / "elasticVpollux_e.csv").write_text(
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n0,0,100,yolov3,60,64,4,200\n"
    )
    monkeypatch.setenv("HEADWAY_TRACES", str(tmp_path))
    experiment = EXPERIMENTS["deadline-peer"]
    found = measure(experiment, experiment.cells[0], 0, experiment.full).figures
    assert found["fifo"]["jct"] == 200
    assert found["deadline"]["jct"] == 50
    assert found["deadline"]["jobs"] == 1


def test_published_traces_are_read_with_their_throughputs(tmp_path, monkeypatch):
    folder = tmp_path / "elasticflow"
    (folder / "throughputs_T4").mkdir(parents=True)
    (folder / "throughputs_T4" / "bert.csv").write_text("global_batch_size,1,2,4\n384,1.0,1.8,0\n")
    (folder / "elasticVpollux_e.csv").write_text(
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n"
        "0,0,100,bert,60,384,1,100\n1,0,100,bert,120,384,2,50\n"
    )
    monkeypatch.setenv("HEADWAY_TRACES", str(tmp_path))
    experiment = EXPERIMENTS["deadline-peer"]
    found = measure(experiment, experiment.cells[0], 0, experiment.full)
    assert found.figures["deadline"]["jobs"] == 2
    assert found.figures["fifo"]["jobs"] == 1
    assert found.figures["deadline"]["peer"] == 2 - 142
    monkeypatch.setenv("HEADWAY_TRACES", "")
    with pytest.raises(UserError, match="HEADWAY_TRACES"):
        measure(experiment, experiment.cells[0], 0, experiment.full)
