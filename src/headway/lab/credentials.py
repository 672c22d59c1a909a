"""All certificates and kubeconfigs of one lab, made anew at each `up`.

etcd has an authority of its own: a client of the API server must not be able to write behind its back.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headway.lab.api import write_kubeconfig
from headway.lab.certificates import Authority, CertificateSubject, KeyPair, signing_key
from headway.lab.state import LOOPBACK, LabState

API_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
COMPONENTS = {
    "admin": CertificateSubject(name="headway-lab-admin", groups=("system:masters",)),
    "kube-controller-manager": CertificateSubject(name="system:kube-controller-manager"),
    "kube-scheduler": CertificateSubject(name="system:kube-scheduler"),
    "coredns": CertificateSubject(name="headway-lab-coredns"),
    "operators": CertificateSubject(name="headway-lab-operators", groups=("system:masters",)),
    "kwok": CertificateSubject(name="kwok", groups=("system:masters",)),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Names of the files; all of them exist once `make` has run."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    def pair(self, stem: str) -> KeyPair:
        return KeyPair(self.folder / f"{stem}.crt", self.folder / f"{stem}.key")

    def kubeconfig(self, who: str) -> Path:
        return self.folder / f"{who}.kubeconfig"


def of(state: LabState) -> Credentials:
    return Credentials(state.folder / "credentials")


def make(state: LabState) -> Credentials:
    made = of(state)
    etcd = Authority(made.etcd, "headway-lab-etcd")
    etcd.issue("server", CertificateSubject(name="etcd", hosts=(LOOPBACK, "localhost")))
    etcd.issue("client", CertificateSubject(name="kube-apiserver"))
    authority = Authority(made.folder, "headway-lab")
    hosts = [LOOPBACK, *API_NAMES]
    if state.network is not None:
        hosts += [state.network.api_address, state.network.gateway(1)]
    else:
        hosts.append("10.255.0.1")
    authority.issue("kube-apiserver", CertificateSubject(name="kube-apiserver", hosts=hosts))
    authority.issue("apiserver-to-kubelet", CertificateSubject(name="kube-apiserver", groups=("system:masters",)))
    signing_key(made.folder, "service-accounts")
    for stem, subject in COMPONENTS.items():
        pair = authority.issue(stem, subject)
        write_kubeconfig(made.kubeconfig(stem), state.url, authority.certificate, pair)
    for number in range(1, state.kubelets + 1):
        _make_kubelet(state, authority, number)
    return made


def _make_kubelet(state: LabState, authority: Authority, number: int) -> None:
    """One certificate to speak to the API server as this node, one to serve `kubectl logs` and `exec`."""
    assert state.network is not None
    node = f"node-{number}"
    user = f"system:node:{node}"
    client = authority.issue(f"kubelet-{number}", CertificateSubject(name=user, groups=("system:nodes",)))
    write_kubeconfig(of(state).kubeconfig(f"kubelet-{number}"), state.url, authority.certificate, client)
    hosts = (state.network.gateway(number), node)
    authority.issue(f"kubelet-{number}-serving", CertificateSubject(name=user, groups=("system:nodes",), hosts=hosts))
