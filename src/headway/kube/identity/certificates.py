"""The certificate authority of the progress server: one Secret in Headway's own namespace.

The first scheduler makes it, all later ones read it. Pods get the public half in their environment. The certificate
that the server shows is made at each start, in memory only, under a name that does not depend on where Headway runs.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import logging
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headway.kube.api.errors import KubeError
from headway.kube.identity.secrets import OwnSecret
from headway.progress._environment import SERVER_NAME

log = logging.getLogger("headway.kube")
SECRET = "headway-progress"  # noqa: S105  its name
LIFETIME = dt.timedelta(days=3650)
WARNING = dt.timedelta(days=90)
_EARLIER = dt.timedelta(hours=24)
"""Certificates are valid from some time ago: the clocks of nodes differ."""


@dataclass(frozen=True, slots=True)
class ProgressAuthority:
    """All as PEM."""

    certificate: bytes
    key: bytes
    trusted: bytes
    """What pods trust: this certificate, and while it is rotated another one, too."""


def new_authority(now: dt.datetime) -> ProgressAuthority:
    """It can sign for the one name of the progress server only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headway progress authority")])
    own = x509.NameConstraints(permitted_subtrees=[x509.DNSName(SERVER_NAME)], excluded_subtrees=None)
    signed = (
        _builder(name, name, key.public_key(), now - _EARLIER, now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(own, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate = signed.public_bytes(serialization.Encoding.PEM)
    return ProgressAuthority(certificate, _pem(key), certificate)


def server_context(authority: ProgressAuthority) -> ssl.SSLContext:
    """TLS under the fixed name, with a key that this process alone has. It is valid as long as its authority."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key, until = ec.generate_private_key(ec.SECP256R1()), issuer.not_valid_after_utc
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAME)])
    leaf = (
        _builder(name, issuer.subject, key.public_key(), issuer.not_valid_before_utc, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nobody resumes a session
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads key pairs from files only
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(leaf.public_bytes(serialization.Encoding.PEM) + _pem(key))
        context.load_cert_chain(str(pair))
    return context


def _read(secret: Mapping[str, Any], namespace: str) -> ProgressAuthority:
    field = ""
    try:
        data = {}
        for field in ("tls.crt", "tls.key", "ca.crt"):
            data[field] = base64.b64decode(secret["data"][field], validate=True)
        found = ProgressAuthority(data["tls.crt"], data["tls.key"], data["ca.crt"])
        field = "ca.crt"
        x509.load_pem_x509_certificates(found.trusted)
        field = "tls.crt"
        until = x509.load_pem_x509_certificate(found.certificate).not_valid_after_utc
        server_context(found)
    except (KeyError, TypeError, ValueError, AssertionError, binascii.Error, ssl.SSLError) as error:
        raise KubeError(
            f"Secret {SECRET} in namespace {namespace}: field {field}: cannot be used; docs/kubernetes.md says how to "
            "rotate it"
        ) from error
    left = until - dt.datetime.now(dt.UTC)
    if left < WARNING:
        log.warning("the certificate authority of progress expires in %d days: rotate it", left.days)
    return found


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: dt.datetime, ends: dt.datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(begins).not_valid_after(ends)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


PROGRESS_AUTHORITY = OwnSecret(
    SECRET, "the certificate authority of progress", "kubernetes.io/tls",
    lambda: new_authority(dt.datetime.now(dt.UTC)),
    lambda made: {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": made.trusted}, _read,
)  # fmt: skip
