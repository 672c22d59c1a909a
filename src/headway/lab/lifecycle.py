"""Starts and ends a lab.

Parts that do not need the API server start first: that is the fastest order. A lab keeps nothing after its end, so its
processes are killed at once. `take_down` ends everything that the lab started and nothing else, also after a crash in
the middle of a start.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from headway.lab import (
    control_plane,
    credentials,
    machine,
    metrics,
    network,
    operators,
    paths,
    process,
    real_nodes,
    simulated_nodes,
)
from headway.lab.api import Api, LabApiError
from headway.lab.credentials import client_context
from headway.lab.errors import LabError
from headway.lab.programs import SEARCH
from headway.lab.state import LabState, Part, load_all

READY_SECONDS = 60.0


def prepare(state: LabState) -> None:
    """Chooses ports and addresses, and records them before anything is created."""
    with paths.locked(paths.labs() / "lock"):
        others = [other for other in load_all() if other.name != state.name]
        ports = _reserve_ports(state, others)
        state.save()
    if state.kubelets:
        with paths.locked(paths.machine_lock()):
            state.network = network.choose(other.network.block for other in others if other.network)
            state.address, state.port = state.network.api_address, 443
            state.save()
            state.run_folder.mkdir(parents=True, exist_ok=True)
            if state.proxy:
                network.check_no_proxy()
            machine.remember()
            network.create(state)
            machine.create_cgroups(state)
    credentials.make(state)
    if state.metrics:
        metrics.make_credentials(state)
    state.parts = control_plane.parts(state, ports)
    for node in range(1, state.kubelets + 1):
        state.parts += real_nodes.parts(state, node)
    if state.kubelets:
        state.parts.append(network.dns_part(state))
    state.parts += [network.proxy_part(state)] if state.proxy else []
    if state.simulated:
        state.parts.append(simulated_nodes.part(state, state.reserved_ports[5]))
    if state.life:
        own = {"XDG_STATE_HOME": str(Path(state.root).parent.parent), "PYTHONUNBUFFERED": "1"}
        state.parts.append(Part(name="life", argv=state.life, version="", environment=own))
    state.parts += [metrics.part(state)] if state.metrics else []
    operators.prepare(state)
    state.parts += [operators.part(state, name) for name in state.operators]
    state.save()


def _reserve_ports(state: LabState, others: list[LabState]) -> list[int]:
    """Four for the control plane, one for the API server (unused with real nodes), one for KWOK, two per operator."""
    taken = {port for other in others for port in other.reserved_ports}
    if state.port:
        if not state.kubelets and (state.port in taken or not control_plane.is_free(state.address, state.port)):
            raise LabError(f"port {state.port} is taken: choose another with --port, or leave it out")
        taken.add(state.port)
    ports = control_plane.free_ports(6 + operators.PORTS_EACH * len(state.operators), taken)
    state.port = state.port or ports[4]
    state.reserved_ports = ports
    return ports[:4]


def start_all(state: LabState) -> None:
    nodes = range(1, state.kubelets + 1)
    start(state, state.part("etcd"))
    for node in nodes:
        start(state, state.part(f"containerd-{node}"))
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        images = [pool.submit(real_nodes.import_image, state, node) for node in nodes]
        _wait(state, "etcd", lambda: is_open("127.0.0.1", state.part("etcd").port))
        if state.simulated:
            simulated_nodes.store_all(state)
        start(state, state.part("kube-apiserver"))
        wait_for_api(state)
        for name in ("kube-controller-manager", "kube-scheduler"):
            start(state, state.part(name))
        for image in images:
            image.result()
    for node in nodes:
        start(state, state.part(f"kubelet-{node}"))
    _start_guests(state)
    wait_for_controllers(state)
    for node in nodes:
        wait_for_node(state, node)
    if state.metrics:
        with closing(api_of(state)) as api:
            metrics.register(state, api)
            start(state, state.part(metrics.NAME))
            _wait(state, metrics.NAME, lambda: metrics.is_ready(api), poll_seconds=0.5)


def _start_guests(state: LabState) -> None:
    """Starts what is not part of Kubernetes itself: names, simulated nodes and operators."""
    with closing(api_of(state)) as api:
        if state.kubelets:
            network.grant_dns(api)
            start(state, state.part("coredns"))
            _wait(state, "coredns", lambda: is_open(network.dns_address(state), network.DNS_PORT))
        if state.proxy:
            start(state, state.part(network.PROXY))
            _wait(state, network.PROXY, lambda: is_open(network.dns_address(state), network.PROXY_PORT))
        if state.simulated:
            start(state, state.part("kwok"))
            _wait_for_simulated(state, api)
        if state.life:
            start(state, state.part("life"))
        for name in state.operators:
            operators.install(state, api, name)
            start(state, state.part(name))
        for name in state.operators:
            _wait(state, name, lambda name=name: operators.is_ready(state, name))  # type: ignore[misc]


def _wait_for_simulated(state: LabState, api: Api) -> None:
    """Waits until KWOK keeps all nodes and has looked at all pods, so that a new pod would run at once."""
    expected = sum(group.count for group in state.simulated)
    patience = READY_SECONDS + (expected + state.pods) / 200
    _wait(state, "kwok", lambda: _count_kept(api) >= expected, poll_seconds=0.3, seconds=patience)
    if state.pods:
        wait_for_account(state, api, simulated_nodes.RUNNING)
        probe = api.post(f"/api/v1/namespaces/{simulated_nodes.RUNNING}/pods", simulated_nodes.PROBE)["metadata"]
        path = f"/api/v1/namespaces/{simulated_nodes.RUNNING}/pods/{probe['name']}"
        _wait(state, "kwok", lambda: api.get(path)["status"]["phase"] == "Running", poll_seconds=0.3, seconds=patience)
        api.delete(path, {"gracePeriodSeconds": 0})


def start(state: LabState, part: Part) -> None:
    environment = {
        "PATH": f"{SEARCH}:{os.environ.get('PATH', '')}",
        "HOME": str(state.folder),
        **part.environment,
        process.MARK: state.mark,
    }
    part.process = process.spawn(part.argv, state.log(part.name), environment)
    state.save()


def api_of(state: LabState) -> Api:
    made = credentials.of(state)
    return Api(state.url, client_context(made.authority, made.pair("admin")))


def wait_for_api(state: LabState) -> None:
    with closing(api_of(state)) as api:
        _wait(state, "kube-apiserver", lambda: _answers(api, "/readyz"))


def wait_for_data(state: LabState) -> None:
    """Waits until the API server reads from etcd: after a restart it calls itself ready by what it saw before."""
    _wait(state, "etcd", lambda: is_open("127.0.0.1", state.part("etcd").port))
    wait_for_api(state)
    with closing(api_of(state)) as api:
        _wait(state, "etcd", lambda: _answers(api, "/api/v1/namespaces/default"))


def wait_for_controllers(state: LabState) -> None:
    with closing(api_of(state)) as api:
        wait_for_account(state, api, "default")
        scheduler = state.part("kube-scheduler").port
        _wait(state, "kube-scheduler", lambda: is_open("127.0.0.1", scheduler))


def wait_for_account(state: LabState, api: Api, namespace: str) -> None:
    """The default service account is made by the controller manager; without it no pod is accepted."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    _wait(state, "kube-controller-manager", lambda: _answers(api, account))


