"""The interface for the training script: `track`, `report`, `poll`, `on_resize`.

It calls functions of the script only inside `report` and `poll`, in the training thread, so that they see whole steps.
It knows nothing of sockets.
"""

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from headway.progress import _environment
from headway.progress._link import Link
from headway.progress._mailbox import Mailbox, Report, line

LEAVING_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The new size of the job."""

    replicas: dict[str, int]  # role -> count
    cpu: float | None  # cores that this replica may use; None if unchanged


def track(
    total_steps: int | None = None,
    save: Callable[[int], None] | None = None,
    *,
    interval_seconds: float = 0.1,
) -> "Tracker":
    """Use as a context manager around the training loop.

    `save(step)` writes a checkpoint from which training can go on after `step`; `report` or `poll` calls it.
    At most one report per `interval_seconds` is sent, the newest one. The last one is always sent.
    """
    return Tracker(total_steps, save, interval_seconds)


class Tracker:
    """Made by `track`. Does nothing outside the with-block, in a forked child, or without Headway."""

    def __init__(self, total_steps: int | None, save: Callable[[int], None] | None, interval_seconds: float) -> None:
        self._total_steps = total_steps
        self._save = save
        self._interval_seconds = interval_seconds
        self._on_resize: list[Callable[[Size], None]] = []
        self._mailbox = Mailbox(can_save=save is not None)
        self._link: Link | None = None
        self._process = os.getpid()
        self._began = time.monotonic()
        self._step = 0
        self._first: int | None = None
        self._busy = threading.Lock()  # held while the script's functions run; they may report, but must not nest
        self._noted: set[str] = set()

    def __enter__(self) -> Self:
        self._process = os.getpid()
        self._began = time.monotonic()
        try:
            self._link = self._open()
        except Exception:  # noqa: BLE001  no error in here may stop the training
            self._note("start", "no progress will be reported")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link, self._link = self._link, None
        if link is None or os.getpid() != self._process:
            return
        try:
            link.close(line({"done": True, "step": self._step}) if kind is None else b"", LEAVING_SECONDS)
        except Exception:  # noqa: BLE001  as above
            self._note("leave", "the last report may be missing")

    def report(self, step: int, /, loss: object = None, **values: object) -> None:
        """Reports the step. Values are anything that `float()` accepts, and are read when they are sent."""
        link = self._link
        if link is None or os.getpid() != self._process:
            return
        try:
            self._step = int(step)
            if self._first is None:
                self._first = self._step
            at = time.monotonic() - self._began
            if self._mailbox.put_report(Report(self._step, loss, values, at, self._first)):
                link.wake()
            if self._mailbox.requested:
                self._answer(link)
        except Exception:  # noqa: BLE001  as above
            self._note("report", "a report was dropped")

    def poll(self, step: int | None = None) -> None:
        """Handles requests of Headway without a report. Give `step` if it is not the last one reported."""
        link = self._link
        if link is None or os.getpid() != self._process:
            return
        try:
            if step is not None:
                self._step = int(step)
            if self._mailbox.requested:
                self._answer(link)
        except Exception:  # noqa: BLE001  as above
            self._note("poll", "a request was dropped")

    def on_resize(self, callback: Callable[[Size], None]) -> None:
        """Registers a callback for the newest size, when the job grows, shrinks or gets another cpu limit."""
        self._on_resize.append(callback)
        self._mailbox.ask_again_for_size()

    def _open(self) -> Link | None:
        address = _environment.address()
        if address is None:
            if os.environ.get("HEADWAY_PROGRESS"):
                print("headway: HEADWAY_PROGRESS is none of unix:/path, tcp:host:port, tls:host:port", file=sys.stderr)
            return None
        total = None if self._total_steps is None else int(self._total_steps)
        hello: dict[str, object] = {"hello": 1, "total_steps": total, "can_save": self._save is not None}
        hello |= {"rank": _environment.local_rank(), "tracker": f"{os.getpid()}-{id(self):x}", "beats": True}
        proof = None
        if address[0] == "tls":  # the token says which replica this is
            from headway.progress._secure import PodProof  # only here: ssl takes a while to import

            proof = PodProof(_environment.authority(), _environment.token_file())
        else:
            me = _environment.identity()
            hello |= {"job": me.job, "role": me.role, "index": me.index, "attempt": me.attempt}
        link = Link(address, self._mailbox, hello, self._interval_seconds, proof)
        link.start()
        return link

    def _answer(self, link: Link) -> None:
        if not self._busy.acquire(blocking=False):
            return
        try:
            saves, size = self._mailbox.take_requests(resizes=bool(self._on_resize))
            if size is not None:
                self._tell_size(size)
            if saves:
                began = time.monotonic()
                why, seconds = self._try_to_save(), time.monotonic() - began
                for save in saves:
                    if why is None:
                        self._mailbox.answer_saved(save, self._step, seconds)
                    else:
                        self._mailbox.answer_failed(save, why)
            link.wake()
        finally:
            self._busy.release()

    def _try_to_save(self) -> str | None:
        """One save answers all requests. Returns the reason if it failed."""
        assert self._save is not None
        try:
            self._save(self._step)
        except Exception as error:  # noqa: BLE001  the fault of the script: it is reported, and the training goes on
            self._note("save", "the script's save function failed; training goes on")
            return f"{type(error).__name__}: {error}"
        return None

    def _tell_size(self, size: dict[str, object]) -> None:
        replicas, cpu = size.get("replicas"), size.get("cpu")
        told = Size(
            replicas={role: count for role, count in replicas.items() if isinstance(count, int)}
            if isinstance(replicas, dict)
            else {},
            cpu=float(cpu) if isinstance(cpu, int | float) else None,
        )
        for callback in self._on_resize:
            try:
                callback(told)
            except Exception:  # noqa: BLE001  as for save
                self._note("resize", "the script's on_resize function failed; training goes on")

    def _note(self, what: str, sentence: str) -> None:
        """Prints a sentence and the current traceback, once for each kind of error."""
        if what in self._noted:
            return
        self._noted.add(what)
        with contextlib.suppress(Exception):
            print(f"headway: {sentence}\n{traceback.format_exc()}", file=sys.stderr, end="")
