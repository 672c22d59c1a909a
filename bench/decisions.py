"""How many replicas per second does a policy decide about, alone on one core?

    python bench/decisions.py [--nodes 5000] [--policy first-fit] [--rounds 5]
    python bench/decisions.py --sizes --policy headway --jobs 1000 --nodes 125

The cluster: nodes of 8 GPUs, 64 cores and 512 GiB in 50 racks; a tenth has a label, a tenth a taint, a third
another accelerator; 85 % of its GPUs are held. The queue: 30 % single replicas, 40 % gangs of 2 to 64, 20 % parameter
servers with workers; every tenth of these has a selector and every tenth a toleration. 10 % of all jobs do not fit, and
the reason of each is computed too. One round is: policy, check of the plan, reasons. The count is of started replicas.
Seconds are processor time of this process; the best round counts, because other work may use the machine.

`--sizes`: milliseconds per cycle where all jobs may have any size and come at once, sized by progress (`sizes.py`).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from itertools import pairwise

from sizes import cycles

from headway.core.board import Board
from headway.core.check import check
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Start
from headway.core.reason import Reasons
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.estimates.plain_books import DeclaredBook
from headway.policies.registry import POLICIES

EACH = (("cpu", 4000), ("gpu", 1), ("memory", 16384))


def cluster(count: int) -> Nodes:
    def node(number: int) -> Node:
        return Node(
            name=f"n{number}", capacity=(("cpu", 64000), ("gpu", 8), ("memory", 524288)),
            labels=(("disk", "ssd"),) if number % 10 == 3 else (),
            taints=("reserved",) if number % 10 == 7 else (),
            domain=f"rack{number * 50 // count}", accelerator="a100" if number % 3 else "v100",
        )  # fmt: skip

    return Nodes.of(node(number) for number in range(count))


def loaded(nodes: Nodes, dice: random.Random) -> Board:
    """85 % of all GPUs held, by jobs of one node or a part of one, so that what is free is in pieces."""
    board = Board(nodes)
    for number in range(len(nodes)):
        free = 8
        target = dice.choice([0, 0, 0, 1, 1, 2, 3]) if number % 20 else 5
        while free > target:
            width = min(free - target, dice.choice([1, 1, 2, 4, 8]))
            job = _job(f"up{number}.{free}", [_role("worker", width)])
            row = board.add(job, 0.0)
            board.restore(row, State.RUNNING, Placement(((number,) * width,)), None)
            free -= width
    return board


def queue(count: int, dice: random.Random) -> list[Job]:
    jobs = []
    for number in range(count):
        kind = dice.random()
        demands = {"selector": (("disk", "ssd"),)} if dice.random() < 0.1 else {}
        demands |= {"tolerates": ("reserved",)} if dice.random() < 0.1 else {}
        if kind < 0.3:
            roles = [_role("worker", 1, **demands)]
        elif kind < 0.7:
            roles = [_role("worker", dice.choice([2, 4, 8, 16, 32, 64]), **demands)]
        elif kind < 0.9:
            server = Role(name="ps", replicas=2, min=2, max=2, request=(("cpu", 2000), ("memory", 4096)))
            roles = [server, _role("worker", dice.choice([2, 4, 8, 16]), near=("ps",), **demands)]
        else:
            roles = [_unfit(dice)]
        jobs.append(_job(f"q{number}", roles))
    return jobs


def _unfit(dice: random.Random) -> Role:
    return dice.choice([
        _role("worker", 20000), _role("worker", 4, selector=(("disk", "tape"),)),
        _role("worker", 1, accelerator="h100"),
        Role(name="worker", replicas=2, min=2, max=2, request=(("cpu", 4000), ("gpu", 16))),
    ])  # fmt: skip


def _role(name: str, replicas: int, **more: object) -> Role:
    return Role(name=name, replicas=replicas, min=replicas, max=replicas, request=EACH, **more)  # type: ignore[arg-type]


def _job(name: str, roles: list[Role]) -> Job:
    return Job(id=JobId(name), roles=tuple(roles), seconds=float(1 + hash_of(name) % 5000))


def hash_of(name: str) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(name))


def one_round(policy: str, snapshot: Snapshot) -> tuple[float, int, int, list[float]]:
    """Seconds, replicas started, replicas explained, and the seconds of the three parts."""
    jobs, marks = snapshot.jobs, [time.process_time()]
    plan = POLICIES[policy]()(snapshot)
    marks.append(time.process_time())
    assert check(snapshot, plan) == ()
    marks.append(time.process_time())
    starts = [decision for decision in plan.decisions if isinstance(decision, Start)]
    started = {decision.job for decision in starts}
    reasons = Reasons(snapshot, plan)
    explained = 0
    for row in jobs.waiting().tolist():
        job = jobs.job(row)
        if job.id not in started:
            assert reasons.of(job.id).sentence
            explained += job.replicas if job.replicas < 20000 else 1
    marks.append(time.process_time())
    parts = [after - before for before, after in pairwise(marks)]
    return marks[-1] - marks[0], sum(start.placement.width() for start in starts), explained, parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--policy", default="first-fit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", action="store_true", help="jobs of any size, all at once")
    parser.add_argument("--seconds", type=float, default=60.0, help="with --sizes: stop after this much processor time")
    asked = parser.parse_args()
    if asked.sizes:
        print(json.dumps(cycles(asked.policy, asked.jobs, 8 * asked.nodes, asked.seconds)))
        return
    dice = random.Random(1)
    board = loaded(cluster(asked.nodes), dice)
    held = 1 - board.snapshot(0.0).free[board.nodes.kinds.index("gpu")].sum() / (8 * asked.nodes)
    for job in queue(asked.jobs, dice):
        board.add(job, 0.0)
    best = (float("inf"), 0, 0, [0.0])
    for _ in range(asked.rounds):
        best = min(best, one_round(asked.policy, DeclaredBook().annotate(board.snapshot(0.0))))
    seconds, placed, explained, parts = best
    print(f"{asked.policy}: {asked.nodes} nodes at {held:.0%}, {asked.jobs} jobs wait: {placed} replicas started and"
          f" {explained} explained in {seconds * 1000:.1f} ms"
          f" (policy {parts[0] * 1000:.1f}, check {parts[1] * 1000:.1f}, reasons {parts[2] * 1000:.1f})")  # fmt: skip
    print(f"{placed / seconds:,.0f} replicas started per second, their checks and the others' reasons included")


if __name__ == "__main__":
    main()
