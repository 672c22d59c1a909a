"""Runs on all cores. Each process is given the scenario once, and tells how far it is through shared memory."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import Any

from headway.cli.progress import Bars
from headway.compare.scenario import Scenario, Task, perform
from headway.core.errors import UserError
from headway.record.outcome import Outcome

_here: dict[str, Any] = {}
"""A worker's own: the scenario and the shared shares."""


def perform_all(scenario: Scenario, tasks: Sequence[Task], processes: int, *, quiet: bool = False) -> list[Outcome]:
    """In the order of the tasks. One process means this one."""
    names = [f"{task.policy}, seed {task.seed}" if task.seed else task.policy for task in tasks]
    with Bars(names, quiet=quiet) as bars:
        if min(processes, len(tasks)) == 1:
            return [_one(scenario, task, number, bars) for number, task in enumerate(tasks)]
        return _several(scenario, tasks, min(processes, len(tasks)), bars)


def _one(scenario: Scenario, task: Task, number: int, bars: Bars) -> Outcome:
    found = perform(scenario, task, lambda share: bars.set(number, share))
    bars.done(number)
    return found


def _several(scenario: Scenario, tasks: Sequence[Task], processes: int, bars: Bars) -> list[Outcome]:
    context = multiprocessing.get_context("spawn")
    shares = context.Array("d", len(tasks), lock=False)
    given = (pickle.dumps(scenario), shares)
    with ProcessPoolExecutor(processes, context, _receive, given) as pool:
        futures = [pool.submit(_work, number, task) for number, task in enumerate(tasks)]
        try:
            _watch(futures, shares, bars)
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _watch(futures: list[Future[Outcome]], shares: Any, bars: Bars) -> None:
    running = set(futures)
    while running:
        done, running = wait(running, timeout=0.25)
        for number, future in enumerate(futures):
            if future in done:
                bars.done(number)
                future.result()
            elif shares[number] and future in running:
                bars.set(number, shares[number])


def _receive(pickled: bytes, shares: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    _here["scenario"], _here["shares"] = pickle.loads(pickled), shares  # noqa: S301  made by our own parent


def _work(number: int, task: Task) -> Outcome:
    def tell(share: float) -> None:
        _here["shares"][number] = max(share, 1e-6)

    try:
        return perform(_here["scenario"], task, tell)
    except UserError as error:
        raise UserError(str(error)) from None  # subclasses may not survive the way between processes
