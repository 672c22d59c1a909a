"""The metrics API of a lab with real nodes: metrics-server asks the kubelets, and the API server passes requests on.

It runs as a process of the lab, not in a pod. The Service of the API is an external name: the lab's own address.
"""

from __future__ import annotations

import base64

from headway.lab import credentials
from headway.lab.api import Api, LabApiError
from headway.lab.credentials import Authority, CertificateSubject
from headway.lab.state import LabState, Part

NAME = "metrics-server"
GROUP = "metrics.k8s.io"
HOST = f"{NAME}.kube-system.svc"
RESOLUTION_SECONDS = 10
"""How often it asks the kubelets; the least that it allows."""
_HEADERS = {
    "requestheader-username-headers": "X-Remote-User",
    "requestheader-group-headers": "X-Remote-Group",
    "requestheader-extra-headers-prefix": "X-Remote-Extra-",
}


def make_credentials(state: LabState) -> None:
    """An authority of its own for requests that the API server passes on, and the certificate to serve with."""
    folder = credentials.of(state).folder / NAME
    authority = Authority(folder, "headway-lab-front-proxy")
    authority.issue("client", CertificateSubject(name="front-proxy-client"))
    authority.issue("server", CertificateSubject(name=HOST, hosts=(HOST, state.address)))


def api_server_flags(state: LabState) -> dict[str, str]:
    folder = credentials.of(state).folder / NAME
    return _HEADERS | {
        "requestheader-client-ca-file": str(folder / "ca.crt"),
        "requestheader-allowed-names": "front-proxy-client",
        "proxy-client-cert-file": str(folder / "client.crt"),
        "proxy-client-key-file": str(folder / "client.key"),
    }


def part(state: LabState) -> Part:
    made = credentials.of(state)
    own, config, to_kubelet = made.folder / NAME, made.kubeconfig("operators"), made.pair("apiserver-to-kubelet")
    flags = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": state.address,
        "secure-port": state.reserved_ports[4],  # the API server's, which is 443 with real nodes
        "tls-cert-file": own / "server.crt",
        "tls-private-key-file": own / "server.key",
        "kubelet-certificate-authority": made.authority,
        "kubelet-client-certificate": to_kubelet.certificate,
        "kubelet-client-key": to_kubelet.key,
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-use-node-status-port": "true",
        "metric-resolution": f"{RESOLUTION_SECONDS}s",
        "kubelet-request-timeout": "5s",
    }
    return state.flagged_part(NAME, flags, state.reserved_ports[4])


def register(state: LabState, api: Api) -> None:
    """Tells the API server where the metrics API is."""
    service = {"type": "ExternalName", "externalName": state.address}
    api.post("/api/v1/namespaces/kube-system/services", {"metadata": {"name": NAME}, "spec": service})
    bundle = (credentials.of(state).folder / NAME / "ca.crt").read_bytes()
    spec = {
        "group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "caBundle": base64.b64encode(bundle).decode(),
        "service": {"namespace": "kube-system", "name": NAME, "port": state.reserved_ports[4]},
    }  # fmt: skip
    metadata = {"name": f"v1beta1.{GROUP}"}
    api.post("/apis/apiregistration.k8s.io/v1/apiservices", {"metadata": metadata, "spec": spec})


def is_ready(api: Api) -> bool:
    """Whether the API server passes requests on and kubelets have been asked."""
    try:
        return bool(api.get(f"/apis/{GROUP}/v1beta1/nodes")["items"])
    except LabApiError:
        return False
