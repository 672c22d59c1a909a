"""Command lines of etcd, the API server, the controller manager and the native scheduler.

Without `bench` their settings are those of an ordinary cluster, with one exception: etcd does not wait for the disk. A
killed etcd loses nothing by that; a machine that loses power may lose data.
"""

from __future__ import annotations

import json
import mmap
import re
import secrets
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from headway.lab import credentials, metrics
from headway.lab.errors import LabError
from headway.lab.state import LOOPBACK, LabState, Part

FIRST_PORT, LAST_PORT = 20_000, 29_999
"""Below the range from which the kernel takes ports for outgoing connections, which would collide with these."""

AUDIT_LOG = "audit.log"
GANG_GROUP = "scheduling.k8s.io"
GANG_GATES = ("GenericWorkload", "GangScheduling")
"""The gates of gangs, of which a release may know only some: the second has become part of the first."""


def free_ports(count: int, avoid: Iterable[int]) -> list[int]:
    """Returns ports on which nothing listens and that no other lab has.

    The search begins anywhere: two labs of different users, or of tests with different state folders, know nothing of
    each other, and between the look and the moment a program listens the port is free for both.
    """
    taken = set(avoid)
    found = []
    begin = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
    for port in (*range(begin, LAST_PORT), *range(FIRST_PORT, begin)):
        if port not in taken and is_free(LOOPBACK, port):
            found.append(port)
            if len(found) == count:
                return found
    raise LabError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT} on this machine")


def is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def parts(state: LabState, ports: list[int]) -> list[Part]:
    """The four parts in starting order. `ports`: two of etcd, one of the controller manager, one of the scheduler."""
    client, peer, manager, scheduler = ports
    return [
        state.flagged_part("etcd", _etcd(state, client, peer), client),
        state.flagged_part("kube-apiserver", _api_server(state, client), state.port),
        state.flagged_part("kube-controller-manager", _controller_manager(state, manager), manager),
        state.flagged_part("kube-scheduler", _scheduler(state, scheduler), scheduler),
    ]


def _gang_gates(state: LabState, program: str) -> dict[str, str]:
    """The flag that lets a program have gangs, with the gates that its help lists."""
    if not state.gangs:
        return {}
    told = subprocess.run([state.program(program), "--help"], capture_output=True, text=True, check=False).stdout
    known = [gate for gate in GANG_GATES if f":{gate}=true|false" in told]
    if not known:
        raise LabError(f"{program} of Kubernetes {state.kubernetes} has no gangs")
    return {"feature-gates": ",".join(f"{gate}=true" for gate in known)}


def _gang_versions(api_server: Path) -> dict[str, str]:
    """The flag to serve every version of PodGroup that the API server was built with: the names of its Go types tell.

    It refuses to start if it is told to serve another.
    """
    with api_server.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = re.finditer(rb"k8s\.io/api/scheduling/(v\w+)\.\(\*PodGroup\)", content)
        versions = sorted({name[1].decode() for name in found})
    return {"runtime-config": ",".join(f"{GANG_GROUP}/{version}=true" for version in versions)}


def _etcd(state: LabState, client: int, peer: int) -> dict[str, str]:
    folder = credentials.of(state).etcd
    here, there = f"https://{LOOPBACK}:{client}", f"https://{LOOPBACK}:{peer}"
    flags = {
        "name": "lab",
        "data-dir": str(state.folder / "etcd"),
        "listen-client-urls": here,
        "advertise-client-urls": here,
        "listen-peer-urls": there,
        "initial-advertise-peer-urls": there,
        "initial-cluster": f"lab={there}",
        "unsafe-no-fsync": "true",
        "quota-backend-bytes": str(4 * 2**30),
        "log-level": "warn",
    }
    for prefix in ("", "peer-"):
        flags |= {
            f"{prefix}cert-file": str(folder / "server.crt"),
            f"{prefix}key-file": str(folder / "server.key"),
            f"{prefix}client-cert-auth": "true",
            f"{prefix}trusted-ca-file": str(folder / "ca.crt"),
        }
    return flags


