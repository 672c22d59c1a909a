"""Where many runs are made: processes of this machine, or any `concurrent.futures` executor by its dotted name."""

from __future__ import annotations

import importlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from headway.compare.perform import end_with_parent
from headway.core.errors import UserError
from headway.cycle.sound import told


def make_executor(name: str, workers: int) -> Executor:
    """Processes on this machine, or what a dotted name makes, such as dask.distributed:Client's get_executor."""
    if not name:
        return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), begin_worker)
    module, _, attribute = name.replace(":", ".").rpartition(".")
    try:
        make = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"--executor {name}: {error}; give a dotted name such as concurrent.futures.ThreadPoolExecutor"
        ) from error
    except Exception as error:  # the module is anyone's
        raise UserError(f"--executor {name}: {told(error)}") from error
    made = _made(name, make, workers)
    if not hasattr(made, "submit"):
        raise UserError(f"--executor {name}: it makes a {type(made).__name__}, which has no submit()")
    executor: Executor = made
    return executor


def _made(name: str, make: Callable[..., Any], workers: int) -> Any:
    """With this many workers, if the maker wants to know. What goes wrong in it is told in a sentence."""
    try:
        try:
            return make(max_workers=workers)
        except TypeError:
            return make()
    except Exception as error:
        raise UserError(f"--executor {name}: {told(error)}") from error


def begin_worker() -> None:
    """In a worker process: Ctrl-C is for the process that started it, and it ends when that one is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def running(executor: Executor) -> Iterator[Executor]:
    """Ends the executor. What is still to be run is dropped where something went wrong, such as a Ctrl-C."""
    try:
        yield executor
    except BaseException:
        end_at_once(executor)
        raise
    executor.shutdown()


def end_at_once(executor: Executor) -> None:
    """Does not wait for what is being run: the processes of this one are ended."""
    executor.shutdown(wait=False, cancel_futures=True)
    for worker in multiprocessing.active_children():
        worker.terminate()
