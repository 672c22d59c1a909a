"""Messages between replicas: a JSON header and named numpy arrays, each with its length before it. No pickle.

It knows nothing of training.
"""

import json
import socket
import struct
from collections.abc import Mapping

import numpy as np

MOST_BYTES = 1 << 30

Arrays = dict[str, np.ndarray]


class BrokenFrameError(Exception):
    """The other side does not speak this protocol."""


def send(connection: socket.socket, header: Mapping[str, object], arrays: Mapping[str, np.ndarray]) -> None:
    ready = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    shapes = {name: [array.dtype.str, *array.shape] for name, array in ready.items()}
    text = json.dumps({"header": header, "arrays": shapes}).encode()
    body = b"".join(array.tobytes() for array in ready.values())
    connection.sendall(struct.pack("!IQ", len(text), len(body)) + text + body)


def receive(connection: socket.socket) -> tuple[dict[str, object], Arrays]:
    """Returns the next message. Raises EOFError if the other side has left."""
    text_bytes, body_bytes = struct.unpack("!IQ", _exactly(connection, 12))
    if text_bytes + body_bytes > MOST_BYTES:
        raise BrokenFrameError
    try:
        message = json.loads(_exactly(connection, text_bytes))
        return message["header"], _arrays(_exactly(connection, body_bytes), message["arrays"])
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFrameError from error


def _arrays(body: bytearray, shapes: dict[str, list[object]]) -> Arrays:
    arrays, at = {}, 0
    for name, (kind, *shape) in shapes.items():
        dtype = np.dtype(str(kind))
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return arrays


def _exactly(connection: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        more = connection.recv_into(view[got:])
        if more == 0:
            raise EOFError
        got += more
    return data
