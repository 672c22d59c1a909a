"""What the commands that speak to a cluster share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.kube.api.access import Access

Kubeconfig = Annotated[
    Path | None, typer.Option(help="A kubeconfig; default: KUBECONFIG, a pod's own, ~/.kube/config.")
]
Context = Annotated[str, typer.Option(help="A context of the kubeconfig; default: its current one.")]


def need_extra() -> None:
    for package in ("aiohttp", "uvloop"):
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed: pip install 'headway[kube]'")


def access_for(kubeconfig: Path | None, context: str) -> Access:
    from headway.kube.api.access import load_access

    return load_access(kubeconfig, context)
