"""What the Kubernetes scheduler itself would say of a binding: its own filters, without a cluster.

    with FilterCheck(nodes=nodes) as native:
        native.nodes_for(pod)
        native.refusal(pod, "node-1")
        native.bind(pod, "node-1")

The program `filter-check` beside the lab's go.mod runs the filters. Pods and nodes are plain Kubernetes objects.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from headway.lab.errors import LabError
from headway.lab.programs import find

Object = dict[str, Any]


class NativeQuantity(msgspec.Struct, frozen=True):
    """An amount as the API server reads it."""

    ok: bool
    milli: int
    value: int


class _Answer(msgspec.Struct):
    fits: bool = False
    nodes: list[str] = []
    why: str = ""
    quantities: list[NativeQuantity] = []
    error: str = ""


class FilterCheck:
    def __init__(self, **world: Sequence[Object]) -> None:
        """`world` has lists of objects: nodes, volumes, claims, classes, namespaces."""
        self._process = subprocess.Popen([find("filter-check")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ask({"start": world})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def nodes_for(self, pod: Object) -> list[str]:
        """The nodes that pass all filters for this pod."""
        return self._ask({"pod": pod}).nodes

    def refusal(self, pod: Object, node: str) -> str:
        """Why the scheduler would not bind the pod to this node; empty if it would."""
        answer = self._ask({"pod": pod, "node": node})
        return "" if answer.fits else answer.why or "there is no such node"

    def bind(self, pod: Object, node: str) -> None:
        self._ask({"bind": pod, "node": node})

    def remove(self, pod: Object, node: str) -> None:
        self._ask({"remove": pod, "node": node})

    def nominate(self, pod: Object, node: str) -> None:
        """Preemption has promised the pod room on this node."""
        self._ask({"nominate": pod, "node": node})

    def quantities(self, texts: Iterable[str]) -> list[NativeQuantity]:
        return self._ask({"quantities": list(texts)}).quantities

    def _ask(self, request: Object) -> _Answer:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: PT018  both are pipes
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
            answer = msgspec.json.decode(self._process.stdout.readline(), type=_Answer)
        except (OSError, msgspec.DecodeError) as error:
            raise LabError(f"filter-check ended with code {self._process.poll()}") from error
        if answer.error:
            raise LabError(f"filter-check: {answer.error}")
        return answer
