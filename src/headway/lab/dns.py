"""Names for pods and services of real nodes: CoreDNS with few plugins, at the first node's address.

It runs beside the cluster, not in it, as a user who may read what it answers from and nothing else.
"""

from __future__ import annotations

from headway.lab import credentials
from headway.lab.api import Api
from headway.lab.programs import PROGRAMS, find
from headway.lab.state import LabState, Part

PORT = 53
USER = "headway-lab-coredns"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def part(state: LabState) -> Part:
    corefile = state.folder / "Corefile"
    corefile.write_text(
        f""".:{PORT} {{
  bind {address(state)}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {credentials.of(state).kubeconfig("coredns")}
    ttl 1
  }}
}}
"""
    )
    argv = [str(find("coredns")), "-conf", str(corefile)]
    return Part(name="coredns", argv=argv, version=PROGRAMS["coredns"].version, port=PORT)


def address(state: LabState) -> str:
    assert state.network is not None
    return state.network.gateway(1)


def grant(api: Api) -> None:
    """Let CoreDNS read pods, services and where they are."""
    read = ["list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["pods", "services", "namespaces"], "verbs": read},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
    ]
    role = {"metadata": {"name": USER}, "rules": rules}
    api.post(f"{RBAC}/clusterroles", role)
    binding = {
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    }
    api.post(f"{RBAC}/clusterrolebindings", binding)
