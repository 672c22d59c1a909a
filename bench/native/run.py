"""How fast and how well others place gangs: the figures to beat. Run it with `python bench/native/run.py`.

Every row has a lab of its own, so that nothing of the row before is still being cleared up, and in it, just before,
the ceiling is measured: what a bare client reaches that posts the same bindings. Compare rows by their ratio to it.
With `--out FILE` every row is kept as soon as it is there; the same command again goes on with the rows that lack.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import measure
import uvloop
from client import NAMESPACE, say
from contenders import CONTENDERS, make_queue
from rich.console import Console
from rows import CONTENTION, SPEED, Kept, Row, Settings, load, plain, tables

from headway.core.errors import UserError
from headway.lab import Lab, node_groups
from workload import Gang, gangs, singles

SEED = 7
GPUS_PER_NODE = 8
WORKLOADS: dict[str, Callable[[int], list[Gang]]] = {
    "single pods": singles,
    "gangs of 1-64": lambda pods: gangs(pods, SEED),
}
TWICE = "twice the GPUs"
Key = tuple[str, str, str]


def keys(by: list[str], measures: list[str]) -> list[Key]:
    """All rows that are asked for. Pods of Jobs have names of their own: only their throughput is measured."""
    speed = [(name, workload, one) for name in by for workload in WORKLOADS for one in SPEED if one in measures]
    every = speed + [(name, TWICE, CONTENTION) for name in by if CONTENTION in measures]
    return [key for key in every if key[2] == "throughput" or not CONTENDERS[key[0]].batch]


@contextlib.contextmanager
def a_lab(name: str, nodes: int, gpus_per_node: int) -> Iterator[Lab]:
    """A lab for one row. It ends with the row, also on Ctrl-C, also on a second one."""
    contender = CONTENDERS[name]
    wanted = node_groups(nodes, [f"{gpus_per_node}xA100,96cpu,768Gi"])
    lab = Lab.up("bench-native", simulated=wanted, bench=True, gangs=True, operators=contender.operators, owned=True)
    try:
        lab.create_namespace(NAMESPACE)
        if contender.kueue:
            make_queue(lab, nodes * gpus_per_node)
        yield lab
    finally:
        handlers = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGTERM)]
        lab.down()
        for number, handler in handlers:
            signal.signal(number, handler)


async def fill(lab: Lab, key: Key, settings: Settings) -> Row:
    name, workload, what = key
    contender = CONTENDERS[name]
    if what == CONTENTION:
        work = gangs(2 * settings.nodes, SEED)
        row = Row(by=contender.name, workload=workload, measure=what, pods=2 * settings.nodes)
        await measure.contention(lab, contender, row, work, settings.nodes)
        return row
    pods = settings.pods if what == "throughput" else max(1, settings.pods // 8)
    row = Row(by=contender.name, workload=workload, measure=what, pods=pods)
    await measure.ceiling(lab, row, settings.nodes, WORKLOADS[workload](pods), contender.made)
    work = WORKLOADS[workload](pods)
    if what == "throughput":
        await measure.throughput(lab, contender, row, work, settings.patience)
    else:
        await measure.latency(lab, contender, row, work, settings.rate)
    return row


def measure_all(wanted: list[Key], kept: Kept, out: Path | None, most: int | None) -> None:
    named = [((CONTENDERS[key[0]].name, *key[1:]), key) for key in wanted]
    lacking = [key for shown, key in named if not kept.has(shown)]
    for number, key in enumerate(lacking[:most], 1):
        name, workload, what = key
        say(f"row {number} of {len(lacking)}: {CONTENDERS[name].name}, {workload}, {what}")
        began = time.monotonic()
        with a_lab(name, kept.settings.nodes, 1 if what == CONTENTION else GPUS_PER_NODE) as lab:
            say("  the lab is up")
            row = uvloop.run(fill(lab, key, kept.settings))
        row.seconds = time.monotonic() - began
        kept.put(row, out)
        say(f"  {row.bound} of {row.pods} bound; the row took {row.seconds:.0f} s")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=4000, help="for throughput; latency takes an eighth of them")
    parser.add_argument("--rate", type=float, default=50, help="pods per second while latency is measured")
    parser.add_argument("--patience", type=float, default=600, help="seconds in which all pods should be bound")
    parser.add_argument("--by", default=",".join(CONTENDERS), help="which contenders (default: %(default)s)")
    measures = ",".join((*SPEED, CONTENTION))
    parser.add_argument("--only", default=measures, help="which measurements (default: %(default)s)")
    parser.add_argument("--rows", type=int, help="end after so many rows; the same command again goes on")
    parser.add_argument("--out", type=Path, help="keep the rows here, and go on with those that are here already")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON instead of a table")
    return parser.parse_args()


def names(text: str, option: str, known: list[str]) -> list[str]:
    wanted = text.split(",")
    for name in wanted:
        if name not in known:
            raise UserError(f"{option}: there is no {name!r}, only {', '.join(known)}")
    return wanted


def checked(chosen: argparse.Namespace) -> Settings:
    for name in ("nodes", "pods", "rate", "patience"):
        if not getattr(chosen, name) > 0:
            raise UserError(f"--{name}: it must be more than 0, not {getattr(chosen, name):g}")
    if chosen.pods > chosen.nodes * GPUS_PER_NODE:
        raise UserError(f"--pods: {chosen.nodes} nodes have {chosen.nodes * GPUS_PER_NODE} GPUs, not {chosen.pods}")
    return Settings(chosen.nodes, chosen.pods, chosen.rate, chosen.patience)


def show(kept: Kept, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plain(kept), indent=2))
        return
    for table in tables(kept):
        Console(width=None if sys.stdout.isatty() else 140).print(table)


def main() -> int:
    chosen = options()
    for number in (signal.SIGINT, signal.SIGTERM):  # the first too: it may have been ignored where this was started
        signal.signal(number, signal.default_int_handler)
    try:
        kept = load(chosen.out, checked(chosen))
        by = names(chosen.by, "--by", list(CONTENDERS))
        wanted = keys(by, names(chosen.only, "--only", [*SPEED, CONTENTION]))
        try:
            measure_all(wanted, kept, chosen.out, chosen.rows)
        finally:  # an interrupted run shows what it has
            show(kept, as_json=chosen.json)
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("interrupted; the lab is down" + (f", rows are kept in {chosen.out}" if chosen.out else ""))
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
