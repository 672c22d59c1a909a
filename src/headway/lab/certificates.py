"""The lab's own certificate authorities. Keys are elliptic (P-256): made in a millisecond, unlike RSA ones.

Some operators' certificate keepers accept only an RSA authority in the old key format, hence the choice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSubject:
    """Who a certificate is for: Kubernetes reads the common name as the user and organisations as groups."""

    name: str
    groups: Sequence[str] = ()
    hosts: Sequence[str] = ()
    """Addresses and names under which it serves; a pure client has none."""


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
    """A bare key and its public half, with which the API server signs service-account tokens."""
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
