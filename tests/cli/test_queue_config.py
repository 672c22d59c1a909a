"""Queues and user priorities from files: read as they are meant, refused in one sentence."""

from __future__ import annotations

import pytest

from headway.cli.queue_config import read_rules
from headway.cli.wiring import check_claims, make_policy, queue_setting, read_queues, warn_of_claims
from headway.core.errors import UserError
from headway.core.queue_rules import QueueRule
from headway.policies.baselines.las import Las
from headway.policies.combined_priority import CombinedPriority
from headway.policies.wrappers.queues import Queued
from headway.policies.wrappers.quota import Queue
from headway.policies.wrappers.rounds import InRounds
from make import a_job

GOOD = """
queues:
  - {name: research, quota: {gpu: 8, cpu: 1.5}, borrow: {gpu: 4}, lend: {gpu: 2}, weight: 2}
  - {name: product}
"""
RULED = """
queues:
  - {name: research, namespaces: [team-a], highest_priority: 10, priority_classes: [], deadlines: false}
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


def test_the_same_file_says_what_jobs_may_claim(tmp_path, capsys):
    file = tmp_path / "queues.yaml"
    file.write_text(RULED)
    assert read_rules(file) == (
        QueueRule(
            name="research", namespaces=("team-a",), highest_priority=10, priority_classes=(), deadlines=False
        ),
        QueueRule(name="product"),
    )  # fmt: skip
    assert read_queues(file) == (Queue(name="research"), Queue(name="product"))
    settings = queue_setting(file)
    fine = [
        a_job("a", priority=10, queue="research"),
        a_job("b", priority=99, deadline=5.0, queue="product"),
        a_job("c"),
    ]
    check_claims(tmp_path / "jobs.yaml", settings, fine)
    warn_of_claims(settings, fine)
    assert capsys.readouterr().err == ""
    greedy = [a_job("d", priority=11, queue="research"), a_job("e", deadline=5.0, queue="research")]
    with pytest.raises(UserError, match=r"jobs.yaml: job 'd': field priority: 11 is above 10"):
        check_claims(tmp_path / "jobs.yaml", settings, greedy)
    warn_of_claims(settings, greedy)
    assert "warning: 2 jobs claim more than their queue allows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: [{name: a, highest_priority: 3000000000}]", "field highest_priority"),
        ("queues: [{name: a, namespaces: ['']}]", "field namespaces"),
        ("queues: [{name: a}, {name: a}]", "is listed twice"),
        ("queues: [{name: a, quota: {gpu: many}}]", "field quota"),
        ("queues: [{name: a, lend: {gpu: -1}}]", "field lend"),
        ("queues: [{name: a, weight: 0}]", "field weight"),
        ("queues: [{name: a, quotas: {}}]", "quotas"),
        ("queues: [{name: a, quota: {cpus: 4}}]", "queue 'a': field quota: .* 'cpus'; did you mean cpu?"),
        ("queues: [{name: a, quota: {CPU: 4}}]", "field quota: .* 'CPU'; did you mean cpu?"),
        ("queues: [{name: a, borrow: {gpus: 4}}]", "field borrow: .* 'gpus'; did you mean gpu?"),
        ("queues: [{name: a, lend: {mem: 4Gi}}]", "field lend: .* 'mem'; did you mean memory?"),
        ("queues: [{name: a, quota: {pod: 4}}]", "field quota: .* 'pod'; did you mean pods?"),
        ("queues: [", "YAML"),
    ],
)
def test_mistakes_name_file_and_field(tmp_path, text, said):
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=said) as told:
        read_queues(file), read_rules(file)
    assert "queues.yaml" in str(told.value)


KINDS = [
    "pods",
    "ephemeral-storage",
    "hugepages-2Mi",
    "tpu",
    "npu",
    "nvidia.com/gpu",
    "amd.com/gpus",
    "example.com/cpu",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_quota_may_name_whatever_nodes_have(tmp_path, kind):
    file = tmp_path / "queues.yaml"
    file.write_text(f"queues: [{{name: a, quota: {{{kind}: 4}}}}]")
    (queue,) = read_queues(file)
    assert dict(queue.quota).keys() == {kind}


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
