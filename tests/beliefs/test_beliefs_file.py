"""A file of beliefs is read back to the last digit, or refused in one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from headway.beliefs.file import LearnedBeliefs, read_beliefs, write_beliefs
from headway.core.errors import UserError
from headway.core.job import Target
from headway.estimates.history.by_user import ModelHistory, Seconds, Shown
from headway.estimates.history.change_costs import ChangeCosts, UsualSeconds
from headway.estimates.history.durations import Durations
from headway.estimates.history.history import History
from headway.estimates.job.promise import UserReliability
from headway.estimates.job.target import GRID, Reached
from headway.estimates.speed.model import Form
from headway.estimates.speed.types import MOST_JOBS, MOST_MODELS, TypeLesson, TypeLessons
from make import a_job

positive = some.floats(0, 1e6, allow_subnormal=False)
numbers = (
    some.just((1.0, 2.0, 0.1, 0.0, 0.3, 0.02)), positive,
    some.dictionaries(some.integers(1, 512), some.builds(Seconds, positive, some.floats(-9, 9), positive), max_size=3),
)  # fmt: skip
kinds = some.builds(
    ModelHistory, *numbers, some.dictionaries(some.text(max_size=3), some.builds(Shown, *numbers), max_size=2)
)


usual = some.dictionaries(
    some.text(max_size=4),
    some.builds(UsualSeconds, positive, some.floats(-9, 9), some.lists(some.floats(-9, 9), max_size=2).map(tuple)),
    max_size=3,
)
a_name = some.text(max_size=4)
shown_on_types = some.tuples(
    a_name, a_name, some.builds(TypeLesson, a_name, some.dictionaries(a_name, some.floats(-50, 50), max_size=3))
)
by_type = some.tuples(some.text(max_size=5), some.just(Form.GANG), some.sampled_from(["t4", "a100"]))


@given(
    some.dictionaries(some.tuples(some.text(max_size=5), some.just(Form.GANG)), kinds, max_size=4),
    some.dictionaries(by_type, kinds, max_size=3),
    some.builds(ChangeCosts, usual, usual),
    some.lists(some.floats(1, 1e6), max_size=9),
    some.lists(shown_on_types, max_size=30).map(TypeLessons.of),
)
def test_a_history_is_read_back_as_it_was(tmp_path_factory, found, types, costs, seconds, on_types):
    durations = Durations()
    for number, took in enumerate(seconds):
        durations = durations.add(a_job(f"j{number}", model="bert", user="ann"), took)
    shape = np.linspace(0.0, 1.0, GRID)
    target = Target(value=0.5)
    reached = {("bert", target): Reached((10.0, 12.5), (shape,))}
    users = {"ann": UserReliability(3.0, 0.7)}
    history = History(found, durations, reached, users, types=types, on_types=on_types, costs=costs)
    path = tmp_path_factory.mktemp("beliefs") / "b.json"
    write_beliefs(path, LearnedBeliefs(history, until=3.5))
    again = read_beliefs(path)
    assert again.history.kinds == history.kinds
    assert again.history.types == history.types
    assert again.history.on_types == on_types
    assert list(again.history.on_types.by_model) == list(on_types.by_model), "the last that showed something last"
    assert again.history.costs == history.costs
    assert again.history.durations == history.durations
    assert again.history.users == history.users
    assert again.history.targets["bert", target].lengths == (10.0, 12.5)
    assert (again.history.targets["bert", target].shapes[0] == shape).all()
    assert again.until == 3.5
    assert again.name.startswith("b.json ")


GOOD = {"format": "headway beliefs", "version": 1}
KIND = {"model": "m", "form": "gang"}
TARGET = {"model": "m", "metric": "loss", "value": 1, "higher": False, "lengths": [], "shapes": []}


def test_a_file_from_before_gangs_could_decline_is_read(tmp_path):
    path = tmp_path / "b.json"
    path.write_text(json.dumps({**GOOD, "kinds": [{**KIND, "coefficients": [1, 2, 3, 4, 5], "weight": 1}]}))
    assert read_beliefs(path).history.kinds["m", Form.GANG].coefficients == (1, 2, 3, 4, 5, 0)


def test_a_file_from_before_starts_were_learned_is_read(tmp_path):
    path = tmp_path / "b.json"
    path.write_text(json.dumps(GOOD))
    assert read_beliefs(path).history.costs == ChangeCosts()


def test_of_what_jobs_have_shown_of_types_a_bounded_part_is_kept(tmp_path):
    """The newest, as in a run: a file may be anyone's."""
    path = tmp_path / "b.json"
    jobs = {f"j{number}": ["ann", {"k80": 0.5, "v100": -0.5}] for number in range(MOST_JOBS + 5)}
    path.write_text(json.dumps({**GOOD, "on_types": {f"m{number}": jobs for number in range(MOST_MODELS + 3)}}))
    found = read_beliefs(path).history.on_types.by_model
    assert (len(found), *found)[:2] == (MOST_MODELS, "m3")
    assert next(iter(found["m3"])) == "j5"
    assert len(found["m3"]) == MOST_JOBS


def test_a_file_without_types_names_none(tmp_path):
    """So an earlier headway reads it, and it is as it was before types were kept."""
    path = tmp_path / "b.json"
    write_beliefs(path, LearnedBeliefs(History({("m", Form.GANG): ModelHistory()})))
    assert "accelerator" not in path.read_text()
    assert "on_types" not in path.read_text()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is not a file of beliefs"),
        ("[" * 100_000, "is not a file of beliefs"),
        ("{}", "missing required field `format`"),
        ({**GOOD, "version": 7}, "field version: is 'headway beliefs' version 7; this headway reads"),
        ({**GOOD, "colour": 1}, "unknown field `colour`"),
        ({**GOOD, "kinds": [{**KIND, "coefficients": [1, 2]}]}, "kinds[0].coefficients: must be 6"),
        ({**GOOD, "kinds": [{**KIND, "coefficients": [0] * 5}]}, "not all 0"),
        ({**GOOD, "kinds": [{**KIND, "coefficients": [-1] * 5}]}, ">= 0"),
        ({**GOOD, "kinds": [{**KIND, "weight": 2}]}, "kinds[0].weight: must be 0"),
        ({**GOOD, "kinds": [{**KIND, "users": {"a": {"weight": 2}}}]}, "kinds[0].users.a.weight: must be 0"),
        ({**GOOD, "durations": [{"kind": [], "count": 1, "weights": {}}]}, "durations[0]: is no kind of job"),
        ({**GOOD, "durations": [{"kind": ["all"], "count": 1, "weights": {"9999": 1}}]}, "durations[0].weights"),
        ({**GOOD, "starts": {"m": [1, 2, [0, 0, 0]]}}, "starts"),
        ({**GOOD, "stops": {"m": [-1, 2, []]}}, "stops"),
        ({**GOOD, "stops": {"m": [1, 1e9, []]}}, "stops"),
        ({**GOOD, "on_types": {"m": {"a": ["ann", {"k80": 51}]}}}, "on_types"),
        ({**GOOD, "targets": [{**TARGET, "lengths": [0]}]}, "targets[0].lengths"),
        ({**GOOD, "targets": [{**TARGET, "shapes": [[1]]}]}, "targets[0].shapes: must have 65 numbers"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_in_one_sentence(tmp_path, content, says):
    path = tmp_path / "b.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match=r"b\.json") as error:
        read_beliefs(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
