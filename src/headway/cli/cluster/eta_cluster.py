"""When the TrainingJobs of a cluster start and are done: what their statuses say, as the scheduler foresees."""

from __future__ import annotations

import asyncio
import json as json_
import re
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from headway.cli.cluster.why_cluster import look, told
from headway.cli.options import access_for, need_extra
from headway.cli.screen.say import say
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, fitted

_COLUMNS = (
    TableColumn("job", is_text=True), TableColumn("phase", is_text=True), TableColumn("progress"),
    TableColumn("starts", is_text=True), TableColumn("done", is_text=True),
)  # fmt: skip
_FACTS = ("job", "namespace", "phase", "left", "starts", "eta", "done")


def eta_on_cluster(job: str, namespace: str, kubeconfig: Path | None, context: str, *, as_json: bool) -> None:
    from headway.cli.jobs.jobs import listed
    from headway.kube.commands import OVER_PHASES

    need_extra()
    access = access_for(kubeconfig, context)
    inside = namespace or access.namespace
    if job:
        found, _ = asyncio.run(look(access, inside, job))
        facts = told(found, None)
        if as_json:
            print(json_.dumps({name: facts[name] for name in _FACTS}))
        else:
            starts = f"starts {_short(facts['starts'])}, " if facts["starts"] else ""
            done = "done " if facts["done"] and facts["phase"] not in OVER_PHASES else ""
            say(f"{job} ({facts['phase']}): {starts}{done}{_when(facts['phase'], facts['done'], OVER_PHASES)}")
        return
    rows = [row for row in asyncio.run(listed(access, inside)) if row.phase not in OVER_PHASES]
    if as_json:
        jobs = [{"job": row.name, "namespace": row.namespace, "phase": row.phase, "starts": row.starts, "eta": row.eta,
                 "done": row.done} for row in rows]  # fmt: skip
        print(json_.dumps({"jobs": jobs}))
        return
    if not rows:
        say("nothing is left to run")
        return
    console = Console()
    cells: list[list[str | Text]] = [
        [plain(row.name), row.phase, row.progress, _short(row.starts), _when(row.phase, row.done, OVER_PHASES)]
        for row in rows
    ]
    console.print(fitted("", _COLUMNS, cells, console.width))


def _when(phase: str, done: str, over: frozenset[str]) -> str:
    if phase in over:
        return "it is over"
    return _short(done) or ("not known while it waits" if phase in ("", "Waiting", "Suspended") else "not known yet")


def _short(moments: str) -> str:
    """Without the day where that is today, else without the year."""
    today = time.strftime("%Y-%m-%d ", time.gmtime())
    return re.sub(r"\d{4}-(\d\d-\d\d )", r"\1", moments.replace(today, ""))
