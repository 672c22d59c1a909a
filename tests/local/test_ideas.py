"""The five ideas decide on real processes: each test looks at what a policy decided and at what became of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from headway.core.draft import Draft
from headway.core.estimates import Growth
from headway.core.job import Role
from headway.core.placement import Placement
from headway.core.plan import Move, Start
from headway.estimates.job import growth
from headway.learn.agents import agent_name
from headway.policies.combined_priority import CombinedPriority
from headway.policies.deadline import Deadline
from headway.policies.elastic import Elastic
from headway.policies.migration import Migration
from headway.record.log import read
from headway.record.metrics import Tally
from headway.record.replay import snapshots
from headway.trained.file import shipped
from headway.trained.regret import LEAST_JOBS

pytestmark = pytest.mark.timeout(120)

BURN = '''
"""Computes N steps of a fixed amount of work, about 20 ms on a core of its own; the loss falls as it is told."""
import json, os, sys, time
from pathlib import Path
from headway import progress

total, shape = int(sys.argv[1]), sys.argv[2]
file = (progress.checkpoint_dir() or Path(".")) / "step"
first = int(file.read_text()) if file.exists() else 0

def loss(step):
    return 1.0 / (1 + step) ** 3 if shape == "soon" else 2.0 - step / total

with progress.track(total_steps=total, save=lambda step: file.write_text(str(step))) as p:
    for step in range(first + 1, total + 1):
        used = time.process_time()
        while time.process_time() < used + 0.02:
            pass
        p.report(step, loss=loss(step))
'''

SHARE = '''
"""Counts to N together: with k replicas each step takes 1/k of 50 ms, as in data-parallel training."""
import json, os, sys, time
from pathlib import Path
from headway import progress

total = int(sys.argv[1])
file = (progress.checkpoint_dir() or Path(".")) / "step"
size = [json.loads(os.environ["HEADWAY_REPLICAS"])["worker"]]

def resized(told):
    size[0] = told.replicas["worker"]

lead = os.environ["HEADWAY_INDEX"] == "0"
step = int(file.read_text()) if lead and file.exists() else 0
with progress.track(total_steps=total, save=(lambda at: file.write_text(str(at))) if lead else None) as p:
    p.on_resize(resized)
    while step < total:
        time.sleep(0.05 / size[0])
        if lead:
            step += 1
            p.report(step, loss=1.0 / step)
        else:
            p.poll(0)
            step = total if file.with_name("done").exists() else 0
    file.with_name("done").touch()
'''


@pytest.fixture
def ideas(scripts):
    (scripts / "burn.py").write_text(BURN)
    (scripts / "share.py").write_text(SHARE)
    return scripts


def _starts(run):
    return [decision.job for plan in run.plans for decision in plan.decisions if isinstance(decision, Start)]


def _ends(run):
    """By job: when it was over, on the run's clock."""
    found = {}
    for snapshot in run.snapshots:
        for row in range(snapshot.jobs.count):
            if bool(snapshot.jobs.over()[row]):
                found.setdefault(snapshot.jobs.job(row).id, float(snapshot.jobs.since[row]))
    return found


def _wide(name, ideas, steps, *, least=1, most=2, asked=1, **more):
    role = Role(
        name="worker", replicas=asked, min=least, max=most, request=(("cpu", 500),),
        command=(sys.executable, "share.py", str(steps)),
    )  # fmt: skip
    return replace(a_local_job(name, ideas, steps=steps, **more), roles=(role,))


def _undisturbed(run):
    """Whatever else this machine does, the run has its cores. Without control groups nothing is shared: no test."""
    if not run.cluster.control_groups.by_cgroup:
        run.cluster.close()
        pytest.skip("no control groups here: cpu is not shared")
    for folder in run.cluster.control_groups._parents:
        for name, most in (("cpu.weight", 10_000), ("cpu.shares", 262_144)):
            if (folder / name).exists():
                (folder / name).write_text(str(most))
    return run


def _sizes(run, row):
    """Its number of replicas over time, without repetitions."""
    counts = [snapshot.placements[row].counts[0] for snapshot in run.snapshots if row in snapshot.placements]
    return [count for at, count in enumerate(counts) if at == 0 or counts[at - 1] != count]