def wait_for_node(state: LabState, node: int) -> None:
    """Waits until the kubelet works and its node accepts pods.

    A kubelet that asks containerd too early ends at once, so it is started again.
    """
    part = state.part(f"kubelet-{node}")
    path = f"/api/v1/nodes/node-{node}"

    def is_ready() -> bool:
        if not part.alive and real_nodes.TOO_EARLY in last_words(state, part.name):
            start(state, part)
        return real_nodes.is_healthy(state, node) and _answers(api, path) and _is_usable(api.get(path))

    with closing(api_of(state)) as api:
        _wait(state, part.name, is_ready)


def _count_kept(api: Api) -> int:
    """Counts the nodes that KWOK has taken over: it has made a lease for each."""
    found = api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=1")
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))


def _is_usable(node: dict[str, Any]) -> bool:
    """Whether the node is Ready and has lost the taint that keeps pods off a new node."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    taints = node["spec"].get("taints", ())
    return ready and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)


def _answers(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except (LabApiError, OSError, http.client.HTTPException):
        return False
    return True


def is_open(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def _wait(
    state: LabState,
    name: str,
    is_ready: Callable[[], bool],
    *,
    poll_seconds: float = 0.05,
    seconds: float = READY_SECONDS,
) -> None:
    """Waits until the part is ready. If it ends or takes too long, raises with the last line of its log."""
    part = state.part(name)
    deadline = time.monotonic() + seconds
    while not is_ready():
        if not part.alive:
            raise LabError(f"{name} ended while starting: {last_words(state, name)}")
        if time.monotonic() > deadline:
            raise LabError(f"{name} is not ready after {seconds:.0f} s: {last_words(state, name)}")
        time.sleep(poll_seconds)


def last_words(state: LabState, name: str) -> str:
    """Returns the last line of the log that looks like an error, else the very last line."""
    try:
        lines = state.log(name).read_text(errors="replace").strip().splitlines()[-40:]
    except FileNotFoundError:
        lines = []
    complaints = [line for line in lines if line.startswith(("E", "F", "Error", "panic")) or '"error"' in line]
    return (complaints or lines or ["its log is empty"])[-1][:300]


def take_down(state: LabState) -> None:
    """Ends the processes, then removes what they held. May be repeated after an interruption."""
    _end_processes(state)
    if state.network is not None:
        with paths.locked(paths.machine_lock()):
            machine.remove_cgroups(state)
            _end_processes(state)  # a shim may have started another helper since
            machine.remove_leavings(state)
            network.clean_proxy(state)
            network.remove(state)
            if machine.is_last(state):
                machine.restore()
    if "training-operator" in state.operators and not _another_has(state, "training-operator"):
        operators.remove_fixed_certificates()
    shutil.rmtree(state.folder, ignore_errors=True)
    if state.folder.exists():
        raise LabError(f"{state.folder} cannot be removed: remove it by hand")


def take_down_orphans() -> None:
    """Ends the labs of test runs that died without ending them."""
    for state in load_all():
        if state.owner is not None and not process.is_alive(state.owner):
            take_down(state)


def _another_has(state: LabState, operator: str) -> bool:
    return any(operator in other.operators for other in load_all() if other.name != state.name)


def _end_processes(state: LabState) -> None:
    deadline = time.monotonic() + 20
    while True:
        recorded = [part.process for part in state.parts if part.process and part.alive]
        ours = {*recorded, *process.marked(state.mark)}
        if not ours:
            return
        if time.monotonic() > deadline:
            raise LabError(f"process {min(one.pid for one in ours)} of lab '{state.name}' cannot be ended")
        process.end(ours, grace_seconds=0)
