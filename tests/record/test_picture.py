"""The picture of a run: what it shows of thirty jobs, a missed deadline, a failure and a job that waited in between."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from headway.core.job import Job, JobId
from headway.core.node import Node, Nodes
from headway.core.states import State
from headway.record.metrics import Course, Tally
from headway.record.picture import COLOURS, ONE_COLOUR, broken, draw, lifted

pytest.importorskip("matplotlib")
R, W = State.RUNNING, State.WAITING


def a_course(name: str = "a", *, ended: float = 10.0, state: State = State.FINISHED, **job: object) -> Course:
    spans = [(0.0, 3.0, R, ((0,),)), (3.0, 6.0, W, ()), (6.0, ended, R, ((0,),))]
    losses = [(1.0, 1, 2.0), (2.0, 2, 1.5), (7.0, 3, 1.0), (8.0, 4, 0.5)]
    return Course(Job(id=JobId(name), roles=(), **job), state, 0.0, ended, spans=spans, losses=losses)


def texts(tally: Tally, path) -> tuple[list[str], object]:
    from matplotlib import pyplot as plt

    kept = []
    close = plt.close
    plt.close = kept.append
    try:
        assert draw(tally, path) == path
    finally:
        plt.close = close
    figure = kept[0]
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [label.get_text() for label in figure.axes[0].get_yticklabels()]
    limits = figure.axes[0].get_xlim()
    close(figure)
    return found, limits


def a_tally(*courses: Course) -> Tally:
    tally = Tally(courses=True)
    tally.courses = dict(enumerate(courses))
    tally.nodes = Nodes.of([Node(name="left", capacity=())])
    return tally


def test_a_curve_is_broken_where_the_job_waited():
    curve = broken(a_course())
    assert [at for at, loss in curve if math.isnan(loss)] == [7.0]
    assert [at for at, loss in curve if not math.isnan(loss)] == [1.0, 2.0, 7.0, 8.0]


def test_missed_deadlines_and_failures_say_so(tmp_path):
    found, _ = texts(
        a_tally(a_course("late", deadline=5.0), a_course("bad", state=State.FAILED), a_course("good", deadline=11.0)),
        tmp_path / "run.png",
    )
    assert [text for text in found if "missed" in text] == [" ✗ missed by 5 s "]
    assert " ✗ failed " in found
    assert found.count(" ✓ ") == 1
    assert {"late", "bad", "good"} <= set(found), "no empty brackets where there is no user; curves are labelled"


def test_a_far_deadline_takes_no_room(tmp_path):
    found, (_, right) = texts(a_tally(a_course("a", deadline=1000.0)), tmp_path / "run.png")
    assert right < 12
    assert any("deadline 17 min" in text for text in found)


def test_thirty_jobs_are_drawn_each_with_its_loss_beside_it(tmp_path):
    names = [f"job-{number}" for number in range(30)]
    found, _ = texts(a_tally(*(a_course(name, user="ana") for name in names)), tmp_path / "run.png")
    assert {f"{name} (ana)" for name in names} <= set(found)
    assert found.count("2 → 0.5") == 30, "each row has its own curve and its values"
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_names_of_curves_that_end_together_are_apart():
    ends = [((9.0, 0.1), f"job-{number}", "black") for number in range(6)]
    lifts = sorted(lift for _, _, _, lift in lifted(ends, (0.0, 1.0), 10.0, log=False))
    assert all(later - lift >= 8.0 for lift, later in pairwise(lifts))


def test_a_text_that_is_longer_than_its_bar_is_left_out(tmp_path):
    short = Course(Job(id=JobId("a"), roles=()), State.FINISHED, 0.0, 0.2, spans=[(0.0, 0.2, R, ((0,),))])
    long = Course(Job(id=JobId("b"), roles=()), State.FINISHED, 0.0, 90.0, spans=[(0.0, 90.0, R, ((0,),))])
    found, _ = texts(a_tally(short, long), tmp_path / "run.png")
    assert found.count("1 replica") == 1


def test_only_failures_and_missed_deadlines_are_red(tmp_path):
    from matplotlib.colors import to_rgb

    for red, green, blue in map(to_rgb, [*COLOURS, ONE_COLOUR]):
        assert not red > 2 * max(green, blue)
