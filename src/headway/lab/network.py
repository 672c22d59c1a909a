"""The network of real nodes: a bridge for each, CoreDNS for names, and kube-proxy for the addresses of services.

The host routes between the bridges, so all pods reach each other and the host. All nodes share its network, so one
kube-proxy serves them all. It owns fixed chains of the machine's packet filter, so only one lab at a time can have one;
in the others services have no address except that of the API server, and headless services need none. CoreDNS runs
beside the cluster, not in it, as a user with the right to read what it serves and nothing else.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable

from headway.lab import credentials
from headway.lab.api import Api
from headway.lab.errors import LabError
from headway.lab.programs import PROGRAMS, find, required_program, system_program
from headway.lab.state import LabState, Network, Part

BLOCKS = range(96, 128)


def choose(taken: Iterable[int]) -> Network:
    """Returns a 10.B.0.0/16 that no other lab has and that no route of this machine uses."""
    routes = _run("ip", "-4", "route", "show", "table", "all")
    used = set(taken) | {int(block) for block in re.findall(r"\b10\.(\d+)\.\d+\.\d+", routes)}
    for block in BLOCKS:
        if block not in used:
            return Network(block)
    raise LabError(f"all of 10.{BLOCKS[0]}.0.0/16 to 10.{BLOCKS[-1]}.0.0/16 are in use: end another lab first")


def create(state: LabState) -> None:
    network = state.network
    assert network is not None
    for node in range(1, state.kubelets + 1):
        bridge = network.bridge(node)
        # Without a MAC address of its own a bridge takes that of its lowest port, which changes as pods come and go.
        # The other pods would then send to the old address until they ask again.
        _run("ip", "link", "add", bridge, "address", f"02:68:77:00:{network.block:02x}:{node:02x}", "type", "bridge")
        _run("ip", "address", "add", f"{network.gateway(node)}/24", "dev", bridge)
        if node == 1:
            _run("ip", "address", "add", f"{network.api_address}/32", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
    for rule in _forward_rules(state):
        _run("iptables", "-w", "-I", "FORWARD", *rule)


def switch(state: LabState, node: int, *, on: bool) -> None:
    """Cuts the pods of a node off from all others, or lets them be heard again."""
    assert state.network is not None
    if node == 1 and not on:
        raise LabError("node-1 cannot be cut off: its bridge has the address of the API server")
    _run("ip", "link", "set", state.network.bridge(node), "up" if on else "down")


def remove(state: LabState) -> None:
    """Removes the bridges and rules that exist."""
    if state.network is None:
        return
    existing = {link["ifname"] for link in json.loads(_run("ip", "-json", "link", "show", "type", "bridge") or "[]")}
    for node in range(1, state.kubelets + 1):
        if state.network.bridge(node) in existing:
            _run("ip", "link", "delete", state.network.bridge(node))
    iptables = system_program("iptables")
    for rule in _forward_rules(state) if iptables else ():
        subprocess.run([str(iptables), "-w", "-D", "FORWARD", *rule], capture_output=True, check=False)


def container_network(state: LabState, node: int) -> dict[str, object]:
    """The CNI configuration of one node."""
    assert state.network is not None
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": state.network.subnet(node)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(state.folder / f"node-{node}" / "addresses"),
    }
    bridge = {"type": "bridge", "bridge": state.network.bridge(node), "isGateway": True, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": f"headway-lab-{state.identity}-{node}", "plugins": [bridge]}


def _forward_rules(state: LabState) -> list[list[str]]:
    """The rules are needed only where the machine drops forwarded packets by default, as Docker sets it."""
    assert state.network is not None
    interface = f"hwlab{state.network.block}-+"
    note = ["-m", "comment", "--comment", f"headway-lab {state.identity}", "-j", "ACCEPT"]
    listing = _run("iptables", "-w", "-S", "FORWARD") if system_program("iptables") else ""
    if "-P FORWARD DROP" not in listing and "headway-lab" not in listing:
        return []
    return [["-i", interface, *note], ["-o", interface, *note]]


def _run(program: str, *arguments: str) -> str:
    done = subprocess.run([required_program(program), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"`{program} {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


# ── addresses of services ─────────────────────────────────────────────────────────────────────────────────

PROXY = "kube-proxy"
PROXY_PORT, PROXY_METRICS_PORT = 10256, 10249


def check_no_proxy() -> None:
    """Raises if this machine has a kube-proxy: each would remove the rules of the other."""
    if ":KUBE-" in _run("iptables-save"):
        raise LabError("this machine runs a kube-proxy already, and there can be only one: end the other lab first")


def proxy_part(state: LabState) -> Part:
    assert state.network is not None
    address = state.network.gateway(1)
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(credentials.of(state).kubeconfig(PROXY))},
        "mode": "iptables",
        "hostnameOverride": "node-1",
        "clusterCIDR": f"10.{state.network.block}.0.0/16",
        "healthzBindAddress": f"{address}:{PROXY_PORT}",
        "metricsBindAddress": f"{address}:{PROXY_METRICS_PORT}",
        "iptables": {"localhostNodePorts": False},
        "conntrack": dict.fromkeys(("maxPerCore", "min"), 0)
        | dict.fromkeys(("tcpEstablishedTimeout", "tcpCloseWaitTimeout"), "0s"),  # leave what the machine has
    }
    path = state.folder / f"{PROXY}.json"
    path.write_text(json.dumps(config, indent=2))
    return state.flagged_part(PROXY, {"config": path}, PROXY_PORT)


def clean_proxy(state: LabState) -> None:
    """Removes the rules that the lab's kube-proxy made, if it had one, with the chain that its own cleanup leaves."""
    for part in state.parts:
        if part.name != PROXY:
            continue
        shared = "KUBE-FIREWALL"
        jumps = [["-D", chain, "-j", shared] for chain in ("INPUT", "OUTPUT")]
        commands = [[part.argv[0], "--cleanup"]]
        for family in ("iptables", "ip6tables"):
            program = [required_program(family), "-w"]
            commands += [[*program, *rule] for rule in (*jumps, ["-F", shared], ["-X", shared])]
        for command in commands:  # what is gone already cannot be removed again
            subprocess.run(command, capture_output=True, check=False)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────

DNS_PORT = 53
DNS_USER = "headway-lab-coredns"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def dns_part(state: LabState) -> Part:
    corefile = state.folder / "Corefile"
    corefile.write_text(
        f""".:{DNS_PORT} {{
  bind {dns_address(state)}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {credentials.of(state).kubeconfig("coredns")}
    ttl 1
  }}
}}
"""
    )
    argv = [str(find("coredns")), "-conf", str(corefile)]
    return Part(name="coredns", argv=argv, version=PROGRAMS["coredns"].version, port=DNS_PORT)


def dns_address(state: LabState) -> str:
    assert state.network is not None
    return state.network.gateway(1)


def grant_dns(api: Api) -> None:
    """Grants CoreDNS the right to read pods, services and their addresses."""
    read = ["list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["pods", "services", "namespaces"], "verbs": read},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
    ]
    role = {"metadata": {"name": DNS_USER}, "rules": rules}
    api.post(f"{RBAC}/clusterroles", role)
    binding = {
        "metadata": {"name": DNS_USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": DNS_USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": DNS_USER}],
    }
    api.post(f"{RBAC}/clusterrolebindings", binding)