# ── combined priority ───────────────────────────────────────────────────────────────────────────────────────


def test_combined_priority_starts_by_score_and_not_by_arrival(ideas):
    def job(name, steps, submit, **more):
        return a_local_job(name, ideas, "count.py", str(steps), cpu=1000, submit=submit, **more)

    jobs = [
        job("first", 40, 0.0), job("second", 60, 0.0), job("plain", 5, 0.2, user="ben"),
        job("boosted", 5, 0.3, user="ben", priority=5), job("preferred", 5, 0.4, user="ana"),
        job("both", 5, 0.5, user="ana", priority=9),
    ]  # fmt: skip
    policy = CombinedPriority(user_priority=(("ana", 8.0),))
    run = Run(ideas, jobs).go(policy)
    assert _starts(run) == ["first", "second", "both", "preferred", "boosted", "plain"]
    waits = next(snapshot for snapshot in run.snapshots if len(snapshot.jobs.waiting()) == 4)
    scores = [policy.explain(waits, row)["score"]["total"] for row in waits.jobs.waiting().tolist()]
    assert scores == sorted(scores), "each came later and has the higher score"


def test_combined_priority_serves_the_longest_wait_before_a_higher_priority(ideas):
    jobs = [
        a_local_job("first", ideas, "count.py", "50", cpu=1000),
        a_local_job("second", ideas, "count.py", "90", cpu=1000),
        a_local_job("patient", ideas, "count.py", "5", cpu=1000, submit=0.1),
        a_local_job("fresh", ideas, "count.py", "5", cpu=1000, submit=2.0, priority=5),
    ]  # fmt: skip
    assert _starts(Run(ideas, jobs).go(CombinedPriority(longest_wait=1.5)))[2:] == ["patient", "fresh"]


# ── deadline ────────────────────────────────────────────────────────────────────────────────────────────────


def test_deadline_grows_a_job_to_be_in_time_and_says_so(ideas):
    """Alone it takes 20 s, and 15 are given."""
    policy = Deadline(cool_down=1.0, restart=0.5)
    run = Run(ideas, [_wide("a", ideas, 400, most=64, deadline=15.0)]).go(policy)
    sizes = _sizes(run, 0)
    assert sizes[0] == 1
    assert max(sizes) > 1
    assert run.state("a") == "FINISHED"
    assert _ends(run)["a"] <= 15.0
    told = [str(policy.explain(snapshot, 0)) for snapshot in run.snapshots if 0 in snapshot.placements]
    assert any("In time with" in sentence for sentence in told), told[-1:]


# ── elastic ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("seconds", "patience"), [(1.0, 3600.0), (None, 2.0)])
def test_elastic_grows_into_idle_cpu_shrinks_for_a_job_that_waits_and_grows_again(ideas, seconds, patience):
    """A job of unknown length counts as an hour; so the other shrinks for it once it has waited long."""
    jobs = [_wide("wide", ideas, 4000, most=4), _wide("new", ideas, 20, most=1, submit=6.0, seconds=seconds)]
    run, policy = Run(ideas, jobs), Elastic(cool_down=1.0, restart=0.5, patience=patience)
    after = []

    def until_it_has_grown_again(snapshot):
        if "FINISHED" in {snapshot.jobs.state_of(row).name for row in range(snapshot.jobs.count)}:
            after.append(len(snapshot.placements[0].nodes[0]))
            if after[-1] == 4:
                run.cluster.leave()
        return policy(snapshot)

    run.go(until_it_has_grown_again)
    sizes = _sizes(run, 0)
    assert sizes[0] == 1
    assert max(sizes) == 4, "all of both nodes"
    grown = sizes.index(4)
    assert min(sizes[grown:]) < 4, "it made room"
    assert after[0] < 4 == after[-1], "it grew back"
    assert run.state("new") == "FINISHED"
    assert run.state("wide") != "FINISHED"


# ── migration ───────────────────────────────────────────────────────────────────────────────────────────────


def _shares(name, ideas, steps, shape, submit=0.0):
    role = Role(
        name="worker", request=(("cpu", 100),), limit=(("cpu", 1000),),
        command=(sys.executable, "burn.py", str(steps), shape),
    )  # fmt: skip
    return replace(a_local_job(name, ideas, submit=submit), roles=(role,))


