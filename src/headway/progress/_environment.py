"""Reads what Headway tells a replica through its environment. Nonsense in a variable reads as unset.

Must not know sockets or training: it only turns strings into values.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which replica of which job this process is; all empty when Headway did not start it."""

    job: str = ""
    role: str = ""
    index: int = 0
    attempt: int = 0  # how often the job was started before, so that logs of two starts can be told apart


def identity() -> Identity:
    return Identity(
        job=os.environ.get("HEADWAY_JOB", ""),
        role=os.environ.get("HEADWAY_ROLE", ""),
        index=_whole("HEADWAY_INDEX") or 0,
        attempt=_whole("HEADWAY_ATTEMPT") or 0,
    )


def checkpoint_dir() -> Path | None:
    """Where to save so that the next start of this job finds it, wherever that is; None when on its own."""
    directory = os.environ.get("HEADWAY_CHECKPOINT")
    return Path(directory) if directory else None


def port() -> int | None:
    """The port on which this replica may listen."""
    return _whole("HEADWAY_PORT")


def hosts() -> dict[str, list[str]]:
    """Role -> ["host:port", …] of the roles that were started before this one."""
    return {
        role: [str(address) for address in addresses]
        for role, addresses in _table("HEADWAY_HOSTS").items()
        if isinstance(addresses, list)
    }


def replicas() -> dict[str, int]:
    """Role -> how many replicas of it the job was started with."""
    return {role: count for role, count in _table("HEADWAY_REPLICAS").items() if isinstance(count, int)}


def address() -> tuple[str, str, int] | None:
    """Where Headway listens: ("unix", path, 0) or ("tcp", host, port); None when nobody does."""
    kind, _, rest = os.environ.get("HEADWAY_PROGRESS", "").partition(":")
    if kind == "unix" and rest:
        return "unix", rest, 0
    host, _, number = rest.rpartition(":")
    if kind == "tcp" and host and number.isdecimal() and int(number) < 65536:
        return "tcp", host.strip("[]"), int(number)
    return None


def _whole(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _table(name: str) -> dict[str, object]:
    try:
        table = json.loads(os.environ.get(name, "{}"))
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}
