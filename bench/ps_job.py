"""A small but real parameter-server job, for `ps_network.py`: synchronous SGD of a two-layer network over TCP.

    python bench/ps_job.py ps      PORT  PART OF WORKERS STEPS HIDDEN
    python bench/ps_job.py worker  RANK  WORKERS STEPS HIDDEN BATCH  HOST:PORT…
    python bench/ps_job.py receive PORT  BYTES            and            send  HOST:PORT BYTES

Each server holds one part of the parameters. A step is: every worker pulls all parts, computes the gradient of its
share of the batch, and pushes each part back; a server steps when all workers have pushed. Worker 0 prints a line of
JSON with the seconds of each step and the losses. Data are points around hidden centres, so the loss can fall.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
INPUTS, CLASSES = 256, 10
RATE = 0.003
MOMENTUM = 0.9
PATIENCE_SECONDS = 20.0


def size(hidden: int) -> int:
    """Parameters of the model."""
    return INPUTS * hidden + hidden + hidden * CLASSES + CLASSES


def parts(hidden: int, of: int) -> list[slice]:
    bounds = np.linspace(0, size(hidden), of + 1).astype(int)
    return [slice(int(low), int(high)) for low, high in itertools.pairwise(bounds)]


def start(hidden: int) -> Floats:
    draw = np.random.default_rng(1)
    first = draw.normal(0, (2 / INPUTS) ** 0.5, INPUTS * hidden)
    second = draw.normal(0, (2 / hidden) ** 0.5, hidden * CLASSES)
    return np.concatenate([first, np.zeros(hidden), second, np.zeros(CLASSES)]).astype(np.float32)


def batch_of(step: int, rank: int, count: int) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Points around ten centres: the same centres always, other points every step."""
    centres = np.random.default_rng(7).normal(0, 0.15, (CLASSES, INPUTS))
    draw = np.random.default_rng((11, step, rank))
    labels = draw.integers(CLASSES, size=count)
    return (centres[labels] + draw.normal(0, 1, (count, INPUTS))).astype(np.float32), labels


def gradient(flat: Floats, hidden: int, x: Floats, labels: npt.NDArray[np.intp]) -> tuple[Floats, float]:
    """Of the mean cross entropy of a network with one hidden layer of rectifiers."""
    a, b, c = INPUTS * hidden, INPUTS * hidden + hidden, INPUTS * hidden + hidden + hidden * CLASSES
    first, second = flat[:a].reshape(INPUTS, hidden), flat[b:c].reshape(hidden, CLASSES)
    inner = np.maximum(x @ first + flat[a:b], 0)
    scores = inner @ second + flat[c:]
    scores -= scores.max(axis=1, keepdims=True)
    likely = np.exp(scores)
    likely /= likely.sum(axis=1, keepdims=True)
    loss = float(-np.log(likely[np.arange(len(x)), labels] + 1e-12).mean())
    likely[np.arange(len(x)), labels] -= 1
    likely /= len(x)
    back = (likely @ second.T) * (inner > 0)
    found = np.empty_like(flat)
    found[:a], found[a:b] = (x.T @ back).ravel(), back.sum(axis=0)
    found[b:c], found[c:] = (inner.T @ likely).ravel(), likely.sum(axis=0)
    return found, loss


def read_into(connection: socket.socket, array: Floats) -> None:
    view = memoryview(array).cast("B")
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("the other side is gone")
        view = view[count:]


def connected(address: str) -> socket.socket:
    """Connects as soon as the other side listens."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            made = socket.create_connection((host, int(port)))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made  # noqa: TRY300
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def accept(port: int, count: int) -> list[socket.socket]:
    with socket.create_server(("", port), backlog=count) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        found = [listener.accept()[0] for _ in range(count)]
    for one in found:
        one.settimeout(None)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def serve(port: int, part: slice, workers: int, steps: int, hidden: int) -> None:
    held = start(hidden)[part]
    speed, pushed = np.zeros_like(held), [np.empty_like(held) for _ in range(workers)]

    def update() -> None:
        nonlocal speed
        speed = MOMENTUM * speed + sum(pushed) / np.float32(workers)
        np.subtract(held, np.float32(RATE) * speed, out=held)

    barrier = threading.Barrier(workers, action=update)

    def one(connection: socket.socket, buffer: Floats) -> None:
        for _ in range(steps):
            connection.sendall(memoryview(held).cast("B"))
            read_into(connection, buffer)
            barrier.wait()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, accept(port, workers), pushed))


def work(rank: int, steps: int, hidden: int, batch: int, servers: list[str]) -> None:
    flat, own = start(hidden), parts(hidden, len(servers))
    connections = [connected(address) for address in servers]
    times, losses = [time.monotonic()], []
    with ThreadPoolExecutor(len(servers)) as pool:
        for step in range(steps):
            list(pool.map(lambda c, s: read_into(c, flat[s]), connections, own))
            found, loss = gradient(flat, hidden, *batch_of(step, rank, batch))
            list(pool.map(lambda c, s, g=found: c.sendall(memoryview(g[s]).cast("B")), connections, own))  # type: ignore[misc]
            times.append(time.monotonic())
            losses.append(loss)
    for connection in connections:
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # the server has everything
    if rank == 0:
        print(json.dumps({"seconds": np.diff(times).tolist(), "losses": losses}), flush=True)


def receive(port: int, count: int) -> None:
    (connection,) = accept(port, 1)
    buffer = np.empty(1 << 16, np.float32)
    began, left = time.monotonic(), count
    while left > 0 and (got := connection.recv_into(memoryview(buffer).cast("B"))):
        left -= got
    print(json.dumps({"bytes_per_second": (count - left) / (time.monotonic() - began)}), flush=True)


def main(role: str, *given: str) -> None:
    match role:
        case "ps":
            port, part, of, workers, steps, hidden = map(int, given)
            serve(port, parts(hidden, of)[part], workers, steps, hidden)
        case "worker":
            rank, steps, hidden, batch = map(int, given[:4])
            work(rank, steps, hidden, batch, list(given[4:]))
        case "receive":
            receive(int(given[0]), int(given[1]))
        case "send":
            with connected(given[0]) as connection:
                connection.sendall(bytes(int(given[1])))
        case _:
            sys.exit(f"{role!r} is no role of this job")


if __name__ == "__main__":
    main(*sys.argv[1:])
