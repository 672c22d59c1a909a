"""Claims: what a submitter asks for is within what its queue allows, or is refused in a sentence."""

from __future__ import annotations

import pytest

from headway.core.queue_rules import ClaimRefused, QueueClaim, QueueRule, allowed_queue, held_to
from make import a_job

RULES = (
    QueueRule(name="research", namespaces=("team-a",), highest_priority=10, deadlines=False, priority_classes=()),
    QueueRule(name="product", namespaces=("team-a", "team-b"), priority_classes=("high", "low")),
)


@pytest.mark.parametrize(
    ("claim", "queue"),
    [
        (QueueClaim(namespace="team-a"), "research"),
        (QueueClaim(namespace="team-b"), "product"),
        (QueueClaim(namespace="team-a", queue="product"), "product"),
        (QueueClaim(namespace="team-a", priority=10), "research"),
        (QueueClaim(namespace="team-a", priority=-5), "research"),
        (QueueClaim(namespace="team-b", priority=99, has_deadline=True, priority_class="high"), "product"),
        (QueueClaim(), "research"),
    ],
)
def test_what_is_allowed_and_the_queue_of_who_names_none(claim, queue):
    assert allowed_queue(RULES, claim) == queue


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (
            QueueClaim(namespace="team-b", queue="research"),
            "queue: namespace 'team-b' may not use 'research'; it may use pro",
        ),
        (QueueClaim(namespace="team-a", queue="nowhere"), "may not use 'nowhere'; it may use research, product"),
        (QueueClaim(namespace="other"), "queue: namespace 'other' may use no queue"),
        (QueueClaim(namespace="other", queue="product"), "no queue is open to it"),
        (
            QueueClaim(namespace="team-a", priority=11),
            "priority: 11 is above 10, the highest that queue 'research' allows",
        ),
        (QueueClaim(namespace="team-a", has_deadline=True), "deadline: queue 'research' allows no deadlines"),
        (
            QueueClaim(namespace="team-a", priority_class="high"),
            "priorityClassName: queue 'research' does not allow 'high'",
        ),
        (QueueClaim(namespace="team-b", priority_class="system-node-critical"), "it allows high, low"),
    ],
)
def test_a_claim_beyond_what_is_allowed_is_one_sentence_that_names_the_field(claim, said):
    with pytest.raises(ClaimRefused, match=said):
        allowed_queue(RULES, claim)


def test_without_rules_every_claim_holds():
    claim = QueueClaim(namespace="any", queue="mine", priority=2**30, has_deadline=True, priority_class="top")
    assert allowed_queue((), claim) == "mine"


def test_a_job_that_was_admitted_before_the_rules_changed_is_held_to_them():
    job = a_job(queue="research", priority=50, deadline=9.0)
    held = held_to(RULES, job)
    assert (held.priority, held.deadline) == (10, None)
    other = a_job(queue="gone", priority=50, deadline=9.0)
    assert held_to(RULES, other) is other
