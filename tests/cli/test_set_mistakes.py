"""A setting that does not exist is told with the one that was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.cli.generate import generate
from headway.cli.wiring import make_policy
from headway.core.errors import UserError


def test_a_setting_of_a_policy():
    with pytest.raises(UserError, match=r"^--set cooldown=2: .*; did you mean cool_down\?$"):
        make_policy("adaptive", ["cooldown=2"])


def test_what_is_no_number_is_no_setting():
    with pytest.raises(UserError, match=r"^--set margin=nan: give a number$"):
        make_policy("headway", ["margin=nan"])


def test_a_setting_of_a_generated_workload():
    with pytest.raises(UserError, match=r"^--set deadline=2: there is no such setting; did you mean deadlines\?$"):
        generate(Path("w.yaml"), settings=["deadline=2"])