def test_migration_moves_the_slow_growing_job_away_from_the_fast_growing_one(ideas, monkeypatch):
    """`fast` and `slow` share one core. The one that hardly learns moves to the other node, though it has more left."""
    monkeypatch.setattr(growth, "INTERVAL_SECONDS", 0.3)
    jobs = [
        _shares("slow", ideas, 500, "soon"), _shares("brief", ideas, 180, "steadily", 0.1),
        _shares("fast", ideas, 300, "steadily", 0.2),
    ]  # fmt: skip
    run = _undisturbed(Run(ideas, jobs))
    policy = Migration(restart=0.5, cool_down=3.0, interval=0.5, round=1.0)

    def once_growth_is_known(snapshot):
        known = snapshot.estimates.growth()[0].tolist()[:1] == [Growth.CONVERGING]
        return policy(snapshot) if known else replace(policy, max_moves=0)(snapshot)

    run.go(once_growth_is_known)
    moves = [one for plan in run.plans for one in plan.decisions if isinstance(one, Move)]
    assert [one.job for one in moves] == ["slow"]
    where = {one.job: one.placement.nodes for plan in run.plans for one in plan.decisions if isinstance(one, Start)}
    assert where["fast"] == where["slow"] != where["brief"]
    assert moves[0].placement.nodes == where["brief"]
    assert {run.state(name) for name in ("fast", "brief", "slow")} == {"FINISHED"}


def test_jobs_with_a_limit_share_a_core_and_take_it_whole_when_alone(ideas):
    """What a limit is: weight by the request, quota by the limit."""
    jobs = [_shares("one", ideas, 200, "steadily"), _shares("other", ideas, 100, "steadily", 0.1)]
    run = _undisturbed(Run(ideas, jobs))

    def on_the_left(snapshot):
        draft = Draft(snapshot)
        for row in snapshot.jobs.waiting().tolist():
            draft.start(row, Placement(((0,),)))
        return draft.plan()

    run.go(on_the_left)
    seen = [dict(snapshot.used_cpu) for snapshot in run.snapshots]
    both = [used for used in seen if len(used) == 2]
    assert max(min(used.values()) for used in both) < 0.75, "a core between them"
    assert max(used.get(0, 0.0) for used in seen) > 0.75, "and all of it alone, far beyond its tenth"


# ── learned ─────────────────────────────────────────────────────────────────────────────────────────────────

THREE = """
nodes: [{name: here, cpu: 1, memory: 2Gi}]
jobs:
  - {name: holder, cpu: 1, command: [python, count.py, "30"]}
  - {name: early, cpu: 1, submit: 300ms, command: [python, count.py, "5"]}
  - {name: late, cpu: 1, submit: 600ms, command: [python, count.py, "5"]}
"""
LAST_COME = """
def agent(seen):
    legal = seen["action_mask"].nonzero()[0]
    return int(legal[legal < len(seen["action_mask"]) - 1].max(initial=legal[0]))
"""


def _watched_run(ideas, name, *options, jobs=THREE):
    """A run whose guard found before, in a hundred jobs, that the policy may decide."""
    (ideas / "jobs.yaml").write_text(jobs)
    state = ideas / "kept"
    state.mkdir()
    kept = {"policy": name, "mode": "on", "why": "replayed", "finished": 120, "next": 150, "until": -1.0}
    (state / "run.log.guard").write_text(json.dumps(kept))
    command = [sys.executable, "-m", "headway", "run", str(ideas / "jobs.yaml"), "--state", str(state), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ideas)
    assert done.returncode == 0, done.stderr
    return state / "run.log"


def test_the_trained_policy_decides_on_real_processes(ideas):
    policy = shipped()
    log = _watched_run(ideas, policy.name, "--policy", "learned")
    decided = [snapshot for snapshot in snapshots(log) if len(snapshot.jobs.waiting())]
    assert decided
    assert {snapshot.standing.mode for snapshot in decided} == {"on"}
    assert all(policy.judged(snapshot)[1] is None for snapshot in decided), "nothing keeps it from deciding"
    assert any(policy.settled(snapshot) != policy.base for snapshot in decided), "by settings that it chose"


