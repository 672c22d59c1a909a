"""Options of the commands that talk to a Kubernetes cluster."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.kube.api.access import Access

Kubeconfig = Annotated[
    Path | None, typer.Option(help="Read this kubeconfig. Default: KUBECONFIG, the pod's, ~/.kube/config.")
]
Context = Annotated[str, typer.Option(help="Use this context of the kubeconfig. Default: the current one.")]


def need_extra() -> None:
    """Raises a UserError if the extra `kube` is not installed."""
    for package in ("aiohttp", "uvloop"):
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed: pip install 'headway[kube]'")


def access_for(kubeconfig: Path | None, context: str) -> Access:
    from headway.kube.api.access import load_access

    return load_access(kubeconfig, context)
