"""Options that several commands share: each is spelled and explained once."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.kube.api.access import Access

TraceFile = Annotated[Path, typer.Argument(help="A jobs file (YAML) or a published trace.", metavar="TRACE")]
PolicyName = Annotated[str, typer.Option("--policy", help="Choose a policy by name, or your own: mine.py:function.")]
AgentEnv = Annotated[
    str,
    typer.Option("--env", help="Take --policy mine.py:agent as an agent of headway/Order-v0 or headway/Size-v0."),
]
Set = Annotated[list[str], typer.Option("--set", help="Set a policy's setting, name=value. Repeatable.")]
Queues = Annotated[
    Path | None,
    typer.Option(help="Put the policy behind the queues of this YAML file: quotas, weights, who may claim what."),
]
Cluster = Annotated[
    str,
    typer.Option(help="Set the nodes: 32x4 (nodes x GPUs), 2x4cpu,16Gi,1gpu, or a file. Default: those of the input."),
]
Format = Annotated[str, typer.Option("--format", help="Name the trace's format, where it is not recognised.")]
From = Annotated[
    str, typer.Option("--from", help="Leave out jobs that the trace submits before this time: 22d, 90m or seconds.")
]
Head = Annotated[int, typer.Option("--head", help="Take so many jobs only, the first of the trace or from --from on.")]
Estimates = Annotated[
    str, typer.Option(help="Choose the source of remaining times: oracle, declared, progress, linear, none.")
]
BeliefsFile = Annotated[
    Path | None,
    typer.Option("--beliefs", help="Begin with what earlier jobs taught: a file made by `headway learn beliefs`."),
]
Seed = Annotated[
    int, typer.Option(help="Seed all that is random. Not 0: also shuffle jobs submitted at the same moment.")
]
Log = Annotated[Path | None, typer.Option(help="Write the run's log to this file. A name ending in .gz is compressed.")]
World = Annotated[
    Path | None,
    typer.Option(help="Read costs, speeds and faults from the `simulate` section of this YAML file."),
]
Report = Annotated[
    Path | None, typer.Option(help="Write a page with tables and charts to this file. It needs no network.")
]
ExecutorName = Annotated[
    str, typer.Option(help="Run on another concurrent.futures executor: the dotted name of its class or maker.")
]
SaveSeconds = Annotated[float, typer.Option(help="Give a job this long to save a checkpoint when asked.")]
Cgroups = Annotated[
    bool, typer.Option(help="Limit cpu and memory by cgroup where permitted. Otherwise: cpu by affinity.")
]
Share = Annotated[bool, typer.Option("--share", help="Take what other runs leave of this machine.")]
Gpus = Annotated[
    str | None,
    typer.Option(help="Give out these GPUs only: 0,1, or their ids; none: no GPU. Default: all that are found."),
]
Page = Annotated[bool, typer.Option("--page", help="Show it live in a browser, at an address of this machine only.")]
BusyGpus = Annotated[bool, typer.Option("--busy-gpus", help="Give out GPUs that processes of others use, too.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Processes = Annotated[int, typer.Option("--jobs", "-j", help="Use this many processes. 0 means one per core.", min=0)]

# ── of commands that talk to a Kubernetes cluster ─────────────────────────────────────────────────────────────

Kubeconfig = Annotated[
    Path | None, typer.Option(help="Read this kubeconfig. Default: KUBECONFIG, the pod's, ~/.kube/config.")
]
OnKube = Annotated[
    bool | None,
    typer.Option("--kube/--here", help="On the cluster of the current context, or on this machine."),
]
State = Annotated[Path | None, typer.Option(help="The state folder of a run. Default: the queue, else the run here.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="In this namespace. Default: the context's.")]
Context = Annotated[str, typer.Option(help="Use this context of the kubeconfig. Default: the current one.")]


def on_cluster(kube: bool | None, namespace: str, kubeconfig: Path | None, context: str) -> bool:
    """Whether a cluster is meant: by an option of one, or because KUBECONFIG is set; else this machine is."""
    if kube is not None:
        return kube
    return bool(namespace or kubeconfig is not None or context or os.environ.get("KUBECONFIG"))


def need_extra() -> None:
    """Raises a UserError if the extra `kube` is not installed."""
    for package in ("aiohttp", "uvloop", "cryptography"):
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed: pip install 'headway[kube]'")


def need_page(*, wanted: bool) -> None:
    """Raises a UserError if the page is wanted and its extra is not installed."""
    if wanted and importlib.util.find_spec("aiohttp") is None:
        raise UserError("--page: aiohttp is not installed: pip install 'headway[page]'")


def access_for(kubeconfig: Path | None, context: str) -> Access:
    from headway.kube.api.access import load_access

    return load_access(kubeconfig, context)


def need_learn() -> None:
    """Raises a UserError if the extra `learn` is not installed."""
    for package in ("gymnasium", "cmaes", "scipy"):
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed: pip install 'headway[learn]'")
