"""The worker's side: one connection to each parameter server, and the newest parameters of all of them.

It knows nothing of models or progress.
"""

import socket
import time

import frames

LOST_PATIENCE_SECONDS = 4.0  # a lost server comes back soon or not at all
PAUSE_SECONDS = 0.25
ANSWER_SECONDS = 60.0


class ServersGoneError(Exception):
    """A parameter server did not answer in time."""


class Servers:
    def __init__(self, addresses: list[str], first_patience_seconds: float) -> None:
        self.params: frames.Arrays = {}
        self._servers = [Server(address, first_patience_seconds) for address in addresses]

    @property
    def finished(self) -> bool:
        return all(server.finished for server in self._servers)

    def pull(self) -> None:
        for server in self._servers:
            self.params |= server.ask({}, {})

    def push(self, gradients: frames.Arrays, loss: float) -> None:
        """Sends each server the gradients of its part; each answers with its new parameters."""
        for server in self._servers:
            if not server.finished:
                part = {name: gradients[name] for name in server.names}
                self.params |= server.ask({"push": True, "loss": loss}, part)

    def close(self) -> None:
        for server in self._servers:
            server.close()


class Server:
    def __init__(self, address: str, first_patience_seconds: float) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._patience_seconds = first_patience_seconds
        self._connection: socket.socket | None = None
        self.names: list[str] = []
        self.finished = False

    def ask(self, header: dict[str, object], arrays: frames.Arrays) -> frames.Arrays:
        """Repeats the request until there is an answer or the time is over. A gradient may then count twice."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                answer, params = self._ask_once(header, arrays)
                break
            except (OSError, EOFError, frames.BrokenFrameError) as error:
                self.close()
                if time.monotonic() > deadline:
                    message = f"{self._host}:{self._port} does not answer ({error or 'connection closed'})"
                    raise ServersGoneError(message) from error
                time.sleep(PAUSE_SECONDS)
        self._patience_seconds = LOST_PATIENCE_SECONDS
        self.names = list(params)
        self.finished = bool(answer.get("finished"))
        return params

    def _ask_once(self, header: dict[str, object], arrays: frames.Arrays) -> tuple[dict[str, object], frames.Arrays]:
        if self._connection is None:
            self._connection = socket.create_connection((self._host, self._port), timeout=ANSWER_SECONDS)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frames.send(self._connection, header, arrays)
        return frames.receive(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
