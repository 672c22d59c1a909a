"""How long a job takes on each type of accelerators: what is believed, whose word counts, and that the log keeps it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headway.beliefs.file import NO_BELIEFS
from headway.beliefs.kept_book import go_on_learning
from headway.core.job import JobId
from headway.core.node import Constraint, Nodes
from headway.core.snapshot import Sample
from headway.estimates.models.scaling import RELATIVE_SPEED
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.accelerators import product
from headway.estimates.speed.types import TypeLesson, TypeLessons, on_types, published
from make import a_job, a_node, a_role, a_snapshot, running, waiting

NAMES = ("k80", "v100")
NODES = Nodes.of([a_node("n0", gpus=4, accelerator="K80"), a_node("n1", gpus=4, accelerator="V100")])
PUBLISHED = 1.70 / 0.36


def _gain(lessons, model="mine", user="", names=NAMES):
    """How many times as fast as on the first type it is on the last."""
    leaning = lessons.leaning(model, user, names)
    return math.exp(leaning[0] - leaning[-1])


def _lesson(gain, user=""):
    return TypeLesson(user, {"k80": 0.0, "v100": -math.log(gain)})


def test_what_is_published_counts_until_a_job_has_run_on_two_types():
    assert _gain(TypeLessons()) == pytest.approx(PUBLISHED)
    assert _gain(TypeLessons(), model="yolov3", names=("rtx2080ti", "v100")) == pytest.approx(1.5 / 0.61)
    assert _gain(TypeLessons(), names=("mystery", "riddle")) == 1.0
    assert _gain(TypeLessons(), names=("a100", "nvidia h100 80gb hbm3")) > 1.5


def test_a_type_of_which_nothing_is_published_is_taken_to_be_like_the_others():
    assert _gain(TypeLessons(), names=("a100", "mystery")) == pytest.approx(1.0)
    assert _gain(TypeLessons(), names=("k80", "v100", "mystery")) == pytest.approx(PUBLISHED**0.5)


def test_tables_of_speeds_are_in_order():
    """Each generation of one line of products is faster than the one before."""
    for line in (
        ("k80", "p100", "v100", "a100", "h100pcie", "h100", "h200", "b200"), ("t4", "a10", "rtx6000ada"),
        ("gtx1080ti", "rtx2080ti", "rtx3080", "rtx3090", "rtx4090"), ("rtx6000", "rtxa6000", "rtx6000ada"),
    ):  # fmt: skip
        speeds = [RELATIVE_SPEED[kind] for kind in line]
        assert speeds == sorted(speeds)


def test_jobs_of_the_model_move_it_and_other_models_follow_a_little():
    lessons = TypeLessons()
    for number in range(8):
        lessons = lessons.heard("mine", JobId(f"j{number}"), _lesson(1.5))
    assert _gain(lessons) == pytest.approx(1.5, rel=0.25)
    assert 1.5 < _gain(lessons) < _gain(lessons, model="gpt") < PUBLISHED


def test_the_jobs_of_another_user_count_as_one():
    lessons = TypeLessons()
    for number in range(8):
        lessons = lessons.heard("mine", JobId(f"j{number}"), _lesson(1.5, user="bob"))
    assert _gain(lessons, user="bob") < _gain(lessons, user="ann") < PUBLISHED


ROUNDED = 1.06


def test_one_job_moves_its_model_four_times_and_others_twice():
    lessons = TypeLessons().heard("mine", JobId("liar"), _lesson(1e6))
    assert 2.0 * PUBLISHED < _gain(lessons) <= 4.0 * PUBLISHED
    assert PUBLISHED < _gain(lessons, model="gpt") <= 2.0 * ROUNDED * PUBLISHED


def test_however_many_jobs_move_their_model_no_further():
    lessons = TypeLessons()
    for number in range(12):
        lessons = lessons.heard("mine", JobId(f"j{number}"), _lesson(1e6))
    assert _gain(lessons) <= 4.0 * PUBLISHED
    assert _gain(lessons, model="gpt") <= 2.0 * ROUNDED * PUBLISHED


def test_all_models_of_one_user_move_others_no_further_than_one():
    lessons, three = TypeLessons(), ("k80", "p100", "v100")
    for number in range(50):
        lessons = lessons.heard(f"m{number}", JobId(f"j{number}"), _lesson(1e6, user="bob"))
    assert _gain(lessons, model="new", user="ann") <= 2.0 * ROUNDED * PUBLISHED
    assert _gain(lessons, model="new", user="ann", names=three) <= 2.0 * ROUNDED * PUBLISHED


def test_jobs_that_name_no_model_teach_each_other_as_models_do():
    nameless, named = TypeLessons(), TypeLessons()
    for number in range(8):
        nameless = nameless.heard("", JobId(f"j{number}"), _lesson(1.5))
        named = named.heard(f"m{number}", JobId(f"j{number}"), _lesson(1.5))
    assert 1.5 < _gain(nameless, model="") < 0.7 * PUBLISHED
    assert _gain(nameless, model="") == _gain(nameless, model="new") == pytest.approx(_gain(named, model="new"))


def test_nameless_jobs_of_one_user_move_others_no_further_than_one():
    lessons = TypeLessons()
    for number in range(12):
        lessons = lessons.heard("", JobId(f"j{number}"), _lesson(1e6, user="bob"))
    assert PUBLISHED < _gain(lessons, model="", user="ann") <= 2.0 * ROUNDED * PUBLISHED


def test_what_a_job_taught_is_forgotten_when_its_reports_turn_odd():
    liar, honest = a_job("a", model="mine"), a_job("b", model="mine")
    book, asked = _on_both(liar, total=30_000), a_snapshot(waiting(honest), nodes=NODES)
    assert book.annotate(asked).estimates.on_types([0])[0].seconds[0] < 0.8 * PUBLISHED
    book, _ = _reports(book, liar, 1, 800.0, 60.0, 30_000, 30_000)
    told = book.annotate(asked).estimates.on_types([0])[0]
    assert told.seconds[0] == pytest.approx(PUBLISHED, rel=0.01)


def test_a_restart_believes_of_types_what_was_believed_and_forgets_what_turns_odd_later(tmp_path):
    """Also the next leader of a cluster, who has these files and no log."""
    file = tmp_path / "run.log.beliefs"
    liar, honest = a_job("a", model="mine"), a_job("b", model="mine")
    live = _on_both(liar, total=30_000, book=go_on_learning(file, NO_BELIEFS, ()))
    live.keeper.write()
    again = go_on_learning(file, NO_BELIEFS, ())
    asked = a_snapshot(waiting(honest), nodes=NODES)
    before, after = (book.annotate(asked).estimates.on_types([0])[0] for book in (live, again))
    assert after == before
    assert after.seconds[0] < 0.8 * PUBLISHED
    odd, _ = _reports(again, liar, 1, 800.0, 60.0, 30_000, 30_000)
    assert odd.annotate(asked).estimates.on_types([0])[0].seconds[0] == pytest.approx(PUBLISHED, rel=0.01)


def test_a_job_that_was_measured_on_a_type_that_is_gone_is_told_of_the_others():
    job = a_job("a", model="mine")
    book, _ = _reports(ProgressBook(), job, 0, 0.0, 40.0, 0)
    others = Nodes.of([a_node("n1", accelerator="V100"), a_node("n2", accelerator="P100")])
    told = book.annotate(a_snapshot(waiting(job), nodes=others, now=400.0)).estimates.on_types([0])[0]
    assert told.seconds[1] == pytest.approx(0.36 / 1.70, rel=0.06)
    assert told.seconds[0] == pytest.approx(0.36 / 1.31, rel=0.06)
    assert told.measured == (False, False)


def test_what_is_nothing_new_changes_nothing():
    lessons = TypeLessons().heard("mine", JobId("a"), _lesson(3.0))
    assert lessons.heard("mine", JobId("a"), _lesson(3.01)) is lessons
    before = lessons.leaning("gpt", "", NAMES)
    again = lessons.heard("mine", JobId("a"), _lesson(3.075))
    assert again is not lessons
    assert again.leaning("gpt", "", NAMES) is before


def test_a_job_is_believed_to_be_as_it_was_measured():
    leaning = tuple(published("", ("k80", "p100", "v100")).tolist())
    own = {"k80": math.log(8.0), "v100": math.log(4.0)}
    told = on_types(("k80", "p100", "v100"), leaning, own, math.log(8.0))
    assert told.seconds[0] == 1.0
    assert told.seconds[2] == pytest.approx(0.5, rel=0.01)
    between = math.exp((own["k80"] + own["v100"]) / 2) * math.sqrt(0.36 * 1.70) / 1.31
    assert told.seconds[1] == pytest.approx(between / 8.0, rel=0.01)
    assert told.measured == (True, False, True)


def _reports(book, job, node, begins, pace, step, total=1_000_000):
    for second in range(10, 310, 10):
        entry = running(job, (node,), since=begins, attained=begins)
        snapshot = a_snapshot(entry, nodes=NODES, now=begins + second)
        sample = Sample(job.id, begins + second, step + int(second * pace), None, total)
        book = book.fold(replace(snapshot, samples=(sample,)))
    return book, step + int(300 * pace)


def _on_both(job, gain=1.5, total=1_000_000, book=None):
    """A job that has run on a K80 and then on a V100."""
    book, step = _reports(book or ProgressBook(), job, 0, 0.0, 40.0, 0, total)
    return _reports(book, job, 1, 400.0, 40.0 * gain, step, total)[0]


def test_the_book_tells_what_a_job_has_shown_and_what_others_may_expect():
    first, second = a_job("a", model="mine"), a_job("b", model="mine")
    book = _on_both(first)
    entries = [running(first, (1,), since=400.0, attained=400.0), waiting(second)]
    told = book.annotate(a_snapshot(*entries, nodes=NODES, now=710.0)).estimates.on_types([0, 1])
    assert told[0].seconds == (pytest.approx(1.5, rel=0.03), 1.0)
    assert told[0].measured == (True, True)
    assert 1.5 < told[1].seconds[0] < PUBLISHED * 0.75
    assert told[1].measured == (False, False)


def test_types_without_a_published_speed_are_told_apart_by_measurements():
    nodes = Nodes.of([a_node("n0", accelerator="one"), a_node("n1", accelerator="two")])
    job, book, step = a_job("a", model="mine"), ProgressBook(), 0
    for node, begins, pace in ((0, 0.0, 40.0), (1, 400.0, 100.0)):
        for second in range(10, 310, 10):
            entry = running(job, (node,), since=begins, attained=begins)
            sample = Sample(job.id, begins + second, step + int(second * pace), None, 1_000_000)
            book = book.fold(replace(a_snapshot(entry, nodes=nodes, now=begins + second), samples=(sample,)))
        step += int(300 * pace)
    there = a_snapshot(running(job, (1,), since=400.0, attained=400.0), nodes=nodes, now=710.0)
    assert book.annotate(there).estimates.on_types([0])[0].seconds == (pytest.approx(2.5, rel=0.03), 1.0)


def test_a_job_that_is_not_believed_teaches_nothing():
    liar, honest = a_job("a", model="mine"), a_job("b", model="mine")
    book = _on_both(liar, total=100)  # it trains far past its own total of steps
    told = book.annotate(a_snapshot(waiting(honest), nodes=NODES)).estimates.on_types([0])[0]
    assert told.seconds[0] == pytest.approx(PUBLISHED, rel=0.01)


def test_a_role_may_name_several_types():
    constraint = Constraint.of(a_role(accelerator="A100, V100"))
    assert not constraint.refusal(a_node(accelerator="v100"))
    assert not constraint.refusal(a_node(accelerator="A100"))
    assert "has K80, not A100, V100" in constraint.refusal(a_node(accelerator="K80"))


def test_nodes_know_their_types():
    nodes = Nodes.of([a_node("n0", accelerator="V100"), a_node("n1", gpus=0, cpu=4), a_node("n2", accelerator="K80")])
    assert nodes.types.names == NAMES
    assert nodes.types.of_node.tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("nvidia-a100-sxm4-80gb", "a100"), ("tesla-t4", "t4"), ("nvidia-tesla-v100", "v100"), ("k80", "k80"),
        ("nvidia-geforce-rtx-2080-ti", "rtx2080ti"), ("mystery", "mystery"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx2080ti"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA-H200", "h200"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"), ("Quadro RTX 6000", "rtx6000"), ("NVIDIA A10", "a10"),
        ("NVIDIA-H100-PCIe", "h100pcie"), ("AMD_Instinct_MI300X_OAM", "mi300x"), ("NVIDIA RTX A6000", "rtxa6000"),
        ("nvidia rtx a1000", "nvidia rtx a1000"), ("quadro p1000", "quadro p1000"), ("nvidia t400", "nvidia t400"),
        ("tesla v100-sxm2-16gb", "v100"), ("nvidia_a100", "a100"), ("nvidia-tesla-p100", "p100"),
    ],
)  # fmt: skip
def test_labels_of_nodes_are_read_as_types(label, kind):
    assert product(label) == kind
