"""`headway experiment native`: what it makes of its runs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headway.cli.studies.native_proof import native
from headway.core.errors import UserError
from headway.experiment.native import proof
from headway.experiment.native.live import LiveResult
from headway.experiment.native.native_queue import GROUP_COUNT, GROUP_NAME, QUEUE, KueueScheduler
from headway.experiment.native.proof import ProofPlan, SliceFigures, joined, prove, told
from headway.experiment.native.runs import LiveRun, LiveRuns
from headway.experiment.native.slices import Slice
from headway.experiment.native.trainers import PodSeen
from headway.kube.api.errors import Invalid
from make import a_job

ROOT = Path(__file__).parents[2]
BOTH = ("podgroup", "headway")


@dataclass(frozen=True, slots=True)
class MadeSlice(Slice):
    """Needs no trace."""

    def case(self, jobs: int = 50) -> Any:
        return SimpleNamespace(trace=SimpleNamespace(jobs=range(jobs)), nodes=())


ONE = MadeSlice("made", "half", 1)


def a_result(*completion: float) -> LiveResult:
    times = np.array(completion)
    return LiveResult(times, np.ones_like(times), np.zeros_like(times), 1e6, False, False, 1, 1.0, (0.0, 0.0), "v")


def figures(name: str, result: LiveResult | None, repeat: int = 1) -> SliceFigures:
    return SliceFigures(LiveRun(ONE, name, 50, repeat), result, None)


@pytest.mark.parametrize("error", [TimeoutError, partial(Invalid, 422)])
def test_a_run_that_comes_to_nothing_does_not_end_the_others(error, monkeypatch, tmp_path):
    def performed(case: object, contender: Any, *_: object) -> LiveResult:
        if contender.title == "native, PodGroup":
            raise error("the scheduler did not come to rest at second 7")
        return a_result(1.0)

    monkeypatch.setattr(proof, "perform_live", performed)
    monkeypatch.setattr(proof, "case_of", lambda *_: None)
    monkeypatch.setattr(proof, "_twin", lambda *_: None)
    plan = ProofPlan((ONE,), BOTH, 50)
    found = prove(plan, LiveRuns(tmp_path), None, lambda *_: None, only_kept=False)
    assert [one.live is not None for one in found] == [False, True]
    said = told(plan, found)
    assert said["missing"] == [found[0].run.key]
    assert said["failed"] == {found[0].run.key: "the scheduler did not come to rest at second 7"}


def test_all_jobs_count_that_are_done_much_later_also_those_that_are_not_named():
    before, after = a_result(*[100.0] * 50), a_result(*[10_000.0] * 45, *[100.0] * 5)
    said = told(ProofPlan((ONE,), BOTH, 50), [figures("podgroup", before), figures("headway", after)])
    assert len(said["slices"][0]["runs"]["headway"]["far"]) == proof.TOLD_JOBS
    assert said["against"]["headway"]["far"] == 0.9


def test_a_report_keeps_what_was_run_before_and_the_means_are_over_all():
    other = replace(ONE, place=2)
    before = json.loads(json.dumps(told(ProofPlan((ONE,), BOTH, 50), [
        figures("podgroup", a_result(100.0, 300.0)), figures("headway", a_result(100.0, 100.0)),
    ])))  # fmt: skip
    found = told(ProofPlan((ONE, other), ("podgroup", "packed"), 50), [
        figures("packed", a_result(300.0, 300.0)),
        SliceFigures(LiveRun(other, "podgroup", 50), a_result(10.0, 10.0), None),
    ])  # fmt: skip
    both = joined(before, found)
    assert [(one["slice"], list(one["runs"])) for one in both["slices"]] == [
        ("made half 1", ["podgroup", "packed", "headway"]), ("made half 2", ["podgroup"]),
    ]  # fmt: skip
    assert both["slices"][0]["runs"]["packed"]["ratio"] == 1.5, "of single jobs nothing is said"
    assert "far" not in both["slices"][0]["runs"]["packed"]
    assert both["against"]["headway"]["podgroup"]["ratio"] == pytest.approx(0.5)
    assert both["against"]["packed"]["podgroup"]["slices"] == 1
    assert "itp_half_1-headway-200_jobs-repeat_1-1.36" in both["missing"]


def test_a_part_of_the_proof_is_named_by_slices_and_contenders():
    part = ProofPlan().only(["itp half", "pollux quarter 3"], ["headway", "kueue"])
    assert [one.name for one in part.slices] == ["itp half 1", "itp half 4", "pollux quarter 3", "itp half 7"]
    assert part.contenders == ("kueue", "headway")
    assert ProofPlan().only([], []) == ProofPlan()
    for slices, by, word in (
        (["helios"], [], "--slices helios: choose from pollux half 1"),
        ([], ["slurm"], "--by slurm"),
    ):
        with pytest.raises(UserError, match=word):
            ProofPlan().only(slices, by)


def test_a_report_that_is_none_is_not_overwritten(tmp_path):
    file = tmp_path / "notes.json"
    file.write_text("[1]")
    with pytest.raises(UserError, match="it is no report of this experiment"):
        native(quick=True, workers=1, as_json=True, report=file)
    assert file.read_text() == "[1]"


def test_repeats_tell_the_noise():
    runs = [figures("podgroup", a_result(mean, mean), repeat) for repeat, mean in enumerate((90.0, 100.0, 110.0), 1)]
    said = told(ProofPlan((ONE,), ("podgroup",), 50, 3), runs)["slices"][0]["runs"]["podgroup"]
    assert said["noise"] == pytest.approx(0.1)
    assert "noise" not in told(ProofPlan((ONE,), ("podgroup",), 50), runs[:1])["slices"][0]["runs"]["podgroup"]


def test_runs_in_plain_time_are_kept_beside_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "_twin", lambda run, kept: None)
    live = LiveRuns(tmp_path)
    live.put(LiveRun(ONE, "headway", 50, times=20.0), a_result(1.0))
    plans = {times: ProofPlan((ONE,), ("headway",), 50, times=times) for times in (0.0, 10.0, 20.0)}
    found = {times: prove(plan, live, None, lambda *_: None, only_kept=True) for times, plan in plans.items()}
    assert [times for times, (one,) in found.items() if one.live is not None] == [20.0]


class NotedStage:
    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def create(self, body: dict[str, Any]) -> None:
        self.bodies.append(body)

    async def each(self, works: Iterable[Any]) -> None:
        for work in works:
            await work


def test_a_pod_that_kueue_has_deleted_is_made_anew_in_the_same_group():
    part = SimpleNamespace(name="kube-scheduler", port=1)
    lab: Any = SimpleNamespace(status=lambda: SimpleNamespace(parts=[part]))
    stage: Any = NotedStage()
    kueue, job = KueueScheduler(lab, 8), a_job("a", 2)
    asyncio.run(kueue.submit(stage, job))
    asyncio.run(kueue.remake(stage, job, PodSeen("a-0-worker-1", "u", job.id, "worker", 1, 0, "", leaving=True)))
    *_, before, again = (body["metadata"] for body in stage.bodies)
    assert again["name"] not in {body["metadata"]["name"] for body in stage.bodies[:-1]}
    assert again["labels"] == before["labels"]
    assert {QUEUE, GROUP_NAME} <= again["labels"].keys()
    assert again["annotations"][GROUP_COUNT] == "2"


def test_a_slice_without_a_run_of_the_baseline_is_left_out_of_the_picture(tmp_path):
    both = told(ProofPlan((ONE,), BOTH, 50), [figures("podgroup", a_result(1.0)), figures("headway", a_result(1.0))])
    other = replace(ONE, place=2)
    alone = SliceFigures(LiveRun(other, "headway", 50), a_result(1.0), None)
    said = told(ProofPlan((ONE, other), BOTH, 50), [alone])
    both["slices"] += said["slices"]
    (tmp_path / "proof.json").write_text(json.dumps(both))
    command = [sys.executable, ROOT / "bench/native/picture.py", "--proof", tmp_path / "proof.json", "--to", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "proof-slices.png").exists()
