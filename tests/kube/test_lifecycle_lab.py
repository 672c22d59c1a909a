"""What people see and do with a job that lives, with the real kubectl."""

from __future__ import annotations

import os
import re
import subprocess
import time

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def kubectl(schedule, *words: str) -> str:
    command = [str(schedule.lab.kubectl), "-n", schedule.namespace, *words]
    environment = {**os.environ, "KUBECONFIG": str(schedule.lab.kubeconfig)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def row_of(schedule, name: str) -> dict[str, str]:
    """One line of `kubectl get tj -o wide`, by heading. Columns are cut where their headings begin."""
    head, *lines = kubectl(schedule, "get", "tj", "-o", "wide").splitlines()
    starts = [(match.group(), match.start()) for match in re.finditer(r"\S+", head)]
    ends = [*(start for _, start in starts[1:]), 10_000]
    line = next(line for line in lines if line.startswith(f"{name} "))
    return {heading: line[start:end].strip() for (heading, start), end in zip(starts, ends, strict=True)}


def eventually(schedule, name: str, heading: str, pattern: str) -> dict[str, str]:
    deadline = time.monotonic() + 60
    while not re.fullmatch(pattern, (row := row_of(schedule, name))[heading]):
        assert time.monotonic() < deadline, (row, pattern, schedule.words())
        time.sleep(0.2)
    return row


def test_kubectl_shows_dates_and_numbers_that_people_can_read(schedule):
    schedule.start("--progress-seconds", "60")
    schedule.submit("steady", {"worker": {}}, ["--steps", "3000"], steps=3000, seconds=150)
    schedule.submit("huge", {"worker": {"cpu": "64"}}, ["--steps", "10"])
    began = time.monotonic()
    row = eventually(schedule, "steady", "PROGRESS", r"\d+/3000")
    assert time.monotonic() - began < 50, "the first report is written at once, not after 60 s"
    assert re.fullmatch(r"\d+(\.\d{1,6})?", row["LOSS"]), row
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\dZ( ±\d+ (s|min))?", row["DONE"]), row
    assert "invalid" not in str(row)
    huge = eventually(schedule, "huge", "WHY", r"One replica of role 'worker' asks for 64 cpu; .*")
    assert (huge["PHASE"], huge["DONE"], huge["LOSS"]) == ("Waiting", "", "")
    progress = schedule.job("steady")["status"]["progress"]
    assert progress["basis"], "what the estimate rests on"
    assert progress["left"] > 0
    assert schedule.stop() == 0


def patch(schedule, name: str, spec: str) -> None:
    kubectl(schedule, "patch", "tj", name, "--type=merge", "-p", f'{{"spec": {spec}}}')


def test_a_job_is_suspended_resumed_and_cancelled_with_kubectl(schedule):
    schedule.start("--save-seconds", "20")
    schedule.submit("held", {"worker": {}}, ["--steps", "4000"])
    schedule.submit("gone", {"worker": {}}, ["--steps", "4000"], ttlSecondsAfterFinished=1)
    for name in ("held", "gone"):
        eventually(schedule, name, "PROGRESS", r"\d+/4000")
    patch(schedule, "held", '{"suspend": true}')
    patch(schedule, "gone", '{"cancel": true}')
    row = eventually(schedule, "held", "PHASE", "Suspended")
    assert row["WHY"] == "its user suspended it"
    deadline = time.monotonic() + 60
    while schedule.pods("held"):
        assert time.monotonic() < deadline, "it holds nothing"
        time.sleep(0.1)
    (saved,) = [line.split()[-1] for line in schedule.story("held") if " saved " in line]
    patch(schedule, "held", '{"suspend": false}')
    eventually(schedule, "held", "PHASE", "Running")
    while f"worker 0 1 from {saved} " not in "\n".join(schedule.story("held")):
        assert time.monotonic() < deadline, schedule.story("held")
        time.sleep(0.1)
    while "gone" in kubectl(schedule, "get", "tj,pods", "--no-headers"):
        assert time.monotonic() < deadline, (kubectl(schedule, "get", "tj,pods"), schedule.words())
        time.sleep(0.2)
    assert " saved " in "\n".join(schedule.story("gone")), "a cancelled job saves as well"
    for wrong, sentence in (
        ('{"roles": {"worker": {"command": ["x"]}}}', "only suspend, cancel"),
        ('{"roles": {"other": {"cpu": 1}}}', "roles of a submitted job cannot change"),
        ('{"steps": 5}', "only suspend, cancel"),
    ):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            patch(schedule, "held", wrong)
        assert sentence in refused.value.stderr
    assert schedule.stop() == 0
