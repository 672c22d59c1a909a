"""A setting that does not exist is told with the one that was probably meant; one out of its range is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forked import call
from headway.cli.studies.generate import generate
from headway.cli.wiring import make_policy
from headway.core.errors import UserError


def test_a_setting_of_a_policy():
    with pytest.raises(UserError, match=r"^--set cooldown=2: .*; did you mean cool_down\?$"):
        make_policy("adaptive", ["cooldown=2"])


def test_what_is_no_number_is_no_setting():
    with pytest.raises(UserError, match=r"^--set margin=nan: give a number$"):
        make_policy("headway", ["margin=nan"])


@pytest.mark.parametrize(
    ("policy", "setting", "why"),
    [
        ("headway", "restart=-5", "must be 0 or more"),
        ("headway", "trial=-0.001", "must be 0 or more"),
        ("headway", "patience=-inf", "must be 0 or more"),
        ("headway", "trial_share=7", "must be from 0 to 1"),
        ("headway", "tail_stay=-0.1", "must be from 0 to 1"),
        ("headway", "round=-60", "must be 0 or more"),
        ("las", "threshold=-1", "must be 0 or more"),
        ("migration", "max_moves=-1", "must be 0 or more"),
        ("migration", "restart=-1", "must be 0 or more"),
        ("migration", "parallel=1.5", "must be from 0 to 1"),
        ("deadline", "hopeless=2", "must be from 0 to 1"),
        ("combined-priority", "max_user_priority=0", "must be above 0"),
        ("combined-priority", "user_priority=ann=nan", "give a number"),
    ],
)
def test_a_number_out_of_its_range_is_refused(policy, setting, why):
    with pytest.raises(UserError, match=rf"^--set {re.escape(setting)}: {why}$"):
        make_policy(policy, [setting])


@pytest.mark.parametrize(
    ("policy", "former", "now"), [("headway", "latest_share", "tail_share"), ("elastic", "calm", "cool_down_share")]
)
def test_a_setting_by_its_former_name_is_told_the_new_one(policy, former, now):
    with pytest.raises(UserError, match=rf"; did you mean {now}\?$"):
        make_policy(policy, [f"{former}=0.1"])


@pytest.mark.parametrize(
    ("policy", "setting"),
    [
        ("headway", "other_users=-1"), ("headway", "user_priority=ann=-3"), ("headway", "restart=0"),
        ("headway", "patience=inf"), ("headway", "trial_share=1"), ("headway", "deadline_guard=2"),
        ("combined-priority", "urgent=2"), ("optimus", "restart_share=1"), ("elastic", "headroom=1.5"),
    ],
)  # fmt: skip
def test_what_is_meant_by_a_setting_is_taken(policy, setting):
    make_policy(policy, [setting])


def test_a_file_of_priorities_has_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("users.yaml").write_text("ann: .nan\n")
    with pytest.raises(UserError, match=r"^--set user_priority=users.yaml: give a number$"):
        make_policy("headway", ["user_priority=users.yaml"])


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "examples/adapt.yaml", "--set", "restart=-5"],
        ["compare", "examples/adapt.yaml", "--policies", "fifo,headway", "--set", "headway.restart=-5"],
        ["tune", "examples/adapt.yaml", "--set", "restart=-5"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_says_it_in_one_sentence_and_ends_with_2(command, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parents[2])
    assert call(capsys, *command) == (2, "", "headway: --set restart=-5: must be 0 or more\n")


def test_a_setting_of_a_generated_workload():
    with pytest.raises(UserError, match=r"^--set deadline=2: there is no such setting; did you mean deadlines\?$"):
        generate(Path("w.yaml"), settings=["deadline=2"])
