"""What `headway schedule` does instead of scheduling: it applies or prints its manifests, or lifts all gates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.kube.api.access import Access

Gate = tuple[str, str, str]
"""Labels of the namespaces and of the pods that get the gate, and Headway's own namespace."""


def set_up(access: Callable[[], Access], namespace: str, gate: Gate | None, what: str, *, kubelets: bool) -> None:
    """`what`: install, print or release. `gate`: None without --beside."""
    from headway.kube.api.beside import Gated, release
    from headway.kube.api.install import install, manifests

    if what == "release":
        if gate is None:
            raise UserError("--release: it lifts the gates of --beside; write --beside --release")
        done = release(access())
    elif what == "print":
        print(
            manifests(namespace, kubelets=kubelets)
            + (f"---\n{Gated(*gate[:2]).manifests(gate[2], 'v1')}" if gate else "")
        )
        return
    else:
        more = partial(Gated(*gate[:2]).manifests, gate[2]) if gate is not None else _nothing
        done = install(access(), namespace, kubelets=kubelets, more=more)
    for sentence in asyncio.run(done):
        print(sentence)
    if what == "install" and gate is not None:
        print(asyncio.run(Gated(*gate[:2]).obeyed(access())))


def _nothing(_version: str) -> str:
    return ""
