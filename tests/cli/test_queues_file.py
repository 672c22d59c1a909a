"""Queues and user priorities from files: read as they are meant, refused in one sentence."""

from __future__ import annotations

import pytest

from headway.cli.wiring import make_policy, queue_setting, read_queues
from headway.core.errors import UserError
from headway.policies.baselines.las import Las
from headway.policies.combined_priority import CombinedPriority
from headway.policies.wrappers.queues import Queued
from headway.policies.wrappers.quota import Queue
from headway.policies.wrappers.rounds import InRounds

GOOD = """
queues:
  - {name: research, quota: {gpu: 8, cpu: 1.5}, borrow: {gpu: 4}, lend: {gpu: 2}, weight: 2}
  - {name: product}
"""


def test_a_file_of_queues(tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(GOOD)
    research, product = read_queues(file)
    assert research == Queue(
        name="research", quota=(("cpu", 1500), ("gpu", 8)), borrow=(("gpu", 4),), lend=(("gpu", 2),), weight=2.0
    )
    assert product == Queue(name="product")
    assert isinstance(make_policy("fifo", queue_setting(file)), Queued)
    assert not isinstance(make_policy("fifo", queue_setting(None)), Queued)
    assert make_policy("kube-default", queue_setting(file)).gangless
    behind = make_policy("las", ["threshold=5", "round=60", *queue_setting(file)])
    assert isinstance(behind, Queued)
    assert behind.policy == InRounds(Las(threshold=5.0), 60.0)
    with pytest.raises(UserError, match="--set round=soon: Expected `float`"):
        make_policy("fifo", ["round=soon"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: [{name: a}, {name: a}]", "is listed twice"),
        ("queues: [{name: a, quota: {gpu: many}}]", "field quota"),
        ("queues: [{name: a, lend: {gpu: -1}}]", "field lend"),
        ("queues: [{name: a, weight: 0}]", "field weight"),
        ("queues: [{name: a, quotas: {}}]", "quotas"),
        ("queues: [", "YAML"),
    ],
)
def test_mistakes_name_file_and_field(tmp_path, text, said):
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=said) as told:
        read_queues(file)
    assert "queues.yaml" in str(told.value)


def test_user_priorities_come_from_a_file_or_from_words(tmp_path):
    file = tmp_path / "users.yaml"
    file.write_text("ann: 8\nbob: 2.5\n")
    expected = CombinedPriority(user_priority=(("ann", 8.0), ("bob", 2.5)))
    assert make_policy("combined-priority", [f"user_priority={file}"]) == expected
    assert make_policy("combined-priority", ["user_priority=ann=8,bob=2.5"]) == expected


@pytest.mark.parametrize("value", ["ann", "ann=high", "nowhere.yaml"])
def test_mistakes_in_user_priorities_are_told(value):
    with pytest.raises(UserError, match=value.split("=", maxsplit=1)[0]):
        make_policy("combined-priority", [f"user_priority={value}"])
