"""Priorities of users in a file: a change counts without a restart, and the log replays."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from forked import headway
from headway.cli.cluster import followed_settings
from headway.cli.cluster.followed_settings import FollowedPolicy, followed, settings_of_file, written_out
from headway.cli.cluster.schedule import _obey
from headway.cli.wiring import make_policy, queue_rules
from headway.core.errors import UserError
from headway.record.lines import Head
from headway.record.log import LogWriter, read
from make import a_job, a_role, a_snapshot, some_nodes


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "users.yaml"
    file.write_text("ana: 8\nben: 2\n")
    return file


def test_the_log_has_the_priorities_and_not_the_file(users):
    queues = users.with_name("q.yaml")
    queues.write_text("queues: [{name: a, quota: {cpu: 2}, weight: 3}]")
    given, inline = ["preempt=0.2", f"user_priority={users}", f"queues={queues}"], 'queues={"queues":[{"name":"a",'
    written = written_out(given)
    assert written[:2] == ["preempt=0.2", "user_priority=ana=8,ben=2"]
    assert written[2].startswith(inline)
    assert written_out(written) == written, "it stands in its place"
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
        clock[0] += followed_settings.LOOK_SECONDS
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


def test_queues_that_change_count_for_the_policy_and_are_told(tmp_path):
    file, clock, told, wrong = tmp_path / "q.yaml", [0.0], [], []
    file.write_text("queues: [{name: a, quota: {cpu: 1}, borrow: {cpu: 0}}, {name: b, quota: {cpu: 8}}]")
    assert followed("fifo", [f"queues={file}"]) is not None
    policy = FollowedPolicy("fifo", [f"queues={file}"], told.append, lambda: clock[0], wrong.append)
    jobs = [a_job(name, roles=(a_role(cpu=2),), queue="a") for name in ("one", "two")]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, cpu=8))
    assert not policy(snapshot).decisions, "two cores are more than its queue may hold"
    file.write_text("queues: [{name: a, quota: {cpu: 4}, borrow: {cpu: 0}}, {name: b, quota: {cpu: 8}}]")
    clock[0] += 2 * followed_settings.LOOK_SECONDS
    policy.look()
    assert len(policy(snapshot).decisions) == 2
    assert [rule.name for rule in queue_rules(told[0])] == ["a", "b"]
    assert len(make_policy("fifo", told[0])(snapshot).decisions) == 2, "the log needs no file"
    file.write_text("queues: [{name: a, quota: {cpus: 4}}]")
    clock[0] += 2 * followed_settings.LOOK_SECONDS
    policy.look()
    policy.look()
    assert len(wrong) == 1
    assert "unknown resource 'cpus'" in wrong[0]
    assert len(policy(snapshot).decisions) == 2, "a mistake keeps what was"


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


def test_a_file_of_settings_counts_without_a_restart_and_set_wins(tmp_path):
    file, clock, told, wrong = tmp_path / "settings.yaml", [0.0], [], []
    file.write_text("widest: 20\npreempt: 0.1\nuser_priority: {ana: 8}\n")
    given = [*settings_of_file(file), "preempt=0.2"]
    assert written_out(given) == ["widest=20", "preempt=0.1", "user_priority=ana=8", "preempt=0.2"]
    assert isinstance(followed("combined-priority", given), FollowedPolicy)
    assert settings_of_file(None) == []
    policy = FollowedPolicy("combined-priority", given, told.append, lambda: clock[0], wrong.append)

    def after(text):
        file.write_text(text)
        clock[0] += followed_settings.LOOK_SECONDS
        policy.look()
        return policy.current

    assert after("widest: 30\n").widest == 30
    assert policy.current.preempt == 0.2
    assert told == [["widest=30", "preempt=0.2"]]
    for text, why in {
        "wdiest: 9": f"{file}: wdiest=9: policy combined-priority has these settings",
        "widest: soon": f"{file}: widest=soon: Expected `int`",
        "widest: [1]": f"{file}, line 1: field widest: must be",
        "- widest=9": f"{file}",
    }.items():
        assert after(text).widest == 30, "a mistake keeps what was"
        assert wrong.pop().startswith(why)
        assert not wrong
    file.unlink()
    clock[0] += followed_settings.LOOK_SECONDS
    policy.look()
    assert policy.current.widest == 30
    assert "cannot be read" in wrong.pop()
    assert after("widest: 40\n").widest == 40
    assert after("{}").widest == 64, "an empty file has no settings"


def test_the_log_of_a_run_whose_file_of_settings_changed_replays_the_same(tmp_path):
    file, clock, path = tmp_path / "settings.yaml", [0.0], tmp_path / "run.log"
    file.write_text("user_priority: {ana: 8}\n")
    policy = FollowedPolicy("combined-priority", settings_of_file(file), clock=lambda: clock[0])
    writer = LogWriter(path, Head("kube", "combined-priority", "none", {"set": policy.in_full}))
    policy.changed = lambda found: writer.restate(Head("kube", "combined-priority", "none", {"set": found}))
    jobs = [a_job(user, roles=(a_role(cpu=4),), user=user) for user in ("ana", "ben")]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, cpu=4))
    first = policy(snapshot)
    writer.cycle(snapshot, first)
    file.write_text("user_priority: {ben: 80}\n")
    clock[0] += followed_settings.LOOK_SECONDS
    policy.look()
    second = policy(snapshot)
    writer.cycle(snapshot, second)
    writer.end(1.0, 0)
    assert first != second
    file.unlink()
    done = headway("replay", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 plans differ" in done.stdout


def test_whoever_stood_by_for_long_looks_before_the_first_decision(tmp_path):
    file, clock, heads = tmp_path / "settings.yaml", [0.0], []
    file.write_text("widest: 8\n")
    policy = FollowedPolicy("combined-priority", settings_of_file(file), clock=lambda: clock[0])
    file.write_text("widest: 9\n")
    clock[0] += 3600.0
    cluster = SimpleNamespace(obey=lambda _: None, tell_administrators=lambda *_: None)
    _obey(policy, cluster, heads.append, "headway-system", None)
    assert policy.current.widest == 9
    assert heads == [["widest=9"]]
