"""Every kind of decision on real processes; a stopped or moved job goes on from its checkpoint."""

from __future__ import annotations

import math
import re
import sys

import pytest
from conftest_local import Run, a_local_job

from headway.core.draft import Draft
from headway.core.job import Job, JobId, Role, Target
from headway.core.placement import Placement
from headway.core.plan import Because, Plan
from headway.core.snapshot import Snapshot
from headway.local.settings import LocalTimeouts
from headway.policies.baselines.fifo import first_fit
from headway.policies.wrappers.queues import with_queues
from headway.policies.wrappers.quota import Queue

pytestmark = pytest.mark.timeout(250)


def _once(when, act):
    """First-fit, and once, when the condition holds, the decision that `act` makes."""
    done = []

    def policy(snapshot: Snapshot) -> Plan:
        if not done and when(snapshot):
            done.append(snapshot.now)
            draft = Draft(snapshot)
            act(draft)
            return draft.plan()
        if done and len(done) == 1 and not snapshot.flights:
            done.append(snapshot.now)
        return first_fit(snapshot) if len(done) != 1 else Plan()

    return policy


def _step_reached(step: int):
    def when(snapshot: Snapshot) -> bool:
        return bool(len(snapshot.jobs.running())) and any(sample.step >= step for sample in snapshot.samples)

    return when


def _firsts(output: str) -> list[int]:
    return [int(number) for number in re.findall(r"from (\d+)", output)]


def test_a_job_trains_and_ends(scripts):
    run = Run(scripts, [a_local_job("a", scripts, "count.py", "20", steps=20)]).go(first_fit)
    assert run.state("a") == "FINISHED"
    assert _firsts(run.output("a")) == [0]
    steps = [sample.step for snapshot in run.snapshots for sample in snapshot.samples]
    assert steps == sorted(steps)
    assert steps[-1] == 20


def test_a_job_that_stops_at_its_target_reports_its_metric(scripts):
    script = """
from headway import progress
import math
import time
with progress.track() as p:
    for step in range(1, 100):
        time.sleep(0.03)
        p.report(step, loss=9.0, accuracy=step / 40)
        if step / 40 >= 0.5:
            break
"""
    (scripts / "learn.py").write_text(script)
    job = a_local_job("a", scripts, "learn.py", target=Target(metric="accuracy", value=0.5, higher=True))
    run = Run(scripts, [job]).go(first_fit)
    assert run.state("a") == "FINISHED"
    samples = [sample for snapshot in run.snapshots for sample in snapshot.samples]
    assert {(sample.step / 40, sample.loss) for sample in samples} == {(sample.metric, 9.0) for sample in samples}
    assert job.target.reached(samples[-1].metric)


def test_a_moved_job_goes_on_elsewhere_from_its_checkpoint(scripts):
    job = a_local_job("a", scripts, "count.py", "120")
    policy = _once(_step_reached(10), lambda draft: draft.move(0, Placement(((1,),))))
    run = Run(scripts, [job]).go(policy)
    assert run.state("a") == "FINISHED"
    first, second = _firsts(run.output("a"))
    assert first == 0
    assert second >= 10
    where = [snapshot.placements[0].nodes for snapshot in run.snapshots if 0 in snapshot.placements]
    assert where[0] == ((0,),)
    assert where[-1] == ((1,),)


def test_a_preempted_job_goes_on_later_from_its_checkpoint(scripts):
    job = a_local_job("a", scripts, "count.py", "120")
    run = Run(scripts, [job]).go(_once(_step_reached(10), lambda draft: draft.stop(0, Because.PREEMPTED)))
    assert run.state("a") == "FINISHED"
    assert _firsts(run.output("a"))[1] >= 10
    assert run.snapshots[-1].jobs.stops[0] == 1


def test_a_cancelled_job_is_over(scripts):
    job = a_local_job("a", scripts, "count.py", "10000")
    run = Run(scripts, [job]).go(_once(_step_reached(3), lambda draft: draft.stop(0, Because.CANCELLED)))
    assert run.state("a") == "CANCELLED"


