"""The connection to Headway, in a daemon thread: connects, says hello, sends from the mailbox, receives.

When the connection is lost it tries again for ever, with growing pauses up to a bound, and repeats hello, the last
report and the answers that it could not send. Headway sends heartbeats; when they cease, the connection is lost. It
does not know what a save or a size is, and never calls the training.
"""

import contextlib
import os
import random
import selectors
import socket
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

from headway.progress._mailbox import Lines, Mailbox, TooLongError, line

if TYPE_CHECKING:
    from headway.progress._secure import PodProof, SecureSocket

SHORTEST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
LONGEST_REFUSED_SECONDS = 15.0  # between two attempts, if Headway refuses this replica
REFUSALS_TOLD = 4  # in a row; a Headway that has just started does not know all its pods yet
STEADY_SECONDS = 1.0  # after a connection of at least this length the next pause is short again
CONNECT_SECONDS = 10.0
SILENT_PEER_SECONDS = 20  # data without confirmation for this long means that the connection is lost
SILENT_HEADWAY_SECONDS = 50.0  # so do heartbeats that cease for this long, where they do not say how often they come
MISSED_BEATS = 2.5
_BEAT = b'{"beat":1}\n'


class NotTrustedError(Exception):
    """The other end is not Headway, or this end cannot prove who it is. The message is a sentence for the user."""


