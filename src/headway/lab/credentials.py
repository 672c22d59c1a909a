"""All certificates and kubeconfigs of one lab, made at each `up`, and the authorities that sign them.

etcd has an authority of its own: a client of the API server must not be able to write to etcd directly. Keys are
elliptic (P-256), which take a millisecond to make. The certificate managers of some operators accept only an RSA
authority in the old key format, so RSA is an option.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headway.lab.state import LOOPBACK, LabState

LIFETIME = timedelta(days=365)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSubject:
    """The holder of a certificate. Kubernetes reads the common name as the user and organisations as groups."""

    name: str
    groups: Sequence[str] = ()
    hosts: Sequence[str] = ()
    """Addresses and names under which the holder serves; a pure client has none."""


class Authority:
    """A certificate authority in a folder; `issue` writes `<stem>.crt` and `<stem>.key` beside it."""

    def __init__(self, folder: Path, name: str, *, hosts: Sequence[str] = (), use_rsa: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._key: PrivateKey = rsa.generate_private_key(65537, 2048) if use_rsa else _elliptic()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = _key_usage(signs=True)
        builder = _builder(self._name, self._name, self._key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        if hosts:
            builder = builder.add_extension(_alternatives(hosts), critical=False)
        signed = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.pair = _write(folder / "ca", signed, self._key)

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def issue(self, stem: str, subject: CertificateSubject) -> KeyPair:
        key = _elliptic()
        names = [x509.NameAttribute(NameOID.COMMON_NAME, subject.name)]
        names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in subject.groups]
        builder = _builder(x509.Name(names), self._name, key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs=False), critical=True)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if subject.hosts:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(_alternatives(subject.hosts), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        return _write(self.folder / stem, builder.sign(self._key, hashes.SHA256()), key)


def _elliptic() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def signing_key(folder: Path, stem: str) -> KeyPair:
    """A key and its public half, with which the API server signs service-account tokens."""
    key = _elliptic()
    public = folder / f"{stem}.pub"
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return KeyPair(public, _write_key(folder / f"{stem}.key", key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: PublicKey,
    issuer_public: PublicKey,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + LIFETIME)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_public)
    return builder.add_extension(authority, critical=False)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(host) for host in hosts])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(stem: Path, certificate: x509.Certificate, key: PrivateKey) -> KeyPair:
    path = stem.with_name(stem.name + ".crt")
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return KeyPair(path, _write_key(stem.with_name(stem.name + ".key"), key))


def _write_key(path: Path, key: PrivateKey) -> Path:
    is_rsa = isinstance(key, rsa.RSAPrivateKey)
    form = serialization.PrivateFormat.TraditionalOpenSSL if is_rsa else serialization.PrivateFormat.PKCS8
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return path


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
    "kube-proxy": CertificateSubject(name="system:kube-proxy"),
    "coredns": CertificateSubject(name="headway-lab-coredns"),
    "operators": CertificateSubject(name="headway-lab-operators", groups=("system:masters",)),
    "kwok": CertificateSubject(name="kwok", groups=("system:masters",)),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """The paths of the files. All exist once `make` has run."""

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
    """Makes one certificate for requests to the API server as this node, one to serve `kubectl logs` and `exec`."""
    assert state.network is not None
    node = f"node-{number}"
    user = f"system:node:{node}"
    client = authority.issue(f"kubelet-{number}", CertificateSubject(name=user, groups=("system:nodes",)))
    write_kubeconfig(of(state).kubeconfig(f"kubelet-{number}"), state.url, authority.certificate, client)
    hosts = (state.network.gateway(number), node)
    authority.issue(f"kubelet-{number}-serving", CertificateSubject(name=user, groups=("system:nodes",), hosts=hosts))


def client_context(authority: Path, pair: KeyPair) -> ssl.SSLContext:
    """TLS as this client, which trusts only the authority of the lab. For `http.client` and aiohttp."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(str(pair.certificate), str(pair.key))
    return context


def write_kubeconfig(path: Path, url: str, authority: Path, pair: KeyPair) -> Path:
    """Writes a kubeconfig that contains its certificates, so that it can be copied. It is JSON, which is valid YAML."""

    def encoded(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    user = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
    }
    cluster = {"server": url, "certificate-authority-data": encoded(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2))
    return path
