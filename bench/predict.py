"""The cost of the estimates: a thousand running jobs report once a second, and all beliefs are read each second.

    python bench/predict.py [JOBS] [SECONDS]

Prints the share of one core, in cpu time, for folding reports and for answering.
"""

from __future__ import annotations

import random
import sys
import time

from headway.core.board import Board
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.estimates.plain_books import LinearBook
from headway.estimates.progress import ProgressBook


def main(jobs: int, seconds: int) -> None:
    chance = random.Random(0)
    nodes = Nodes.of(Node(name=f"n{i}", capacity=(("gpu", 8),)) for i in range(-(-jobs // 4)))
    for name, empty in (("progress", ProgressBook()), ("linear", LinearBook())):
        book: ProgressBook | LinearBook = empty
        board = Board(nodes)
        for number in range(jobs):
            worker = Role(name="worker", replicas=2, min=1, max=4, request=(("gpu", 1),))
            row = board.add(Job(id=JobId(f"j{number}"), roles=(worker,), steps=10**6, model="m"), 0.0)
            board.restore(row, State.RUNNING, Placement(((number // 4, number // 4),)), None)
        folding = answering = 0.0
        for second in range(1, seconds + 1):
            for number in range(jobs):
                step = int(second * (5 + number % 7) * chance.gauss(1.0, 0.001))
                loss = 1.0 / (1 + 0.01 * step) + chance.gauss(0.0, 0.01)
                board.sampled(Sample(JobId(f"j{number}"), second + 0.001 * number / jobs, step, loss, 10**6))
            snapshot = board.snapshot(second + 0.01)
            began = time.process_time()
            book = book.fold(snapshot)
            folded = time.process_time()
            estimates = book.annotate(snapshot).estimates
            estimates.left(snapshot.now)
            for row in range(0, jobs, 10):
                estimates.speed(row, (3,))
            answering += time.process_time() - folded
            folding += folded - began
        print(f"{name}: {jobs} jobs for {seconds} s: folding {folding / seconds:.1%} of a core, "
              f"answering {answering / seconds:.1%}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 60)
