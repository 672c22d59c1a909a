"""The address and credentials of an API server, from a kubeconfig or a pod's service account. Opens no connection."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from headway.kube.api.errors import KubeError

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    url: str
    tls: ssl.SSLContext | None
    namespace: str = "default"
    token: str = ""
    token_file: Path | None = None
    """Read again for every request: a service account's token is renewed in place."""

    def authorization(self) -> str:
        token = self.token_file.read_text().strip() if self.token_file is not None else self.token
        return f"Bearer {token}" if token else ""


def load_access(kubeconfig: Path | None = None, context: str = "") -> Access:
    """Takes the first of: the given file, `KUBECONFIG`, a pod's service account, `~/.kube/config`."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    if kubeconfig is None and not named and (IN_POD / "token").exists():
        return _in_pod()
    path = kubeconfig or (Path(named) if named else Path.home() / ".kube" / "config")
    return _from_file(path, context)


def _in_pod() -> Access:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeError("environment variable KUBERNETES_SERVICE_HOST is not set; give --kubeconfig")
    host = f"[{host}]" if ":" in host else host
    return Access(
        url=f"https://{host}:{port}",
        tls=ssl.create_default_context(cafile=str(IN_POD / "ca.crt")),
        namespace=(IN_POD / "namespace").read_text().strip() or "default",
        token_file=IN_POD / "token",
    )


def _from_file(path: Path, context: str) -> Access:
    try:
        config = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise KubeError(f"{path}: the kubeconfig cannot be read: {error.strerror}; give --kubeconfig") from error
    except yaml.YAMLError as error:
        raise KubeError(f"{path}: is not valid YAML; a kubeconfig is needed") from error
    if not isinstance(config, dict):
        raise KubeError(f"{path}: is not a kubeconfig: must be a YAML map with clusters, contexts and users")
    chosen = context or config.get("current-context", "")
    entry = _named(path, config, "contexts", "context", chosen)
    cluster = _named(path, config, "clusters", "cluster", entry.get("cluster", ""))
    user = _named(path, config, "users", "user", entry["user"]) if entry.get("user") else {}
    url = str(cluster.get("server", "")).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise KubeError(f"{path}: cluster {entry.get('cluster')!r}: field server: must be an http(s) address")
    if user.get("exec") or user.get("auth-provider"):
        raise KubeError(
            f"{path}: user {entry.get('user')!r}: field exec: is not supported; use a certificate or a token"
        )
    token_file = user.get("tokenFile")
    return Access(
        url=url, tls=_tls(path, cluster, user) if url.startswith("https") else None,
        namespace=entry.get("namespace") or "default", token=str(user.get("token", "")),
        token_file=_beside(path, token_file) if token_file else None,
    )  # fmt: skip


def _named(path: Path, config: dict[str, Any], listing: str, key: str, name: str) -> dict[str, Any]:
    for entry in config.get(listing) or []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key), dict):
            found: dict[str, Any] = entry[key]
            return found
    raise KubeError(f"{path}: field {listing}: there is no {key} {name!r}")


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _bytes(path, cluster, "certificate-authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _bytes(path, user, "client-certificate"), _bytes(path, user, "client-key")
        if certificate and key:
            with tempfile.TemporaryDirectory() as folder:  # the ssl module reads key pairs from files only
                pair = Path(folder) / "pair.pem"
                pair.touch(mode=0o600)
                pair.write_bytes(certificate + b"\n" + key)
                context.load_cert_chain(str(pair))
    except (ssl.SSLError, ValueError) as error:
        raise KubeError(f"{path}: a certificate or key cannot be read: {error}") from error
    return context


def _bytes(path: Path, entry: dict[str, Any], field: str) -> bytes:
    """A field's content, given inline as base64 or as the path of a file."""
    inline, file = entry.get(f"{field}-data"), entry.get(field)
    try:
        if inline:
            return base64.b64decode(msgspec.convert(inline, str))
        return _beside(path, file).read_bytes() if file else b""
    except (OSError, binascii.Error, msgspec.ValidationError) as error:
        raise KubeError(f"{path}: field {field}: cannot be read: {error}") from error


def _beside(path: Path, name: str) -> Path:
    return path.parent / name
