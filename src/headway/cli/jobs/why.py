"""`headway why`: why is a job not running? Answered from a run's log, up to the last cycle in it."""

from __future__ import annotations

import json as json_
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from headway.cli.cluster.why_cluster import why_on_cluster
from headway.cli.machine.queue import meant_folder, queue_home
from headway.cli.options import Context, Json, Kubeconfig, Namespace, OnKube, State, on_cluster
from headway.cli.screen.clock_times import FEWEST_DRAWS, ClockTimes
from headway.cli.screen.say import say
from headway.cli.screen.show import near
from headway.cli.trained_policy import is_another
from headway.cli.wiring import make_policy, safe_policy
from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.policy import Policy
from headway.core.quantity import GPU
from headway.core.reason import Code, explain
from headway.core.snapshot import Snapshot
from headway.core.text import lasting
from headway.cycle.explained import Clock, explained, sentences
from headway.cycle.loop import decide
from headway.cycle.sound import PolicyError
from headway.estimates.models.scaling import plain_speed
from headway.forecast.times import Forecast, Range
from headway.local.claims import running_folders
from headway.local.device_pool import ABOUT_GPUS
from headway.local.settings import clock_zero
from headway.local.state_folder import is_locked
from headway.record.lines import Head
from headway.record.replay import ReplayCluster
from headway.workload.deadlines import late