def _a_hundred_and_three_more(ideas, *options):
    """A hundred small jobs finish, then three that contend; nothing of the guard is prepared by hand."""
    tiny = "".join(
        f"  - {{name: t{number}, cpu: 100m, command: [sleep, '0.02']}}\n" for number in range(LEAST_JOBS + 5)
    )
    rest = THREE.partition("jobs:\n")[2].replace('"30"', '"250"').replace("300ms", "15s").replace("600ms", "16s")
    (ideas / "jobs.yaml").write_text(f"nodes: [{{name: here, cpu: 1, memory: 2Gi}}]\njobs:\n{tiny}{rest}")
    command = [sys.executable, "-m", "headway", "run", str(ideas / "jobs.yaml"), "--state", str(ideas / "kept")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=100, check=False, cwd=ideas)
    assert done.returncode == 0, done.stderr
    return ideas / "kept" / "run.log"


def _decided_after_shadow(log):
    """The snapshots with waiting jobs in which the watched policy decided, once it was found not clearly worse."""
    seen = list(snapshots(log))
    modes = [snapshot.standing.mode for snapshot in seen]
    assert modes[0] == "shadow"
    assert modes[-1] == "on"
    assert modes == sorted(modes, reverse=True), "once"
    return [one for one in seen if one.standing.mode == "on" and len(one.jobs.waiting())]


def test_the_trained_policy_comes_out_of_shadow_by_itself_and_decides(ideas):
    """A hundred jobs finish, the guard replays them and finds it not clearly worse."""
    decided = _decided_after_shadow(_a_hundred_and_three_more(ideas, "--policy", "learned"))
    assert decided
    assert all(shipped().judged(snapshot)[1] is None for snapshot in decided)


@pytest.mark.torch
def test_a_stock_maskable_ppo_comes_out_of_shadow_by_itself_and_decides(ideas):
    """Trained for a moment by the example's own script, then watched and let decide as any agent is."""
    pytest.importorskip("sb3_contrib")
    shutil.copy(Path(__file__).parents[2] / "examples" / "learn" / "ppo.py", ideas)
    training = "import ppo; ppo.train(steps=256, n_steps=128).save(ppo.FILE)"
    subprocess.run([sys.executable, "-c", training], cwd=ideas, timeout=100, check=True, capture_output=True)
    log = _a_hundred_and_three_more(ideas, "--policy", "ppo.py:agent", "--env", "headway/Order-v0")
    assert _decided_after_shadow(log)
    command = [sys.executable, "-m", "headway", "replay", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ideas)
    assert "0 plans differ" in done.stdout, done.stdout + done.stderr


def test_an_agent_of_an_environment_decides_on_real_processes(ideas):
    (ideas / "mine.py").write_text(LAST_COME)
    agent = f"{ideas / 'mine.py'}:agent"
    log = _watched_run(ideas, agent_name(agent), "--policy", agent, "--env", "headway/Order-v0")
    tally = Tally(courses=True)
    for line in read(log):
        tally(line)
    begun = {course.begun: course.job.id for course in tally.courses.values()}
    assert [begun[at] for at in sorted(begun)] == ["holder", "late", "early"], "last come, first served"


TWICE = """
def agent(seen):
    legal = seen["action_mask"].nonzero()[0]
    twice = [action for action in legal if action % 7 == 3 and action < len(seen["action_mask"]) - 1]
    return int(twice[0] if twice else legal[-1])
"""


def test_an_agent_of_sizes_decides_on_real_processes(ideas):
    """Asked for one replica, it starts two."""
    (ideas / "mine.py").write_text(TWICE)
    agent, role = f"{ideas / 'mine.py'}:agent", "{replicas: 1, min: 1, max: 2, cpu: 500m}"
    jobs = f"  - {{name: one, roles: {{worker: {role}}}, command: [python, count.py, '20']}}\n"
    log = _watched_run(
        ideas, agent_name(agent), "--policy", agent, "--env", "headway/Size-v0",
        jobs=f"nodes: [{{name: here, cpu: 1, memory: 2Gi}}]\njobs:\n{jobs}",
    )  # fmt: skip
    sizes = {placement.counts for snapshot in snapshots(log) for placement in snapshot.placements.values()}
    assert sizes == {(2,)}