def _api_server(state: LabState, etcd_port: int) -> dict[str, str]:
    made = credentials.of(state)
    serving, to_kubelet = made.pair("kube-apiserver"), made.pair("apiserver-to-kubelet")
    flags = {
        "etcd-servers": f"https://{LOOPBACK}:{etcd_port}",
        "etcd-cafile": str(made.etcd / "ca.crt"),
        "etcd-certfile": str(made.etcd / "client.crt"),
        "etcd-keyfile": str(made.etcd / "client.key"),
        "bind-address": state.address,
        "advertise-address": state.address,
        "secure-port": str(state.port),
        "tls-cert-file": str(serving.certificate),
        "tls-private-key-file": str(serving.key),
        "client-ca-file": str(made.authority),
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": str(made.folder / "service-accounts.pub"),
        "service-account-signing-key-file": str(made.folder / "service-accounts.key"),
        "service-cluster-ip-range": state.network.services if state.network else "10.255.0.0/24",
        "kubelet-client-certificate": str(to_kubelet.certificate),
        "kubelet-client-key": str(to_kubelet.key),
        "kubelet-certificate-authority": str(made.authority),
        "kubelet-preferred-address-types": "InternalIP",
        "allow-privileged": "true",
    }
    if state.network is None:
        flags["endpoint-reconciler-type"] = "none"  # a loopback address is not a valid endpoint
    if state.bench:
        flags |= {
            "enable-priority-and-fairness": "false",
            "max-requests-inflight": "0",
            "max-mutating-requests-inflight": "0",
        }
    if state.gangs:
        flags |= _gang_gates(state, "kube-apiserver") | _gang_versions(state.program("kube-apiserver"))
    if state.metrics:
        flags |= metrics.api_server_flags(state)
    if state.audit:
        flags |= {"audit-policy-file": str(_audit_policy(state)), "audit-log-path": str(state.folder / AUDIT_LOG)}
    return flags


def _audit_policy(state: LabState) -> Path:
    """Service accounts, but not those of Kubernetes' own controllers. Only answers are recorded, no bodies."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        ],
    }
    path = state.folder / "audit-policy.json"
    path.write_text(json.dumps(policy, indent=2))
    return path


def _controller_manager(state: LabState, port: int) -> dict[str, str]:
    made = credentials.of(state)
    flags = _common(state, "kube-controller-manager", port) | {
        "kubeconfig": str(made.kubeconfig("kube-controller-manager")),
        "use-service-account-credentials": "true",
        "service-account-private-key-file": str(made.folder / "service-accounts.key"),
        "root-ca-file": str(made.authority),
        "cluster-signing-cert-file": str(made.authority),
        "cluster-signing-key-file": str(made.folder / "ca.key"),
        "leader-elect": "false",
    }
    rate = "5000" if state.bench else "100"  # the default of 20 makes its forty controllers take 6 s to start
    flags |= {"kube-api-qps": rate, "kube-api-burst": rate}
    if state.simulated and not state.kubelets:
        # A node is lost only after its lease, and nobody writes to all nodes how long kubelets may keep Secrets.
        flags |= {"node-monitor-grace-period": f"{state.lease_seconds}s", "controllers": "*,-ttl-controller"}
    return flags | _gang_gates(state, "kube-controller-manager")


def _scheduler(state: LabState, port: int) -> dict[str, str]:
    made = credentials.of(state)
    connection: dict[str, object] = {"kubeconfig": str(made.kubeconfig("kube-scheduler"))}
    if state.bench:
        connection |= {"qps": 5000, "burst": 5000}
    config: dict[str, object] = {
        **state.scheduler,
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
    }
    path = state.folder / "kube-scheduler.json"
    path.write_text(json.dumps(config, indent=2))
    return _common(state, "kube-scheduler", port) | {"config": str(path)} | _gang_gates(state, "kube-scheduler")


def _common(state: LabState, who: str, port: int) -> dict[str, str]:
    kubeconfig = str(credentials.of(state).kubeconfig(who))
    return {
        "bind-address": LOOPBACK,
        "secure-port": str(port),
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "cert-dir": str(state.folder / "credentials" / who),
    }
