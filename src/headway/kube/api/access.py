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
from headway.kube.api.exec_credential import ExecCredential

Files = list[tuple[Path, dict[str, Any]]]
IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    url: str
    tls: ssl.SSLContext | None
    namespace: str = "default"
    token: str = ""
    token_file: Path | None = None
    """Read again for every request: a service account's token is renewed in place."""
    program: ExecCredential | None = None
    """Gives tokens, and another one before the last expires."""

    def is_at_hand(self) -> bool:
        """Whether `authorization` answers at once; else a program is asked, and a person may have to log in."""
        return self.program is None or self.program.is_at_hand()

    def authorization(self) -> str:
        if self.program is not None:
            token = self.program.status().token
        else:
            token = self.token_file.read_text().strip() if self.token_file is not None else self.token
        return f"Bearer {token}" if token else ""


def load_access(kubeconfig: Path | None = None, context: str = "") -> Access:
    """Takes the first of: the given file, those of `KUBECONFIG`, a pod's service account, `~/.kube/config`."""
    named = [Path(one) for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    if kubeconfig is None and not named and (IN_POD / "token").exists():
        return _in_pod()
    if kubeconfig is not None or not named:
        named = [kubeconfig or Path.home() / ".kube" / "config"]
    there = [path for path in named if path.exists()] or named[:1]
    return _from_files([(path, _read(path)) for path in there], context)


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


def _read(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise KubeError(f"{path}: the kubeconfig cannot be read: {error.strerror}; give --kubeconfig") from error
    except yaml.YAMLError as error:
        raise KubeError(f"{path}: is not valid YAML; a kubeconfig is needed") from error
    if not isinstance(config, dict):
        raise KubeError(f"{path}: is not a kubeconfig: must be a YAML map with clusters, contexts and users")
    return config


def _from_files(files: Files, context: str) -> Access:
    """As kubectl merges them: the first file that has a name counts."""
    chosen = context or next((str(name) for _, one in files if (name := one.get("current-context"))), "")
    _, entry = _named(files, "contexts", "context", chosen)
    at, cluster = _named(files, "clusters", "cluster", entry.get("cluster", ""))
    path, user = _named(files, "users", "user", entry["user"]) if entry.get("user") else (at, {})
    url = str(cluster.get("server", "")).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise KubeError(f"{at}: cluster {entry.get('cluster')!r}: field server: must be an http(s) address")
    where, program = f"{path}: user {entry.get('user')!r}", None
    if user.get("auth-provider"):
        raise KubeError(f"{where}: field auth-provider: is not supported; use exec, a certificate or a token")
    if user.get("exec"):
        program = ExecCredential.read(where, path.parent, user["exec"], cluster)
    token_file = user.get("tokenFile")
    return Access(
        url=url, tls=_tls((at, cluster), (path, user), program) if url.startswith("https") else None,
        namespace=entry.get("namespace") or "default", token=str(user.get("token", "")),
        token_file=_beside(path, token_file) if token_file else None, program=program,
    )  # fmt: skip


def _named(files: Files, listing: str, key: str, name: str) -> tuple[Path, dict[str, Any]]:
    for path, config in files:
        for entry in config.get(listing) or []:
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key), dict):
                return path, entry[key]
    where = ", ".join(str(path) for path, _ in files)
    raise KubeError(f"{where}: field {listing}: there is no {key} {name!r}")


def _tls(
    at: tuple[Path, dict[str, Any]], of: tuple[Path, dict[str, Any]], program: ExecCredential | None
) -> ssl.SSLContext:
    (path, cluster), (beside, user) = at, of
    authority = _bytes(path, cluster, "certificate-authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _bytes(beside, user, "client-certificate"), _bytes(beside, user, "client-key")
        if program is not None:
            given = program.status()
            certificate, key = given.clientCertificateData.encode(), given.clientKeyData.encode()
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