def why(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    log: Annotated[
        Path | None, typer.Option(help="The run's log; default: the queue's, else the newest in .headway here.")
    ] = None,
    json: Json = False,
    state: State = None,
    kube: OnKube = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Tell why a job is not running: what it needs, what is free, who holds it, and what would help.

    In the queue or a run on this machine, by its log; of a TrainingJob on a cluster with --kube, -n, --kubeconfig or
    --context, or where KUBECONFIG is set.
    """
    if of_cluster(log, state, kube, namespace, kubeconfig, context):
        why_on_cluster(job, namespace, kubeconfig, context, as_json=json)
        return
    path = log or meant_log(state)
    last = last_cycle(path)
    snapshot = last.snapshot
    if JobId(job) not in snapshot.jobs.row_of:
        known = ", ".join(sorted(snapshot.jobs.row_of)[:10])
        raise UserError(f"{path}: there is no job {job!r}; it has {known}")
    row, told = snapshot.jobs.row_of[JobId(job)], dict(last.told)
    try:
        plan = decide(last.policy, snapshot).plan
    except PolicyError as error:
        plan = safe_policy(snapshot)
        told["policy"] = f"it fails: {error.why}; the reason is first-fit's"
    reason = explain(snapshot, plan, JobId(job))
    told |= explained(last.policy, snapshot, row)
    note, too_late = last.notes.get(JobId(job), ""), _late(last, row)
    gpus, asks = snapshot.gpus.get(row), any(role.amount(GPU) for role in snapshot.jobs.job(row).roles)
    about_gpus = last.notes.get(ABOUT_GPUS, "") if asks else ""
    if json:
        found = {**asdict(reason), "gap": reason.gap, "job": job, "now": snapshot.now, "note": note, "dead": last.dead}
        used = None if gpus is None else {"devices": gpus.devices, "busy": gpus.busy, "memory_mib": gpus.memory}
        print(json_.dumps({**found, "late": too_late, "gpus": used, "about_gpus": about_gpus, **told}, default=str))
        return
    ran = last.dead and reason.code is Code.RUNNING
    sentence = "It was running when Headway ended." if ran else reason.sentence
    say(f"{job} ({reason.code}, at {lasting(snapshot.now)}): {sentence}")
    sayings = [("held by", ", ".join(reason.blocked_by)), ("helps", reason.remedy), ("deadline", too_late),
               ("gpus", str(gpus or "")), ("machine", about_gpus)]  # fmt: skip
    shown = [f"  {word:<9} {saying}" for word, saying in (*sayings, *sentences(told, _clock(last))) if saying]
    if note:
        shown.append(f"  note      {near(note)}")
    if last.dead:
        shown.append("  headway   does not run now: this is how it was at the end of the log")
    for line in shown:
        say(line, hang=12)


def _clock(last: LastCycle) -> Clock | None:
    """Of a run that goes on, on this machine."""
    if last.dead or last.head.cluster != "local":
        return None
    zero = clock_zero(last.head.began, last.snapshot.now, time.time())
    times = ClockTimes(Forecast(last.now, draws=FEWEST_DRAWS), zero)
    return lambda at: times.between(Range(at, at, at))


def _late(last: LastCycle, row: int) -> str:
    """Why the job misses its deadline. What is not estimated is taken from what the user declared."""
    jobs, snapshot = last.snapshot.jobs, last.snapshot
    job = jobs.job(row)
    if jobs.is_over(row):
        return ""
    left = snapshot.estimates.of(row, snapshot.now).left
    if math.isnan(left) and job.seconds is not None:
        left = max(0.0, job.seconds - float(jobs.trained_seconds(snapshot.now)[row]))
    placement = snapshot.placements.get(row)
    replicas = 0 if placement is None else sum(len(nodes) for nodes in placement.nodes)
    return late(job, last.now, left, replicas)


def of_cluster(
    log: Path | None, state: Path | None, kube: bool | None, namespace: str, kubeconfig: Path | None, context: str
) -> bool:
    """Whether a job of a cluster is meant, not one of a log."""
    if not (kube or namespace or kubeconfig is not None or context):
        return log is None and state is None and on_cluster(kube, namespace, kubeconfig, context)
    if log is not None:
        raise UserError("--log: a job on a cluster has no log here; give --log or the options of a cluster")
    return True


def meant_log(state: Path | None) -> Path:
    """The log of the state folder, of the queue or run that goes on, or the newest one here; else that of the queue."""
    home = queue_home()
    if state is not None or running_folders():
        return meant_folder(state) / "run.log"
    return _newest(home / "run.log")


def _newest(otherwise: Path) -> Path:
    logs = sorted(
        (log for at in (".", "*") for log in Path().glob(f"{at}/.headway/*/run.log")),
        key=lambda path: path.stat().st_mtime,
    )
    if not logs and otherwise.exists():
        return otherwise
    if not logs:
        raise UserError("--log: there is no run in .headway here; name the log of a run")
    return logs[-1]


class LastCycle(NamedTuple):
    """The end of a log."""

    snapshot: Snapshot
    now: float
    """What the clock of the run shows now: it goes on while Headway is away."""
    policy: Policy
    told: dict[str, str]
    """About the policy, where it cannot be had."""
    notes: dict[JobId, str]
    """By job: the last note about it."""
    dead: bool
    """The run was not finished, and no Headway works on it."""
    head: Head


def last_cycle(path: Path, follow: Callable[[Snapshot], None] = lambda _: None, more: Sequence[Job] = ()) -> LastCycle:
    """`follow` gets every snapshot of the log, one after the other; at its end, one with `more` jobs."""
    cluster = ReplayCluster(path, plain_speed)
    last: Snapshot | None = None
    notes: dict[JobId, str] = {}
    while (snapshot := cluster.next_snapshot()) is not None:
        last = snapshot
        follow(snapshot)
        notes.update(snapshot.notes)
    if last is None:
        raise UserError(f"{path}: the log has no cycle yet")
    head, now = cluster.heads[-1], last.now
    local = head.cluster == "local" and not cluster.complete
    if local:
        now = time.time() - clock_zero(head.began, last.now, time.time())
    dead = local and not is_locked(path.parent)
    if more:
        last = cluster.joined_by(more, last.now if dead else now)
        follow(last)
    told: dict[str, str] = {}
    try:
        policy = make_policy(head.policy, head.settings.get("set", []))
        told = {"policy": changed} if (changed := is_another(head)) else {}
    except UserError as error:
        policy, told = safe_policy, {"policy": f"{error}; the reason is first-fit's"}
    return LastCycle(last, now, policy, told, notes, dead, head)
