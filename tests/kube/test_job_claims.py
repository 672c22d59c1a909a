"""What a TrainingJob claims: user, queue, priority, deadline and PriorityClass, held to what is allowed."""

from __future__ import annotations

import pytest
from test_intake import RUNNING, AnIntake, an_object, changed

from headway.core.queue_rules import QueueRule
from headway.kube.settings import ClaimSettings

RESEARCH = QueueRule(name="research", namespaces=("team",), highest_priority=10, priority_classes=(), deadlines=False)
OTHERS = QueueRule(name="others", namespaces=("elsewhere",))
QUEUES = ClaimSettings(queues=(OTHERS, RESEARCH))


def a_spec(**fields) -> dict:
    return {"roles": {"w": {"cpu": "500m"}}, **fields}


def admitted(claims: ClaimSettings, intent=None, created=1100, **fields):
    intake = AnIntake(claims=claims)
    intake.hear(changed(an_object(spec=a_spec(**fields), intent=intent, created=created)))
    return intake, intake.gangs["u"].job if intake.gangs else None


def test_a_job_that_names_no_queue_is_in_the_first_that_its_namespace_may_use():
    assert admitted(QUEUES)[1].queue == "research"
    assert admitted(QUEUES, queue="research", priority=10)[1].priority == 10
    assert admitted(ClaimSettings(), queue="any", priority=99, deadline=5)[1].queue == "any"


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"queue": "others"}, "spec.queue: namespace 'team' may not use 'others'; it may use research"),
        (
            {"restarts": {"losses": 101}},
            "spec.restarts.losses: must be at most 100, not 101, as the admin",
        ),
        ({"restarts": {"window": 3}}, "spec.restarts.window: must be at least 60 seconds, not 3"),
        ({"priority": 11}, "spec.priority: 11 is above 10"),
        ({"deadline": 60}, "spec.deadline: queue 'research' allows no deadlines"),
        (
            {"template": {"spec": {"priorityClassName": "system-node-critical"}}},
            "spec.template.spec.priorityClassName: queue 'research' does not allow 'system-node-critical'",
        ),
    ],
)
def test_a_claim_beyond_the_queues_rules_fails_the_job_in_a_sentence(claim, said):
    intake, job = admitted(QUEUES, **claim)
    assert job is None
    ((_, status),) = intake.told.statuses
    assert (status["phase"], status["reason"]) == ("Failed", "InvalidSpec")
    assert status["message"].startswith(said)


@pytest.mark.parametrize("queue", ["", "research"])
def test_a_running_job_is_held_to_rules_that_came_later_and_goes_on(queue):
    intake, job = admitted(QUEUES, intent=RUNNING, queue=queue, priority=50, deadline=60)
    assert intake.told.statuses == []
    assert (job.queue, job.priority, job.deadline) == ("research", 10, None)


@pytest.mark.parametrize(
    ("since", "typed", "user"),
    [
        (None, "ana", "team"),
        (1100.0, "ana", "ana"),
        (1100.0, "", "team"),
        (1101.0, "ana", "team"),
    ],
)
def test_the_user_is_who_the_cluster_recorded_else_the_namespace(since, typed, user):
    """A job from before the policy was installed has a user that somebody typed."""
    assert admitted(ClaimSettings(users_since=since), user=typed)[1].user == user


@pytest.mark.parametrize("template", [{}, {"spec": {"priorityClassName": 5}}, {"spec": None}])
def test_a_template_of_wrong_types_claims_no_priority_class(template):
    assert admitted(QUEUES, template=template)[1] is not None
