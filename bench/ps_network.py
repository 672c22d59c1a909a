"""Is the simulator right about servers and workers on different nodes? A real job between two network namespaces.

    sudo python bench/ps_network.py [--quick] [--json]

Two namespaces act as two nodes, joined by a pair of interfaces whose bandwidth `tc` shapes both ways. `ps_job.py`
trains in them, servers and workers on the same side or not, for several bandwidths and model sizes. The simulator's
prediction (`estimates.models.profiles.Servers` on the same placement) uses the bandwidth, the size of the model, the
speed of the loopback and the step of the same job on one node. It predicts all traffic between the nodes. Needs root,
`ip` and `tc` with tbf. The job runs at high priority, so that other work disturbs it little. Everything is removed at
the end, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ps_job import size

from headway.core.job import Job, JobId, Role
from headway.core.placement import Placement
from headway.estimates.models.profiles import Layout, Servers

JOB = Path(__file__).with_name("ps_job.py")
ADDRESSES = ("10.231.7.1", "10.231.7.2")
PORT = 7411
PAYLOAD = 1448 / 1514
"""Of a full frame, what TCP carries for its user."""
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Where:
    """Which side each server and worker is on."""

    name: str
    servers: tuple[int, ...]
    workers: tuple[int, ...]

    @property
    def crosses(self) -> bool:
        return len({*self.servers, *self.workers}) > 1

    def layout(self) -> Layout:
        job = Job(id=JobId("real"), roles=tuple(
            Role(name=name, replicas=len(on), min=len(on), max=len(on))
            for name, on in (("ps", self.servers), ("worker", self.workers))))  # fmt: skip
        return Layout.of(job, Placement((self.servers, self.workers)))


TOGETHER = {
    (1, 1): Where("together", (0,), (0,)),
    (1, 2): Where("together", (0,), (0, 0)),
    (2, 2): Where("together", (0, 0), (0, 0)),
}
CROSSING = (
    Where("apart", (0,), (1,)),
    Where("apart", (0,), (1, 1)),
    Where("one worker apart", (0,), (0, 1)),
    Where("a server and a worker each", (0, 1), (0, 1)),
    Where("servers here, workers there", (0, 0), (1, 1)),
)


Sizes = tuple[tuple[int, int], ...]
SIZES: Sizes = ((1000, 4096), (4000, 256), (8000, 1024))
"""Hidden units, and the batch of all workers together: from little exchange in a step to hardly anything else."""


@dataclass(frozen=True, slots=True)
class Row:
    megabytes: float
    batch: int
    megabits: int
    servers: int
    workers: int
    where: str
    together: float
    """Seconds per step on one node."""
    measured: float
    predicted: float
    losses: tuple[float, float]

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def refuse(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


def sh(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}`: {done.stderr.strip()}")


@contextlib.contextmanager
def two_nodes() -> Iterator[tuple[str, str]]:
    """Two namespaces with a link between them; removed afterwards with all processes in them."""
    names = (f"headway-ps-{os.getpid()}-a", f"headway-ps-{os.getpid()}-b")
    links = ("hwps0", "hwps1")
    try:
        for name in names:
            sh("ip", "netns", "add", name)
        sh("ip", "link", "add", links[0], "netns", names[0], "type", "veth", "peer", "name", links[1],
           "netns", names[1])  # fmt: skip
        for name, link, address in zip(names, links, ADDRESSES, strict=True):
            sh("ip", "-n", name, "address", "add", f"{address}/24", "dev", link)
            for device in ("lo", link):
                sh("ip", "-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:  # the pair goes with its ends
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def shape(names: tuple[str, str], megabits: int) -> None:
    for name, link in zip(names, ("hwps0", "hwps1"), strict=True):
        try:
            sh("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", link, "root", "tbf",
               "rate", f"{megabits}mbit", "burst", "16kb", "latency", "200ms")  # fmt: skip
        except RuntimeError as error:
            refuse(f"this kernel does not shape bandwidth with tbf: {error}")


def run(commands: list[tuple[str, tuple[str, ...]]]) -> Any:
    """Runs processes in namespaces until all have ended; returns the JSON that one of them printed."""
    started: list[subprocess.Popen[str]] = []
    try:
        for name, arguments in commands:
            command = ["nice", "-n", "-15", "ip", "netns", "exec", name, sys.executable, str(JOB), *arguments]
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        printed = [process.communicate(timeout=300)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    if any(process.returncode for process in started):
        raise RuntimeError("a part of the job failed; its last words are above")
    return json.loads(next(text for text in printed if text))


def loopback(names: tuple[str, str], count: int = 1 << 30) -> float:
    """Bytes per second inside a node."""
    commands = [(names[0], ("receive", str(PORT), str(count))), (names[0], ("send", f"127.0.0.1:{PORT}", str(count)))]
    return float(run(commands)["bytes_per_second"])


def train(
    names: tuple[str, str], where: Where, size_of: tuple[int, int], steps: int
) -> tuple[float, tuple[float, float]]:
    """Seconds per step, and the losses at the beginning and at the end. The lower quartile of all steps but the first
    few: what disturbs a step only ever slows it.
    """
    hidden, batch = size_of
    ports = [PORT + number for number in range(len(where.servers))]
    commands: list[tuple[str, tuple[str, ...]]] = []
    for number, side in enumerate(where.servers):
        given = (ports[number], number, len(ports), len(where.workers), steps, hidden)
        commands.append((names[side], ("ps", *map(str, given))))
    for rank, side in enumerate(where.workers):
        to = [f"{ADDRESSES[at] if at != side else '127.0.0.1'}:{port}"
              for at, port in zip(where.servers, ports, strict=True)]  # fmt: skip
        given = (rank, steps, hidden, batch // len(where.workers))
        commands.append((names[side], ("worker", *map(str, given), *to)))
    found = run(commands)
    losses = found["losses"]
    return statistics.quantiles(found["seconds"][WARM_UP:], n=4)[0], (losses[0], statistics.mean(losses[-3:]))


def predict(where: Where, together: float, model_bytes: float, network: float, inside: float) -> float:
    """Seconds per step by the simulator's form; bandwidths in bytes per second.

    What is not exchange is what the same job on one node takes beyond it.
    """
    exchange = 2.0 * model_bytes / network  # pulled and pushed
    alone = TOGETHER[len(where.servers), len(where.workers)].layout()

    def model(rest: float) -> Servers:
        return Servers(0.0, rest, exchange, 0.0, 0.0, 1.0, min(1.0, network / inside))

    inside_exchange = 1.0 / model(0.0)(alone)
    return 1.0 / model(max(0.0, together - inside_exchange))(where.layout())


def measure(names: tuple[str, str], sizes: Sizes, rates: tuple[int, ...], steps: int) -> list[Row]:
    inside, rows = loopback(names), []
    print(f"inside a node: {inside * 8 / 1e9:.1f} Gbit/s", file=sys.stderr)
    for size_of in sizes:
        crossing = []
        together: dict[tuple[int, int], float] = {}
        for megabits in rates:
            shape(names, megabits)
            for kind, where in TOGETHER.items():  # no link matters to it; of several runs the least disturbed counts
                together[kind] = min(together.get(kind, math.inf), train(names, where, size_of, steps)[0])
            crossing += [(megabits, where, *train(names, where, size_of, steps)) for where in CROSSING]
            print(f"{size_of} at {megabits} Mbit/s done", file=sys.stderr)
        for megabits, where, measured, losses in crossing:
            kind, model_bytes = (len(where.servers), len(where.workers)), 4.0 * size(size_of[0])
            predicted = predict(where, together[kind], model_bytes, megabits * 1e6 / 8 * PAYLOAD, inside)
            setting = (model_bytes / 1e6, size_of[1], megabits, *kind, where.name)
            rows.append(Row(*setting, together[kind], measured, predicted, losses))
    return rows


def show(rows: list[Row]) -> None:
    print("| model | batch | link | servers, workers | where | together | measured | predicted | ratio | faster |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        gains = " ".join(f"{seconds / row.together - 1:+.0%}" for seconds in (row.measured, row.predicted))
        times = " | ".join(f"{seconds * 1000:.0f} ms" for seconds in (row.together, row.measured, row.predicted))
        print(f"| {row.megabytes:.1f} MB | {row.batch} | {row.megabits} Mbit/s | {row.servers}, {row.workers} | "
              f"{row.where} | {times} | {row.ratio:.2f} | {gains} |")  # fmt: skip
    print("\n| servers, workers | where | predicted / measured: median | min to max |\n|---|---|---|---|")
    for where in CROSSING:
        kind = (len(where.servers), len(where.workers))
        found = sorted(row.ratio for row in rows if (row.servers, row.workers, row.where) == (*kind, where.name))
        middle = f"{statistics.median(found):.2f} | {found[0]:.2f} to {found[-1]:.2f}"
        print(f"| {kind[0]}, {kind[1]} | {where.name} | {middle} |")
    off = sorted(abs(row.ratio - 1) for row in rows)
    falls = sum(row.losses[1] < row.losses[0] for row in rows)
    print(f"\nerror: median {statistics.median(off):.1%}, mean {statistics.mean(off):.1%}, largest {off[-1]:.1%}; "
          f"the loss fell in {falls} of {len(rows)}")  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="one size and one bandwidth")
    options.add_argument("--json", action="store_true")
    asked = options.parse_args()
    if os.geteuid() != 0:
        refuse("network namespaces need root: run it with sudo")
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    if missing:
        refuse(f"{' and '.join(missing)} is not installed: run `headway lab deps` (Debian's iproute2)")
    signal.signal(signal.SIGTERM, _interrupt)
    sizes, rates, steps = (SIZES[1:2], (500,), 8) if asked.quick else (SIZES, (200, 500, 1000), 14)
    try:
        with two_nodes() as names:
            rows = measure(names, sizes, rates, steps)
    except KeyboardInterrupt:
        print("interrupted; namespaces and processes are gone", file=sys.stderr)
        raise SystemExit(130) from None
    if asked.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        show(rows)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
