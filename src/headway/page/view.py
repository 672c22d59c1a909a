"""What the page shows of a run, as one immutable value. The run makes it; the thread of the page only reads it."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A job has been in this state since then."""

    since: float
    state: str


class Curve(NamedTuple):
    """The loss of a job by step: a few hundred points at most."""

    job: str
    steps: tuple[int, ...]
    losses: tuple[float, ...]


class JobView(NamedTuple):
    """One job. Times are seconds since 1970."""

    name: str
    state: str
    is_over: bool = False
    user: str = ""
    since: float = 0.0
    deadline: float | None = None
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    left: float | None = None
    """Seconds of training that are left, as believed."""
    starts: str = ""
    """When it starts, as foreseen: `14:05-14:20`."""
    done: str = ""
    """When it is done, as foreseen, or when it ended."""
    where: str = ""
    gpus: str = ""
    """Which it has, and what it uses of them: `0: 35 %, 1.1 GiB`."""
    why: str = ""
    """Why it waits, or how it ended."""
    spans: tuple[Span, ...] = ()


class Amount(NamedTuple):
    """How much of a resource of a node is given out, of how much."""

    kind: str
    held: int
    capacity: int


class NodeView(NamedTuple):
    name: str
    amounts: tuple[Amount, ...]


class RunView(NamedTuple):
    title: str
    policy: str
    at: float
    jobs: tuple[JobView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    curves: tuple[Curve, ...] = ()
