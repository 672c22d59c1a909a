"""`headway why`: why is a job not running? Answered from a run's log, up to the last cycle in it."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from headway.cli.options import Json
from headway.cli.wiring import make_policy
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.policy import Policy, explain_with
from headway.core.reason import explain
from headway.core.snapshot import Snapshot
from headway.core.text import clean
from headway.estimates.models.scaling import plain_speed
from headway.local.state_folder import is_locked
from headway.record.replay import ReplayCluster


def why(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    log: Annotated[
        Path | None, typer.Option(help="The run's log; default: the newest in .headway here or one folder down.")
    ] = None,
    json: Json = False,
) -> None:
    """Tell why a job is not running: what it needs, what is free, who holds it, and what would help."""
    path = log or _newest()
    last = _last(path)
    snapshot, policy = last.snapshot, last.policy
    if JobId(job) not in snapshot.jobs.row_of:
        known = ", ".join(sorted(snapshot.jobs.row_of)[:10])
        raise UserError(f"{path}: there is no job {job!r}; it has {known}")
    reason = explain(snapshot, policy(snapshot), JobId(job))
    told = explain_with(policy, snapshot, snapshot.jobs.row_of[JobId(job)])
    note = last.notes.get(JobId(job), "")
    if json:
        found = {**asdict(reason), "gap": reason.gap, "job": job, "now": snapshot.now, "note": note, "dead": last.dead}
        print(json_.dumps({**found, **told}))
        return
    print(f"{job} ({reason.code}, at {snapshot.now:.0f} s): {clean(reason.sentence)}")
    if reason.blocked_by:
        print(f"  held by   {clean(', '.join(reason.blocked_by))}")
    if reason.remedy:
        print(f"  helps     {clean(reason.remedy)}")
    for line in lines(told):
        print(clean(line))
    if note:
        print(f"  note      {clean(note)}")
    if last.dead:
        print("  headway   does not run now: this is how it was at the end of the log")


def lines(told: Mapping[str, Any]) -> list[str]:
    """What a policy explains, one line per topic and one for what would help."""
    shown = []
    for topic, value in told.items():
        remedy = ""
        if isinstance(value, str):
            sentence = value
        elif "sentence" in value:
            sentence = f"{value['verdict']}: {value['sentence']}" if "verdict" in value else value["sentence"]
            remedy = value.get("remedy", "")
        else:
            parts = " + ".join(f"{name} {part:.3f}" for name, part in value.items() if name != "total")
            sentence = f"{value['total']:.3f} = {parts}"
        shown.append(f"  {topic.replace('_', ' '):<9} {sentence}")
        if remedy:
            shown.append(f"  {'needs':<9} {remedy}")
    return shown


def _newest() -> Path:
    logs = sorted(
        (log for at in (".", "*") for log in Path().glob(f"{at}/.headway/*/run.log")),
        key=lambda path: path.stat().st_mtime,
    )
    if not logs:
        raise UserError("--log: there is no run in .headway here; name the log of a run")
    return logs[-1]


class _Last(NamedTuple):
    """The end of a log."""

    snapshot: Snapshot
    policy: Policy
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
    head = cluster.heads[-1]
    dead = head.cluster == "local" and not cluster.complete and not is_locked(path.parent)
    return _Last(last, make_policy(head.policy, head.settings.get("set", [])), notes, dead)
