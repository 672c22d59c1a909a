"""Where the progress server listens: `unix:/path` or `tcp:host:port`."""

from __future__ import annotations

import contextlib
import resource
import socket
from pathlib import Path

from headway.core.errors import UserError

SPARE_DESCRIPTORS = 256
KEEP_ALIVE_SECONDS = 20
KEEP_ALIVE_PROBES = 4


class ListenError(UserError):
    """The server cannot listen at this address, or has ceased to."""


def listen(address: str) -> socket.socket:
    try:
        server = _bound(address)
        server.listen(512)
        server.setblocking(False)
    except (OSError, ValueError) as error:
        raise ListenError(f"cannot listen for progress at {address}: {error}") from error
    return server


def actual(address: str, server: socket.socket, *, secure: bool) -> str:
    if address.startswith("unix:"):
        return address
    host, port = server.getsockname()[:2]
    return f"{'tls' if secure else 'tcp'}:{host}:{port}"


def raise_descriptor_limit(wanted: int = 65_536) -> None:
    """Lets this process open more files, as far as the system allows; many systems begin with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_connections(wanted: int) -> int:
    """The limit in all. It leaves descriptors for the rest of this process, which starts replicas and writes files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(soft // 2, soft - SPARE_DESCRIPTORS))


def keep_alive(sock: socket.socket) -> None:
    """Has the kernel end a connection whose other machine is gone."""
    if sock.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("IDLE", KEEP_ALIVE_SECONDS), ("INTVL", KEEP_ALIVE_SECONDS), ("CNT", KEEP_ALIVE_PROBES)):
            option = getattr(socket, f"TCP_KEEP{name}", None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _bound(address: str) -> socket.socket:
    if not address.startswith("unix:"):
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        return socket.create_server((host, int(port)))
    path = address.removeprefix("unix:")
    Path(path).unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(path)
    except OSError:
        server.close()
        raise
    return server
