"""What `headway traces` says an experiment reads is what it opens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from headway.experiment import elastic_published, everything_cells, published, unlike
from headway.experiment.case import Experiment
from headway.experiment.elastic_published import ELASTIC_PUBLISHED
from headway.experiment.everything import EVERYTHING
from headway.experiment.learning import curve, proof_windows
from headway.experiment.learning.plan import read_plan, windows_of
from headway.experiment.native import slices
from headway.experiment.published import PEER
from headway.experiment.registry import EXPERIMENTS
from headway.experiment.trace_needs import NEEDS, files_by_experiment
from headway.experiment.unlike import UNLIKE
from headway.workload.origins.table import origins


class Opened(Exception):  # noqa: N818  not an error: it ends the reading
    """Raised in place of reading."""


def cells_of(one: Experiment) -> list[Callable[[], object]]:
    return [
        lambda cell=cell, seed=seed: one.make(cell, seed, one.full) for cell in one.cells for seed in one.full.seeds
    ]


def windows_of_learning() -> list[Callable[[], object]]:
    plan, digest = read_plan()
    calls: list[Callable[[], object]] = []
    for one in windows_of(plan):
        calls.append(lambda one=one: proof_windows.scenario(plan, digest, one))
        for place in plan.taught_by:
            part = msgspec.structs.replace(plan, taught_by=[place])
            calls.append(lambda one=one, part=part: proof_windows.teaching(part, digest, one.source))
    return calls


CALLS: dict[str, Callable[[], list[Callable[[], object]]]] = {
    PEER.name: lambda: cells_of(PEER),
    ELASTIC_PUBLISHED.name: lambda: cells_of(ELASTIC_PUBLISHED),
    EVERYTHING.name: lambda: cells_of(EVERYTHING),
    UNLIKE.name: lambda: cells_of(UNLIKE),
    "learning": windows_of_learning,
    "learning-curve": lambda: [curve.itp_windows],
    "native": lambda: [one.case for one in (*slices.REPORTED, *slices.CALIBRATION)],
}


@pytest.mark.parametrize("name", NEEDS)
def test_an_experiment_opens_what_it_is_said_to_need(name, monkeypatch):
    seen = set()

    def opened(file: str) -> None:
        seen.add(file)
        raise Opened

    for module in (everything_cells, proof_windows, curve, slices, unlike):
        monkeypatch.setattr(module, "read_trace", opened)
    for module in (published, elastic_published):
        monkeypatch.setattr(module, "trace_path", opened)
    for call in CALLS[name]():
        with suppress(Opened):
            call()
    tables = {file for file in files_by_experiment()[name] if "/throughputs_" in file}
    assert seen == set(files_by_experiment()[name]) - tables
    assert bool(tables) == (name == PEER.name)


def test_every_file_is_in_the_table_and_every_other_experiment_needs_none(monkeypatch):
    known = {one.file for one in origins()}
    assert {file for files in files_by_experiment().values() for file in files} <= known
    assert set(NEEDS) == set(CALLS)
    monkeypatch.delenv("HEADWAY_TRACES", raising=False)
    for name in set(EXPERIMENTS) - set(NEEDS):
        one = EXPERIMENTS[name]
        assert one.make(one.quick_cells[0], one.quick.seeds[0], one.quick).trace.jobs
