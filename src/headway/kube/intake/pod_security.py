"""Kubernetes' Pod Security levels, for the part of a pod that a job's own template adds. Pure.

The API server holds whole pods to the level of their namespace. This holds jobs to a level that the cluster's own
template need not keep. Example: it mounts a folder of the host for checkpoints, and jobs may mount none.

Levels and fields: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

Finding = tuple[str, Any]
"""A field and the value it has."""


class PodSecurity(StrEnum):
    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


_LISTS = ("initContainers", "containers", "ephemeralContainers")
_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    ]
)
_SELINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_VOLUMES = frozenset(
    ["name", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"]
)
_PROFILES = ("RuntimeDefault", "Localhost")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def beyond(level: PodSecurity, own: Mapping[str, Any], merged: Mapping[str, Any]) -> str | None:
    """A sentence about the first field of the job's template that is beyond the level, or that it leaves unset."""
    if level is PodSecurity.PRIVILEGED:
        return None
    found = next(_baseline(own), None)
    if found is None and level is PodSecurity.RESTRICTED:
        found = next(_restricted(_map(own, "spec"), _map(merged, "spec")), None)
    if found is None:
        return None
    field, value = found
    return f"{field}: {str(value)[:60]!r} is beyond Pod Security level {level}, to which jobs are held"


# ── baseline: nothing that leads to the host ────────────────────────────────────────────────────────────────


def _baseline(template: Mapping[str, Any]) -> Iterator[Finding]:
    spec = _map(template, "spec")
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"spec.{field}", spec[field]
    for number, volume in enumerate(_maps(spec, "volumes")):
        if "hostPath" in volume:
            yield f"spec.volumes.{volume.get('name', number)}.hostPath", _map(volume, "hostPath").get("path", "")
    for key, value in _map(_map(template, "metadata"), "annotations").items():
        if str(key).startswith(_APPARMOR) and value != "runtime/default" and not str(value).startswith("localhost/"):
            yield f"metadata.annotations.{key}", value
    yield from _context("spec.securityContext", _map(spec, "securityContext"))
    for at, container in _containers(spec):
        yield from _context(f"{at}.securityContext", _map(container, "securityContext"))
        yield from _ports_and_probes(at, container)


def _context(at: str, context: Mapping[str, Any]) -> Iterator[Finding]:
    if context.get("privileged"):
        yield f"{at}.privileged", True
    if _map(context, "windowsOptions").get("hostProcess"):
        yield f"{at}.windowsOptions.hostProcess", True
    if context.get("procMount", "Default") not in (None, "Default"):
        yield f"{at}.procMount", context["procMount"]
    for name in _list(_map(context, "capabilities"), "add"):
        if str(name) not in _CAPABILITIES:
            yield f"{at}.capabilities.add", name
    for sysctl in _maps(context, "sysctls"):
        if str(sysctl.get("name")) not in _SYSCTLS:
            yield f"{at}.sysctls", sysctl.get("name")
    yield from _profiles(at, context)


def _profiles(at: str, context: Mapping[str, Any]) -> Iterator[Finding]:
    selinux = _map(context, "seLinuxOptions")
    if selinux.get("type", "") not in _SELINUX or selinux.get("user") or selinux.get("role"):
        yield f"{at}.seLinuxOptions", dict(selinux)
    for profile in ("seccompProfile", "appArmorProfile"):
        if profile in context and _map(context, profile).get("type") not in _PROFILES:
            yield f"{at}.{profile}.type", _map(context, profile).get("type")


def _ports_and_probes(at: str, container: Mapping[str, Any]) -> Iterator[Finding]:
    for port in _maps(container, "ports"):
        if port.get("hostPort"):
            yield f"{at}.ports.hostPort", port["hostPort"]
    hooks = [(probe, _map(container, probe)) for probe in ("livenessProbe", "readinessProbe", "startupProbe")]
    lifecycle = _map(container, "lifecycle")
    hooks += [(f"lifecycle.{moment}", _map(lifecycle, moment)) for moment in ("postStart", "preStop")]
    for name, hook in hooks:
        for kind in ("httpGet", "tcpSocket"):
            if _map(hook, kind).get("host"):
                yield f"{at}.{name}.{kind}.host", _map(hook, kind)["host"]


# ── restricted: as far as a container can be held ───────────────────────────────────────────────────────────


def _restricted(own: Mapping[str, Any], merged: Mapping[str, Any]) -> Iterator[Finding]:
    """Forbidden fields of the job's own part; fields that must be set, in the whole pod."""
    for number, volume in enumerate(_maps(own, "volumes")):
        if kinds := set(volume) - _VOLUMES:
            yield f"spec.volumes.{volume.get('name', number)}", min(kinds)
    pod = _map(merged, "securityContext")
    for at, container in _containers(merged):
        context = _map(container, "securityContext")
        yield from _unset(f"{at}.securityContext", context, pod)
        for name in _list(_map(context, "capabilities"), "add"):
            if name != "NET_BIND_SERVICE":
                yield f"{at}.securityContext.capabilities.add", name


def _unset(at: str, context: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[Finding]:
    both = {**pod, **context}
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{at}.allowPrivilegeEscalation", context.get("allowPrivilegeEscalation")
    if both.get("runAsNonRoot") is not True:
        yield f"{at}.runAsNonRoot", both.get("runAsNonRoot")
    if both.get("runAsUser") == 0:
        yield f"{at}.runAsUser", 0
    profile = _map(both, "seccompProfile").get("type")
    if profile not in _PROFILES:
        yield f"{at}.seccompProfile.type", profile
    dropped = _list(_map(context, "capabilities"), "drop")
    if "ALL" not in dropped:
        yield f"{at}.capabilities.drop", dropped


# ── templates of any shape ──────────────────────────────────────────────────────────────────────────────────


def _map(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = holder.get(key)
    return value if isinstance(value, Mapping) else {}


def _list(holder: Mapping[str, Any], key: str) -> list[Any]:
    value = holder.get(key)
    return value if isinstance(value, list) else []


def _maps(holder: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [entry for entry in _list(holder, key) if isinstance(entry, Mapping)]


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _LISTS:
        for number, container in enumerate(_maps(spec, kind)):
            yield f"spec.{kind}.{container.get('name', number)}", container
