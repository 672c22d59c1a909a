"""Priorities of users in a file: a change counts without a restart, and the log replays."""

from __future__ import annotations

import pytest

from forked import headway
from headway.cli import followed_priorities
from headway.cli.followed_priorities import FollowedPolicy, followed, written_out
from headway.core.errors import UserError
from headway.record.lines import Head
from headway.record.log import LogWriter, read
from make import a_job, a_snapshot


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "users.yaml"
    file.write_text("ana: 8\nben: 2\n")
    return file


def test_the_log_has_the_priorities_and_not_the_file(users):
    given = ["preempt=0.2", f"user_priority={users}", "queues=q.yaml"]
    assert written_out(given) == ["preempt=0.2", "user_priority=ana=8,ben=2", "queues=q.yaml"]
    assert written_out(["user_priority=ana=8"]) == ["user_priority=ana=8"]


def test_only_a_file_is_followed(users):
    assert followed("combined-priority", ["user_priority=ana=8"]) is None
    assert followed("combined-priority", []) is None
    assert isinstance(followed("combined-priority", [f"user_priority={users}"]), FollowedPolicy)
    with pytest.raises(UserError, match="no-such"):
        followed("combined-priority", ["user_priority=no-such.yaml"])


def test_a_change_counts_without_a_restart_and_a_mistake_keeps_what_was(users, caplog):
    clock, told = [0.0], []
    policy = FollowedPolicy("combined-priority", [f"user_priority={users}"], told.append, lambda: clock[0])
    snapshot = a_snapshot(a_job("a", user="ana"), a_job("b", user="ben"))
    before = policy.explain(snapshot, 1)["score"]["user"]

    def after(text):
        users.write_text(text)
        clock[0] += followed_priorities.LOOK_SECONDS
        policy.look()
        return policy.explain(snapshot, 1)["score"]["user"]

    assert after("ana: 8\nben: 9\n") > before
    assert told == [["user_priority=ana=8,ben=9"]]
    kept = policy.explain(snapshot, 1)["score"]["user"]
    for _ in range(3):
        assert after("ben: much\n") == kept
    assert len([one for one in caplog.records if "stay as they were" in one.message]) == 1
    assert after("ben: 2\n") < kept
    users.write_text("ben: 9\n")
    policy.look()
    assert policy.explain(snapshot, 1)["score"]["user"] < kept, "it is looked at once in a while"


def test_the_log_goes_on_under_a_new_head(tmp_path):
    """As after a restart with other options: all jobs are told again, and each part replays with its own."""
    path = tmp_path / "run.log"
    head = Head("kube", "combined-priority", "none", {"set": ["user_priority=ana=8"]})
    writer = LogWriter(path, head)
    snapshot = a_snapshot(a_job("a", user="ana"))
    policy = FollowedPolicy("combined-priority", ["user_priority=ana=8"])
    writer.cycle(snapshot, policy(snapshot))
    writer.restate(Head("kube", "combined-priority", "none", {"set": ["user_priority=ana=1"]}))
    writer.cycle(snapshot, policy(snapshot))
    writer.end(1.0, 0)
    lines = list(read(path))
    assert [type(line).__name__ for line in lines] == [
        "Head", "NodesLine", "JobLine", "CycleLine", "Head", "NodesLine", "JobLine", "CycleLine", "End",
    ]  # fmt: skip
    assert lines[4].settings["set"] == ["user_priority=ana=1"]
    done = headway("replay", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