def test_a_job_is_resized_while_it_trains(scripts):
    (scripts / "burn.py").write_text(
        "import time\nfrom headway import progress\nends, n = [time.time() + 60], 0\n"
        "def resized(size):\n    print('resized', size.cpu, flush=True)\n    ends.append(time.time() + 4)\n"
        "with progress.track(total_steps=100) as p:\n    p.on_resize(resized)\n"
        "    while time.time() < ends[-1]:\n        n += 1\n"
        "        p.report(min(n // 100000, 99)) if n % 1000 == 0 else None\n"
    )
    job = a_local_job("a", scripts, "burn.py")

    def when(snapshot: Snapshot) -> bool:
        return snapshot.used_cpu.get(0, 0) > 0.1

    run = Run(scripts, [job]).go(_once(when, lambda draft: draft.resize(0, 0, 800, 1)))
    assert run.state("a") == "FINISHED"
    assert "resized 0.8" in run.output("a")
    assert run.snapshots[-1].jobs.stops[0] == 0
    if run.cluster.control_groups.by_cgroup:
        used = [snapshot.used_cpu[0] for snapshot in run.snapshots if 0 in snapshot.used_cpu]
        assert max(used[:2]) < 0.3
        assert max(used) > 0.3


def _ps_job(scripts) -> Job:
    """A chief that counts until it is done, and workers that are added and removed."""
    (scripts / "worker.py").write_text(
        "import time, sys\nfrom headway import progress\nprint('hosts', progress.hosts(), flush=True)\n"
        "with progress.track() as p:\n    while True:\n        time.sleep(0.1)\n        p.poll()\n"
    )
    python = sys.executable
    chief = Role(name="chief", request=(("cpu", 200),), command=(python, "count.py", "140"))
    worker = Role(
        name="worker", replicas=1, min=1, max=3, request=(("cpu", 200),), command=(python, "worker.py"),
        after=("chief",),
    )  # fmt: skip
    return Job(id=JobId("a"), roles=(chief, worker), directory=str(scripts))


def test_a_job_grows_and_shrinks_while_it_trains(scripts):
    sizes: list[tuple[int, ...]] = []

    def policy(snapshot: Snapshot) -> Plan:
        if 0 in snapshot.placements and not snapshot.flights:
            counts = snapshot.placements[0].counts
            if not sizes or sizes[-1] != counts:
                sizes.append(counts)
                draft = Draft(snapshot)
                if len(sizes) == 1:
                    draft.scale(0, 1, (0, 1, 1))
                    return draft.plan()
                if len(sizes) == 2:
                    draft.scale(0, 1, (1, 1))
                    return draft.plan()
        return first_fit(snapshot)

    run = Run(scripts, [_ps_job(scripts)]).go(policy)
    assert run.state("a") == "FINISHED"
    assert sizes == [(1, 1), (1, 3), (1, 2)]
    assert _firsts(run.output("a", "chief-0")) == [0]
    assert "resized" in run.output("a", "chief-0")
    assert "127.0.0.1:" in run.output("a", "worker-1")
    assert run.snapshots[-1].jobs.stops[0] == 0


def test_roles_start_in_order(scripts):
    run = Run(scripts, [_ps_job(scripts)]).go(first_fit)
    assert "'chief': ['127.0.0.1:" in run.output("a", "worker-0")


def test_a_job_that_ignores_the_save_signal_is_neither_moved_nor_stopped(scripts):
    (scripts / "deaf.py").write_text(
        "import time\nfrom headway import progress\n"
        "with progress.track(total_steps=60, save=lambda step: time.sleep(60)) as p:\n"
        "    p.report(1)\n    time.sleep(6)\n"
    )
    job = a_local_job("a", scripts, "deaf.py")
    policy = _once(_step_reached(1), lambda draft: draft.move(0, Placement(((1,),))))
    run = Run(scripts, [job], LocalTimeouts(save=1, stop=30, start=90)).go(policy)
    assert run.state("a") == "FINISHED"
    assert run.notes["a"] == ["it was not moved: it did not save within 1 seconds"]
    assert run.snapshots[-1].jobs.stops[0] == 0


