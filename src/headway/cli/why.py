"""`headway why`: why is a job not running? Answered from a run's log, up to the last cycle in it."""

from __future__ import annotations

import json as json_
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from headway.cli.options import Context, Json, Kubeconfig, Namespace
from headway.cli.say import say
from headway.cli.show import near
from headway.cli.trained_policy import is_another
from headway.cli.why_cluster import why_on_cluster
from headway.cli.wiring import make_policy, safe_policy
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.policy import Policy, explain_with
from headway.core.reason import Code, explain
from headway.core.snapshot import Snapshot
from headway.core.text import lasting
from headway.cycle.loop import decide
from headway.cycle.sound import PolicyError, raised
from headway.estimates.models.scaling import plain_speed
from headway.local.settings import clock_zero
from headway.local.state_folder import is_locked
from headway.record.replay import ReplayCluster
from headway.workload.deadlines import late


def why(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    log: Annotated[
        Path | None, typer.Option(help="The run's log; default: the newest in .headway here or one folder down.")
    ] = None,
    json: Json = False,
    kube: Annotated[bool, typer.Option("--kube", help="Ask the cluster of the current context.")] = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Tell why a job is not running: what it needs, what is free, who holds it, and what would help.

    Of a run on this machine, by its log; with --kube, -n, --kubeconfig or --context of a TrainingJob on a cluster.
    """
    if kube or namespace or kubeconfig is not None or context:
        if log is not None:
            raise UserError("--log: a job on a cluster has no log here; give --log or the options of a cluster")
        why_on_cluster(job, namespace, kubeconfig, context, as_json=json)
        return
    path = log or _newest()
    last = _last(path)
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
    if json:
        found = {**asdict(reason), "gap": reason.gap, "job": job, "now": snapshot.now, "note": note, "dead": last.dead}
        print(json_.dumps({**found, "late": too_late, **told}, default=str))
        return
    ran = last.dead and reason.code is Code.RUNNING
    sentence = "It was running when Headway ended." if ran else reason.sentence
    say(f"{job} ({reason.code}, at {lasting(snapshot.now)}): {sentence}")
    sayings = [("held by", ", ".join(reason.blocked_by)), ("helps", reason.remedy), ("deadline", too_late)]
    shown = [f"  {word:<9} {saying}" for word, saying in sayings if saying] + lines(told)
    if note:
        shown.append(f"  note      {near(note)}")
    if last.dead:
        shown.append("  headway   does not run now: this is how it was at the end of the log")
    for line in shown:
        say(line, hang=12)


def explained(policy: Policy, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
    """What the policy says about this job. One that cannot is told in a sentence."""
    try:
        told: Any = explain_with(policy, snapshot, row)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a policy may be anyone's
        return {"policy": f"explain fails: {raised('', error, getattr(policy, 'file', '')).why}"}
    if not isinstance(told, Mapping):
        return {"policy": f"explain fails: it returned {type(told).__name__}, not a mapping of topics"}
    return told


def lines(told: Mapping[str, Any]) -> list[str]:
    """What a policy explains, one line per topic and one for what would help."""
    shown = []
    for topic, value in told.items():
        remedy = ""
        if not isinstance(value, Mapping):
            sentence = str(value)
        elif "sentence" in value:
            sentence = f"{value['verdict']}: {value['sentence']}" if "verdict" in value else value["sentence"]
            remedy = value.get("remedy", "")
        elif all(isinstance(part, int | float) for part in value.values()) and "total" in value:
            parts = " + ".join(f"{name} {part:.3f}" for name, part in value.items() if name != "total")
            sentence = f"{value['total']:.3f} = {parts}"
        else:
            sentence = ", ".join(f"{name} {part}" for name, part in value.items())
        shown.append(f"  {str(topic).replace('_', ' '):<9} {sentence}")
        if remedy:
            shown.append(f"  {'needs':<9} {remedy}")
    return shown


def _late(last: _Last, row: int) -> str:
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


def _newest() -> Path:
    logs = sorted(
        (log for at in (".", "*") for log in Path().glob(f"{at}/.headway/*/run.log")),
        key=lambda path: path.stat().st_mtime,
    )
    if not logs:
        raise UserError("--log: there is no run in .headway here; name the log of a run, or a cluster by --kube or -n")
    return logs[-1]


class _Last(NamedTuple):
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


def _last(path: Path) -> _Last:
    cluster = ReplayCluster(path, plain_speed)
    last: Snapshot | None = None
    notes: dict[JobId, str] = {}
    while (snapshot := cluster.next_snapshot()) is not None:
        last = snapshot
        notes.update(snapshot.notes)
    if last is None:
        raise UserError(f"{path}: the log has no cycle yet")
    head, now = cluster.heads[-1], last.now
    local = head.cluster == "local" and not cluster.complete
    if local:
        now = time.time() - clock_zero(head.began, last.now, time.time())
    told: dict[str, str] = {}
    try:
        policy = make_policy(head.policy, head.settings.get("set", []))
        told = {"policy": changed} if (changed := is_another(head)) else {}
    except UserError as error:
        policy, told = safe_policy, {"policy": f"{error}; the reason is first-fit's"}
    return _Last(last, now, policy, told, notes, local and not is_locked(path.parent))
