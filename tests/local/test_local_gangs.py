"""The table of gang cases on real processes; and a crash loop ends even if each attempt reports."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import pytest
from conftest_local import Run, a_local_job

from gang_cases import CASES, GRACE, MEMORY, NODE, Case
from headway.core.gang import success_roles
from headway.core.job import Job, JobId
from headway.core.states import State
from headway.local.limits import ControlGroups, ReplicaLimits
from headway.local.settings import LocalTimeouts
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(250)

MEMBER = """
import json, os, sys, time
exits, always = json.loads(sys.argv[1]), json.loads(sys.argv[2])
after, code = exits.get(f"{os.environ['HEADWAY_ROLE']}-{os.environ['HEADWAY_INDEX']}", (600.0, 0))
if os.environ["HEADWAY_ATTEMPT"] != "1" and not always:
    after, code = 0.2, 0
while not os.path.exists(f"{os.environ['HEADWAY_JOB']}.up"):
    time.sleep(0.05)
time.sleep(after)
if code == "it runs out of memory":
    held = b"x" * (300 << 20)
    time.sleep(600)
if code > 128 and code - 128 in (9, 10, 11, 15):
    os.kill(os.getpid(), code - 128)
    time.sleep(600)
os._exit(code)
"""


def _limits_memory() -> bool:
    groups = ControlGroups(f"try-{os.getpid()}")
    try:
        return groups.group("a", ReplicaLimits(500, 64)).memory is not None
    finally:
        groups.close()


def _job(case: Case, name: str, folder) -> Job:
    exits = {f"{exit_.role}-{exit_.index}": (exit_.after, exit_.code) for exit_ in case.exits}
    command = (sys.executable, "member.py", json.dumps(exits), json.dumps(case.every_attempt))
    memory = (("memory", 100),) if any(exit_.code == MEMORY for exit_ in case.exits) else ()
    roles = tuple(replace(role, command=command, after=(), request=(*role.request, *memory)) for role in case.roles)
    if not case.success.roles:  # here all roles start at once, without `after`; the roles that decide success stay
        case = replace(case, success=replace(case.success, roles=success_roles(case.job)))
    return replace(case.job, id=JobId(name), roles=roles, success=case.success, directory=str(folder))


def test_the_table_of_cases_on_real_processes(scripts):
    (scripts / "member.py").write_text(MEMBER)
    memory = _limits_memory()
    cases = {
        f"case-{number}": case
        for number, case in enumerate(CASES)
        if not any(exit_.code == NODE or (exit_.code == MEMORY and not memory) for exit_ in case.exits)
    }
    run = Run(scripts, [_job(case, name, scripts) for name, case in cases.items()], LocalTimeouts(grace=GRACE, stop=30))
    ran: dict[str, list[tuple[State, float]]] = {}

    def policy(snapshot):
        for row in range(snapshot.jobs.count):
            name, state = snapshot.jobs.job(row).id, snapshot.jobs.state_of(row)
            ran.setdefault(name, []).append((state, snapshot.now))
            if state is State.RUNNING:
                (scripts / f"{name}.up").touch()
        return first_fit(snapshot)

    run.go(policy)
    for name, case in cases.items():
        states = [state for state, _ in ran[name]]
        running = [now for state, now in ran[name] if state is State.RUNNING]
        again = State.WAITING in states[states.index(State.RUNNING) :] if State.RUNNING in states else False
        expected = "FAILED" if case.outcome == "failed" else "FINISHED"
        assert run.state(name) == expected, (case.name, run.notes.get(name))
        assert again is (case.outcome == "restarted" or case.every_attempt), (case.name, run.notes.get(name))
        assert (name in run.notes) is (case.outcome != "finished"), (case.name, run.notes.get(name))
        if case.not_before:
            assert running, case.name
            end = next(now for state, now in ran[name] if state is State.FINISHED)
            assert end - running[0] >= case.not_before - 0.5, case.name


def test_a_crash_loop_ends_even_if_every_attempt_reports(scripts):
    (scripts / "loop.py").write_text(
        "import os, time\nfrom headway import progress\n"
        "with progress.track(total_steps=100) as p:\n    p.report(1, loss=1.0)\n    time.sleep(0.5)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    run = Run(scripts, [a_local_job("a", scripts, "loop.py")]).go(first_fit)
    assert run.state("a") == "FAILED"
    assert "lost 4 times without progress" in run.notes["a"][-1]