@pytest.mark.parametrize("save", ["lambda step: time.sleep(60)", "None"])
def test_what_a_quota_reclaims_is_given_back_although_the_job_does_not_save(scripts, save):
    """It goes on from its last checkpoint, which it made by itself."""
    (scripts / "keeps.py").write_text(
        "import os, pathlib, time\nfrom headway import progress\n"
        "kept = pathlib.Path(os.environ['HEADWAY_CHECKPOINT']) / 'step'\n"
        "first = int(kept.read_text()) if kept.exists() else 0\n"
        "print('from', first, flush=True)\n"
        f"with progress.track(total_steps=4, save={save}) as p:\n"
        "    for step in range(first + 1, 5):\n"
        "        p.report(step)\n"
        "        kept.write_text('2') if step == 2 else None\n"
        "        time.sleep(60 if step == 3 and not first else 0)\n"
    )
    job = a_local_job("a", scripts, "keeps.py")
    policy = _once(_step_reached(3), lambda draft: draft.stop(0, Because.RECLAIMED))
    run = Run(scripts, [job], LocalTimeouts(speak=0.3, save=1, stop=30, start=90)).go(policy)
    assert run.state("a") == "FINISHED"
    assert _firsts(run.output("a")) == [0, 2]
    said, goes_on = run.notes["a"]
    assert goes_on == "it goes on from step 2; 1 step (0 s) was lost"
    assert said.startswith("another queue reclaimed what it borrowed: ")
    assert run.snapshots[-1].jobs.stops[0] == 1
    waiting = next(snapshot for snapshot in run.snapshots if snapshot.notes)
    assert (waiting.jobs.state_of(0).name, waiting.jobs.attained[0]) == ("WAITING", 0.0), "what was not saved is lost"


def test_a_quota_holds_against_a_job_that_never_saves(scripts):
    """evil holds both nodes and its save never returns; vision is guaranteed one of them, and gets it."""
    (scripts / "never.py").write_text(
        "import os, time\nfrom headway import progress\n"
        "with progress.track(total_steps=9, save=lambda step: time.sleep(60)) as p:\n"
        "    p.report(1)\n    time.sleep(60 if os.environ['HEADWAY_ATTEMPT'] == '1' else 0)\n"
    )
    worker = Role(
        name="worker", replicas=2, min=2, max=2, request=(("cpu", 900),), command=(sys.executable, "never.py")
    )
    hold = a_local_job("hold", scripts, roles=(worker,), queue="evil")
    mine = a_local_job("mine", scripts, "count.py", "2", cpu=900, queue="vision", submit=2.0)
    one = (("cpu", 1000),)
    policy = with_queues(first_fit, [Queue(name="vision", quota=one), Queue(name="evil", quota=one)])
    run = Run(scripts, [hold, mine], LocalTimeouts(save=0.5, stop=30, start=90)).go(policy)
    assert (run.state("mine"), run.state("hold")) == ("FINISHED", "FINISHED")
    assert any("another queue reclaimed what it borrowed" in note for note in run.notes["hold"])


def test_a_job_that_cannot_save_says_so(scripts):
    (scripts / "mute.py").write_text("import time\nfrom headway import progress\n"
                                     "with progress.track() as p:\n    p.report(1)\n    time.sleep(3)\n")  # fmt: skip
    policy = _once(_step_reached(1), lambda draft: draft.stop(0, Because.PREEMPTED))
    run = Run(scripts, [a_local_job("a", scripts, "mute.py")]).go(policy)
    assert run.notes["a"] == ["it was not stopped: none of its replicas can save"]
    assert run.state("a") == "FINISHED"


@pytest.mark.parametrize("save", ["None", "broken"])
def test_a_job_that_refuses_is_not_asked_without_a_pause(scripts, save):
    (scripts / "no.py").write_text(
        "import time\nfrom headway import progress\ndef broken(step):\n    raise OSError('disk full')\n"
        f"with progress.track(save={save}) as p:\n"
        "    for step in range(1, 400):\n        p.report(step)\n        time.sleep(0.01)\n"
    )

    def policy(snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        for row in snapshot.jobs.running():
            draft.stop(int(row), Because.PREEMPTED)
            draft.wake(snapshot.now + 0.05)  # asks again and again
        return draft.plan() if draft.decided_rows() else first_fit(snapshot)

    run = Run(scripts, [a_local_job("a", scripts, "no.py")], LocalTimeouts(speak=0.2, save=30, stop=30, start=90)).go(
        policy
    )
    assert run.state("a") == "FINISHED"
    seconds = run.snapshots[-1].now - run.snapshots[0].now
    assert 1 <= len(run.notes["a"]) <= math.log2(seconds + 1) + 1, "after 1, 2, 4 ... seconds"
