"""Trains a linear model with parameter servers and workers: numpy and plain sockets, no import of Headway.

The cluster is in TF_CONFIG, as TensorFlow's ParameterServerStrategy has it. Each server holds its slice of the weights
and saves it by itself; workers pull all slices, compute a gradient and push its parts, asynchronously.

    {"cluster": {"ps": ["localhost:7000"], "worker": ["localhost:7001"]}, "task": {"type": "ps", "index": 0}}
"""

import argparse
import json
import os
import socket
import struct
import threading
import time
from pathlib import Path

import numpy as np

SIZE = 64  # weights in all

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=300, help="in all, over all workers")
parser.add_argument("--checkpoint", type=Path, required=True, help="a folder")
parser.add_argument("--save-every", type=int, default=20, help="steps")
parser.add_argument("--pause", type=float, default=0.0, help="seconds per step, for demonstrations")
options = parser.parse_args()

config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
servers, workers = config["cluster"]["ps"], config["cluster"]["worker"]
slices = np.array_split(np.arange(SIZE), len(servers))


def send(connection, array):
    body = np.asarray(array, dtype=np.float64).tobytes()
    connection.sendall(struct.pack("!I", len(body)) + body)


def receive(connection):
    (length,) = struct.unpack("!I", exactly(connection, 4))
    return np.frombuffer(exactly(connection, length))


def exactly(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError("the other end is gone")
        data += more
    return data


def serve():
    """Holds a slice. A message is a gradient; the answer is the step, then the weights. An empty one only asks."""
    options.checkpoint.mkdir(parents=True, exist_ok=True)
    file = options.checkpoint / f"slice-{index}-of-{len(servers)}.npz"
    saved = np.load(file) if file.exists() else {"step": 0, "weights": np.zeros(len(slices[index]))}
    state = {"step": int(saved["step"]), "weights": np.array(saved["weights"])}
    lock = threading.Lock()
    print(f"ps {index} of {len(servers)}, {len(workers)} workers: from step {state['step']}", flush=True)

    def save():
        part = file.with_suffix(".part.npz")
        np.savez(part, **state)
        part.replace(file)

    def attend(connection):
        with connection:
            while True:
                try:
                    gradient = receive(connection)
                except ConnectionError:
                    return
                with lock:
                    if gradient.size and state["step"] < options.steps:
                        state["weights"] -= 0.05 * gradient
                        state["step"] += 1
                        if state["step"] % options.save_every == 0 or state["step"] == options.steps:
                            save()
                    answer = np.concatenate([[state["step"]], state["weights"]])
                send(connection, answer)

    with socket.create_server(("", int(servers[index].rpartition(":")[2]))) as listener:
        while True:  # a server is ended when the workers are done
            threading.Thread(target=attend, args=(listener.accept()[0],), daemon=True).start()


def connect(address):
    """A server may still be on its way up."""
    host, _, port = address.rpartition(":")
    give_up = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((host, int(port)), 5)
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def work():
    chance, truth = np.random.default_rng(index), np.random.default_rng(7).normal(size=SIZE)
    connections = [connect(address) for address in servers]
    first = None
    parts = [np.empty(0)] * len(servers)
    while True:
        for connection, part in zip(connections, parts, strict=True):
            send(connection, part)
        answers = [receive(connection) for connection in connections]
        step, weights = int(min(answer[0] for answer in answers)), np.concatenate([answer[1:] for answer in answers])
        loss = float(np.mean((weights - truth) ** 2))
        if first is None:
            first = step
            print(f"worker {index} of {len(workers)}: from step {step}", flush=True)
        if step >= options.steps:
            print(f"worker {index}: done at step {step}, loss {loss:.4f}", flush=True)
            return
        batch = chance.normal(size=(32, SIZE))
        gradient = batch.T @ (batch @ (weights - truth)) / 32
        parts = [gradient[part] for part in slices]
        time.sleep(options.pause)


if kind == "ps":
    serve()
else:
    work()
