"""The options of a lab, checked before anything is started."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from headway.lab import paths, process
from headway.lab.errors import LabError
from headway.lab.node_shapes import NodeGroup
from headway.lab.operators import check_names
from headway.lab.programs import CONTROL_PLANE, KUBERNETES, RELEASE, at_release
from headway.lab.state import LabState

MAX_KUBELETS = 16
MAX_PODS = 100_000


class LabOptions(TypedDict, total=False):
    """The options of a lab; every field may be left out."""

    kubernetes: str
    """The release of Kubernetes: 1.36 or 1.37. Default 1.36."""
    kubelets: int
    """Real nodes: kubelet, containerd, real containers. Needs root. Default 0."""
    simulated: Sequence[NodeGroup]
    """Simulated nodes, from `node_groups(1000, ["8xA100,96cpu,768Gi"])`. Default: none."""
    racks: int
    """Number of racks for the simulated nodes (label `headway.dev/rack`). Default 1."""
    pods: int
    """Pods that run on the simulated nodes from the start, in the namespace `running`, each with 1 cpu. Default 0."""
    kubelet_cpus: float | None
    """Cores that each real node offers. Default: all cores of the machine, on each node."""
    kubelet_cores: int
    """Cores that each real node has to itself: its containers run on no others. Default: all share all cores."""
    proxy: bool
    """Run kube-proxy, so that services have addresses that work. Needs real nodes; one lab at a time."""
    bench: bool
    """Lift client and server limits, for measurements."""
    gangs: bool
    """Serve and schedule the gangs of Kubernetes itself (`scheduling.k8s.io` PodGroup)."""
    scheduler: Mapping[str, Any]
    """Fields of the native scheduler's KubeSchedulerConfiguration, beside what the lab sets."""
    audit: bool
    """Record what service accounts ask of the API server, in `lab.audit_log`: who, verb, resource, answer."""
    metrics: bool
    """Serve the metrics API (metrics-server, built when it is first asked for). Needs real nodes."""
    life: Sequence[str]
    """A command that runs as the part `life`, with an environment in which it finds this lab by name."""
    operators: Sequence[str]
    """Job operators to run: any of jobset, training-operator, kueue. Default: none."""
    port: int
    """The API server's port on 127.0.0.1. Default: a free one; with real nodes 443 at the lab's address."""
    owned: bool
    """The lab belongs to this process: if it dies without `down`, the next `up` of any lab ends this lab."""


def needed_programs(state: LabState) -> list[str]:
    real = ["kubelet", "coredns"] if state.kubelets else []
    proxied = ["kube-proxy"] if state.proxy else []
    pretended = ["kwok"] if state.simulated else []
    measured = ["metrics-server"] if state.metrics else []
    names = [*CONTROL_PLANE, *real, *proxied, *pretended, *measured, *state.operators]
    return [at_release(name, state.kubernetes) for name in names]


def check_release(release: str) -> str:
    if release not in KUBERNETES:
        raise LabError(f"there is no Kubernetes {release} for the lab; there are {', '.join(KUBERNETES)}")
    return release


def _cores(kubelets: int, each: int) -> list[list[int]]:
    """Divides the cores that this process may use among the nodes, in order."""
    ours = sorted(os.sched_getaffinity(0))
    if each < 0 or each * kubelets > len(ours):
        raise LabError(f"{kubelets} kubelets with {each} cores each cannot be had: this machine has {len(ours)}")
    return [ours[each * node : each * (node + 1)] for node in range(kubelets)] if each else []


def state_for(name: str, options: LabOptions) -> LabState:
    kubelets, port, racks = options.get("kubelets", 0), options.get("port", 0), options.get("racks", 1)
    if not 0 <= kubelets <= MAX_KUBELETS:
        raise LabError(f"a lab can have 0 to {MAX_KUBELETS} kubelets, not {kubelets}")
    if options.get("metrics") and not kubelets:
        raise LabError("the metrics API measures real nodes: a lab with it needs kubelets")
    if options.get("proxy") and not kubelets:
        raise LabError("kube-proxy serves pods on real nodes: a lab with it needs kubelets")
    if racks < 1:
        raise LabError(f"simulated nodes need at least one rack, not {racks}")
    pods = options.get("pods", 0)
    if pods and not options.get("simulated"):
        raise LabError("pods that run from the start need simulated nodes")
    if not 0 <= pods <= MAX_PODS:
        raise LabError(f"a lab can start with 0 to {MAX_PODS} pods, not {pods}")
    if port and not 1024 <= port <= 65535:
        raise LabError(f"the API server's port must be between 1024 and 65535, not {port}")
    return LabState(
        name=name,
        root=str(paths.labs()),
        created=time.time(),
        owner=process.current(os.getpid()) if options.get("owned") else None,
        port=port,
        kubernetes=check_release(options.get("kubernetes", RELEASE)),
        bench=options.get("bench", False),
        gangs=options.get("gangs", False),
        scheduler=dict(options.get("scheduler", {})),
        audit=options.get("audit", False),
        metrics=options.get("metrics", False),
        kubelets=kubelets,
        simulated=list(options.get("simulated", ())),
        racks=racks,
        pods=pods,
        life=list(options.get("life", ())),
        operators=check_names(options.get("operators", ())),
        kubelet_cpus=options.get("kubelet_cpus"),
        cores=_cores(kubelets, options.get("kubelet_cores", 0)),
        proxy=options.get("proxy", False),
    )
