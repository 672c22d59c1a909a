"""Trains a small network on several replicas, in step: the training of `power_off.py`. Numpy and plain sockets.

Every replica computes a gradient on its part of the batch; replica 0 sums them and sends the new weights to all. It
reports progress and saves every so many steps, and on request. A replica whose peer is gone ends with exit code 1.
"""

import argparse
import json
import os
import socket
import struct
import time

import numpy as np
from numpy.typing import NDArray

from headway import progress

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5000)
parser.add_argument("--save-every", type=int, default=50)
parser.add_argument("--pause", type=float, default=0.05, help="seconds per step")
options = parser.parse_args()

INPUTS, HIDDEN, BATCH, PORT = 16, 32, 64, 2222
me = progress.identity()
count = sum(progress.replicas().values())
folder = progress.checkpoint_dir()
file = folder / "model.npz"
teacher = np.random.default_rng(7).normal(size=(INPUTS, 1))


def send(connection: socket.socket, array: NDArray[np.float64]) -> None:
    body = np.asarray(array, dtype=np.float64).tobytes()
    connection.sendall(struct.pack("!I", len(body)) + body)


def receive(connection: socket.socket) -> NDArray[np.float64]:
    (length,) = struct.unpack("!I", exactly(connection, 4))
    return np.frombuffer(exactly(connection, length))


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise SystemExit(1)
        data += more
    return data


def peers() -> list[socket.socket]:
    """Replica 0 has a connection to each other one; each other one has one to replica 0."""
    if me.index == 0:
        listener = socket.create_server(("", PORT))
        return [listener.accept()[0] for _ in range(count - 1)]
    host = os.environ["MASTER_ADDR"]
    for _ in range(300):
        try:
            return [socket.create_connection((host, PORT), 5)]
        except OSError:
            time.sleep(0.2)
    raise SystemExit("replica 0 did not come up")


def gradient(weights: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Of a network with one hidden layer, on this replica's part of the batch; and its loss."""
    chance = np.random.default_rng(step * 100 + me.index)
    inputs = chance.normal(size=(BATCH, INPUTS))
    first, second = weights[: INPUTS * HIDDEN].reshape(INPUTS, HIDDEN), weights[INPUTS * HIDDEN :].reshape(HIDDEN, 1)
    hidden = np.tanh(inputs @ first)
    error = hidden @ second - np.tanh(inputs @ teacher)
    back = 2 * error / BATCH
    inner = inputs.T @ ((back @ second.T) * (1 - hidden**2))
    return np.concatenate([inner.ravel(), (hidden.T @ back).ravel(), [float(np.mean(error**2))]])


def save(step: int, weights: NDArray[np.float64]) -> None:
    part = file.with_suffix(".part.npz")
    np.savez(part, step=step, weights=weights)
    part.replace(file)


saved = np.load(file) if file.exists() else None
weights = np.random.default_rng(1).normal(size=INPUTS * HIDDEN + HIDDEN) * 0.2 if saved is None else saved["weights"]
step = 0 if saved is None else int(saved["step"])
connections = peers()
for connection in connections:
    connection.settimeout(None)
if me.index == 0:
    with (folder / "starts").open("a") as starts:
        starts.write(json.dumps({"attempt": me.attempt, "step": step, "at": time.time()}) + "\n")
with progress.track(total_steps=options.steps, save=(lambda _: save(step, weights)) if me.index == 0 else None) as p:
    while step < options.steps:
        mine = gradient(weights, step)
        if me.index == 0:
            total = mine + sum(receive(connection) for connection in connections)
            weights = weights - 0.05 * total[:-1] / count
            for connection in connections:
                send(connection, weights)
            step += 1
            (folder / "step").write_text(str(step))
            p.report(step, loss=total[-1] / count)
            if step % options.save_every == 0:
                save(step, weights)
        else:
            send(connections[0], mine)
            weights, step = receive(connections[0]), step + 1
        time.sleep(options.pause)
