"""Reads the environment variables that Headway sets for a replica. An invalid value counts as unset.

It knows neither sockets nor training: it only turns strings into values.
"""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

SERVER_NAME = "headway-progress"  # in Headway's certificate, wherever it runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which replica of which job this process is. All empty if Headway did not start it."""

    job: str = ""
    role: str = ""
    index: int = 0
    attempt: int = 0  # number of earlier starts of the job, to tell the logs of two starts apart


def identity() -> Identity:
    return Identity(
        job=os.environ.get("HEADWAY_JOB", ""),
        role=os.environ.get("HEADWAY_ROLE", ""),
        index=_whole("HEADWAY_INDEX") or 0,
        attempt=_whole("HEADWAY_ATTEMPT") or 0,
    )


def local_rank() -> int:
    """Which process of the replica this is; torchrun starts several and sets this."""
    return _whole("LOCAL_RANK") or 0


def checkpoint_dir() -> Path | None:
    """The folder for checkpoints, which the next start of this job finds on any node. None without Headway.

    It is made if it is not there. Where that is not possible, the script's own write says why.
    """
    directory = os.environ.get("HEADWAY_CHECKPOINT")
    if not directory:
        return None
    with contextlib.suppress(OSError):
        Path(directory).mkdir(parents=True, exist_ok=True)
    return Path(directory)


def port() -> int | None:
    """The port on which this replica may listen."""
    return _whole("HEADWAY_PORT")


def hosts() -> dict[str, list[str]]:
    """Role -> ["host:port", …] of the roles that were started before this one; on Kubernetes of all roles."""
    return {
        role: [str(address) for address in addresses]
        for role, addresses in _table("HEADWAY_HOSTS").items()
        if isinstance(addresses, list)
    }


def replicas() -> dict[str, int]:
    """Role -> number of replicas at the start of the job."""
    return {role: count for role, count in _table("HEADWAY_REPLICAS").items() if isinstance(count, int)}


def address() -> tuple[str, str, int] | None:
    """Where Headway listens: ("unix", path, 0), ("tcp", host, port) or ("tls", host, port); or None."""
    kind, _, rest = os.environ.get("HEADWAY_PROGRESS", "").partition(":")
    if kind == "unix" and rest:
        return "unix", rest, 0
    host, _, number = rest.rpartition(":")
    if kind in {"tcp", "tls"} and host and number.isdecimal() and int(number) < 65536:
        return kind, host.strip("[]"), int(number)
    return None


def authority() -> str:
    """The certificate authority of Headway, as PEM; for addresses with `tls`."""
    return os.environ.get("HEADWAY_PROGRESS_CA", "")


def token_file() -> str:
    """The file with the token that proves which pod this is."""
    return os.environ.get("HEADWAY_PROGRESS_TOKEN", "")


def _whole(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _table(name: str) -> dict[str, object]:
    try:
        table = json.loads(os.environ.get(name, "{}"))
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}
