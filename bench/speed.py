"""How fast is virtual time? Microseconds per event, by decile of the run, with the log written and metrics kept.

    python bench/speed.py philly_jobs.csv.gz --gpus 2496 --policy first-fit
    python bench/speed.py philly_jobs.csv.gz --all
    python bench/speed.py philly_jobs.csv.gz --gpus 2496 --first 10000
    python bench/speed.py philly_all_5000.csv --gpus 240 --policy fifo --peer 17.6
    python bench/speed.py --sizes pollux/workloads/workload-1.csv --policy headway
    python bench/speed.py --sizes pollux/workloads/workload-?.csv --policy headway --nodes 96

An event is an arrival, a start, a stop or an end of a job. Times are processor time of this process. Other work on the
same cores still makes them longer, so every line also has the time of one turn of an empty loop (`loop_ns`, about 30 on
a quiet machine). `--peer` prints the ratio to the seconds of another simulator, best measured at the same time.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sizes import whole

from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.quantity import GPU
from headway.cycle.loop import Decided, run
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.sim.cluster import SimCluster, World

ALL = ((2496, 1.0), (400, 1.0), (256, 1.0), (2496, 8.0))
"""GPUs, and what submit times are divided by."""


def jobs_of(path: Path, faster: float = 1.0) -> list[Job]:
    """Philly's or Tiresias's columns; replicas of one GPU each."""
    roles: dict[int, tuple[Role, ...]] = {}
    jobs = []
    for line in _rows(path):
        gpus = int(line.get("num_gpus") or line["num_gpu"])
        if gpus not in roles:
            one = Role(name="worker", replicas=gpus, min=gpus, max=gpus, request=((GPU, 1),))
            roles[gpus] = (one,)
        submit = float(line.get("submit_s") or line["submit_time"]) / faster
        jobs.append(
            Job(id=JobId(line["job_id"]), roles=roles[gpus], submit=submit,
                seconds=float(line.get("duration_s") or line["duration"]), user=line.get("vc", ""))
        )  # fmt: skip
    return jobs


def _rows(path: Path) -> Iterator[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def nodes_of(gpus: int, each: int = 8) -> Nodes:
    return Nodes.of(Node(name=f"n{number}", capacity=((GPU, each),)) for number in range(gpus // each))


def loop_ns(turns: int = 300_000) -> float:
    """The present speed of this machine: processor time of one turn of a plain loop."""
    begun, total = time.process_time(), 0
    for number in range(turns):
        total += number
    return 1e9 * (time.process_time() - begun) / turns


class Clock:
    """Processor seconds by tenth of the run, counted in events."""

    def __init__(self, events: int) -> None:
        self.events = 0
        self.cycles = 0
        self.marks = [time.process_time()]
        self._step = max(1, events // 10)

    def __call__(self, decided: Decided) -> None:
        self.cycles += 1
        self.events += len(decided.snapshot.changed)
        if self.events >= self._step * len(self.marks):
            self.marks.append(time.process_time())

    def deciles(self) -> list[float]:
        return [round(1e6 * (b - a) / self._step, 1) for a, b in zip(self.marks, self.marks[1:], strict=False)]


def measure(jobs: list[Job], nodes: Nodes, policy: str, estimates: str) -> dict[str, object]:
    from headway.cli.wiring import make_book, make_policy

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        sim = SimCluster(nodes, jobs, World(samples=False))
        tally = Tally()
        writer = LogWriter(log, Head("sim", policy, estimates), tally)
        clock = Clock(3 * len(jobs))
        loops = [loop_ns()]
        wall, cpu = time.perf_counter(), time.process_time()

        def observe(decided: Decided) -> None:
            writer.cycle(decided.snapshot, decided.plan, decided.refusals)
            clock(decided)

        run(sim, make_policy(policy), make_book(estimates, sim.truth), observe)
        writer.end(sim.now, sim.board.unfinished)
        seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
        size = log.stat().st_size
        loops.append(loop_ns())
    result = tally.result()
    return {
        "policy": policy, "jobs": len(jobs), "cycles": clock.cycles, "events": clock.events,
        "wall_s": round(seconds, 2), "cpu_s": round(cpu, 2), "us_per_event": round(1e6 * cpu / max(1, clock.events), 1),
        "events_per_s": round(clock.events / cpu), "loop_ns": round(sum(loops) / 2, 1),
        "us_by_decile": clock.deciles(),
        "log_mb": round(size / 1e6, 1), "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "jct": result["jct"]["mean"], "wait": result["wait"]["mean"], "makespan": result["makespan"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="+", help="one; several with --sizes: all at the same time")
    parser.add_argument("--gpus", type=int, default=2496)
    parser.add_argument("--faster", type=float, default=1.0, help="divide submit times by this")
    parser.add_argument("--policy", default="first-fit")
    parser.add_argument("--estimates", default="oracle")
    parser.add_argument("--first", type=int, help="use only this many jobs of the trace; several runs show the curve")
    parser.add_argument("--peer", type=float, help="seconds of another simulator on the same run")
    parser.add_argument("--all", action="store_true", help="the four Philly settings")
    parser.add_argument("--sizes", action="store_true", help="a workload of Pollux's or Sia's, sized by progress")
    parser.add_argument("--nodes", type=int, default=16, help="with --sizes: nodes of 4 GPUs")
    given = parser.parse_args()
    if given.sizes:
        print(json.dumps(whole(given.policy, given.trace, given.nodes)), flush=True)
        return
    for gpus, faster in ALL if given.all else ((given.gpus, given.faster),):
        jobs = jobs_of(given.trace[0], faster)[: given.first]
        found = measure(jobs, nodes_of(gpus), given.policy, given.estimates)
        if given.peer:
            found["times_faster_than_peer"] = round(given.peer / float(str(found["cpu_s"])), 1)
        print(json.dumps({"gpus": gpus, "faster": faster, **found}), flush=True)


if __name__ == "__main__":
    main()
