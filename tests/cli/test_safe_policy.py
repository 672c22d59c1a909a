"""The policy that decides where another fails keeps to the same queues."""

from __future__ import annotations

from headway.cli.wiring import safe_policy, safe_policy_for
from headway.core.plan import Start
from make import a_job, a_snapshot, some_nodes

QUEUES = """queues:
  - {name: a, quota: {gpu: 1}, borrow: {gpu: 0}}
  - {name: b, quota: {gpu: 3}}
"""


def test_where_a_policy_fails_queues_still_hold(tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    jobs = [a_job(f"a{n}", queue="a") for n in range(3)] + [a_job("b", queue="b")]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=4))
    plan = safe_policy_for([f"queues={file}", "cool_down=3"])(snapshot)
    assert [decision.job for decision in plan.decisions if isinstance(decision, Start)] == ["a0", "b"]
    assert len(safe_policy(snapshot).decisions) == 4


def test_without_queues_it_is_first_fit():
    assert safe_policy_for(["cool_down=3"]) is safe_policy