class Link:
    """One per `track`. The training thread calls `wake` and `close`; the rest runs in the thread of the link."""

    def __init__(
        self,
        address: tuple[str, str, int],
        mailbox: Mailbox,
        hello: dict[str, object],
        interval_seconds: float,
        proof: "PodProof | None" = None,
    ) -> None:
        self._address = address
        self._mailbox = mailbox
        self._hello = hello
        self._proof = proof
        self._beats = b""
        self._last_beat_at: float | None = None
        self._silent_seconds = SILENT_HEADWAY_SECONDS
        self._refused = False
        self._refusals = 0
        self._told: set[str] = set()
        self._chance = random.Random()  # noqa: S311  not the script's own, which may be seeded
        self._interval_seconds = interval_seconds
        self._next_report_at = 0.0
        self._farewell: bytes | None = None
        self._give_up_at: float | None = None
        self._connection: socket.socket | SecureSocket | None = None
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="headway-progress", daemon=True)
        _links.add(self)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # a full socket wakes the thread as well; a closed one has no thread left
            self._wake_writer.send(b"!")

    def close(self, farewell: bytes, patience_seconds: float) -> None:
        """Sends what is left and the farewell, and waits for that for `patience_seconds` at most."""
        self._farewell = farewell
        self._give_up_at = time.monotonic() + patience_seconds
        self.wake()
        self._thread.join(patience_seconds)

    def forget_in_child(self) -> None:
        """Closes the copies in a forked child, which would keep the connection open after the parent has ended."""
        for end in (self._connection, self._wake_reader, self._wake_writer):
            if end is not None:
                end.close()

    def _run(self) -> None:
        pause = SHORTEST_PAUSE_SECONDS
        with self._wake_reader, self._wake_writer:
            while not self._given_up():
                began = time.monotonic()
                try:
                    with contextlib.suppress(OSError, UnicodeError, TooLongError):
                        with self._connect() as self._connection:
                            self._serve(self._connection)
                        return
                except NotTrustedError as error:
                    self._tell(str(error))
                if time.monotonic() - began > STEADY_SECONDS:
                    pause, self._refusals = SHORTEST_PAUSE_SECONDS, 0
                self._wait(pause * self._chance.uniform(0.5, 1.0))  # not all replicas at the same moment
                pause = min(2 * pause, LONGEST_REFUSED_SECONDS if self._refused else LONGEST_PAUSE_SECONDS)

    def _tell(self, sentence: str) -> None:
        """Each sentence once."""
        if sentence not in self._told and len(self._told) < 10:
            self._told.add(sentence)
            with contextlib.suppress(Exception):
                print(f"headway: {sentence}", file=sys.stderr)

    def _given_up(self) -> bool:
        return self._give_up_at is not None and time.monotonic() >= self._give_up_at

    def _connect(self) -> "socket.socket | SecureSocket":
        plain = self._plain()
        try:
            connection = plain if self._proof is None else self._proof.secure(plain)
            connection.setblocking(False)
        except (OSError, NotTrustedError):
            plain.close()
            raise
        return connection

    def _plain(self) -> socket.socket:
        kind, host, port = self._address
        if kind == "unix":
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(CONNECT_SECONDS)
                connection.connect(host)
            except OSError:
                connection.close()
                raise
        else:
            connection = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if sys.platform == "linux":
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_PEER_SECONDS * 1000)
        return connection

    def _serve(self, connection: "socket.socket | SecureSocket") -> None:
        """Returns when the farewell has been sent; raises OSError when the connection is lost."""
        self._mailbox.repeat()
        self._next_report_at, self._last_beat_at, self._beats, self._refused = 0.0, None, b"", False
        token = {} if self._proof is None else {"token": self._proof.token()}
        lines, out = Lines(), line({**self._hello, **token})
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            selector.register(connection, selectors.EVENT_READ)
            while not self._given_up():
                leaving = self._farewell is not None
                out = out or self._next_out()
                if leaving and not out:
                    _finish(connection, self._farewell or b"")
                    return
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if out else 0)
                selector.modify(connection, events)
                happened = selector.select(self._seconds_to_wait(out))
                if not happened and self._headway_is_silent():
                    raise ConnectionResetError
                for key, ready in happened:
                    if key.fileobj is self._wake_reader:
                        self._wake_reader.recv(4096)
                        continue
                    if ready & selectors.EVENT_READ:
                        self._read(connection, lines)
                    if ready & selectors.EVENT_WRITE:
                        with contextlib.suppress(BlockingIOError):
                            out = out[connection.send(out) :]

    def _next_out(self) -> bytes:
        """Answers at once; a report if the interval has passed, or if it is the last one."""
        out, self._beats = self._mailbox.take_answers() + self._beats, b""
        now = time.monotonic()
        if now >= self._next_report_at or self._farewell is not None:
            report = self._mailbox.take_report()
            if report is not None:
                self._next_report_at = now + self._interval_seconds
                out += report.line()
        return out

    def _seconds_to_wait(self, out: bytes) -> float | None:
        """Until a report may be sent, closing gives up or heartbeats are missed; None (for ever) if nothing is due."""
        now, moments = time.monotonic(), []
        if self._last_beat_at is not None:
            moments.append(self._last_beat_at + self._silent_seconds)
        if self._give_up_at is not None:
            moments.append(self._give_up_at)
        elif not out and self._mailbox.has_report():
            moments.append(self._next_report_at)
        return max(0.0, min(moments) - now) if moments else None

    def _headway_is_silent(self) -> bool:
        """Only of a Headway that has sent heartbeats: an older one does not."""
        return self._last_beat_at is not None and time.monotonic() - self._last_beat_at >= self._silent_seconds

    def _read(self, connection: "socket.socket | SecureSocket", lines: Lines) -> None:
        try:
            data = connection.recv(65536)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError
        if self._last_beat_at is not None:
            self._last_beat_at = time.monotonic()
        for message in lines.feed(data):
            if "beat" in message:
                self._last_beat_at, self._beats = time.monotonic(), _BEAT
                every = message.get("every")
                told = every if isinstance(every, int | float) and every > 0 else None
                self._silent_seconds = SILENT_HEADWAY_SECONDS if told is None else MISSED_BEATS * told
            elif "refused" in message:
                self._refused, self._refusals = True, self._refusals + 1
                if self._refusals >= REFUSALS_TOLD:
                    self._tell(f"Headway does not take the reports of this replica: {str(message['refused'])[:500]}")
            else:
                self._mailbox.take_message(message)

    def _wait(self, seconds: float) -> None:
        """A pause that `close` shortens and reports do not."""
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                if self._farewell is not None:
                    time.sleep(min(left, SHORTEST_PAUSE_SECONDS))
                    return
                if selector.select(left):
                    self._wake_reader.recv(4096)


def _finish(connection: "socket.socket | SecureSocket", farewell: bytes) -> None:
    """Reads what is left before closing: closing a TCP connection with unread bytes may destroy what was just sent."""
    connection.settimeout(1.0)
    connection.sendall(farewell)
    connection.shutdown(socket.SHUT_WR)
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while connection.recv(65536):
            pass


_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


def _forget_links() -> None:
    for link in list(_links):
        link.forget_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_links)
