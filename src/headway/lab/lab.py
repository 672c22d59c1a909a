"""`Lab`: a real Kubernetes on this machine, as an object. The command line and the test fixtures use it."""

from __future__ import annotations

import shutil
import signal
import ssl
import sys
import time
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Self, Unpack

import msgspec

from headway.lab import (
    build,
    credentials,
    lifecycle,
    machine,
    network,
    paths,
    pods,
    process,
    real_nodes,
    simulated_nodes,
)
from headway.lab.api import Api
from headway.lab.control_plane import AUDIT_LOG, GANG_GROUP
from headway.lab.errors import LabError, Unavailable
from headway.lab.options import LabOptions, needed_programs, state_for
from headway.lab.programs import at_release, check_real_nodes_possible
from headway.lab.state import LabState, check_disk, check_name, load, load_all, read

DISK_BYTES = 500 * 10**6


class PartStatus(msgspec.Struct, frozen=True):
    name: str
    alive: bool
    pid: int | None
    version: str
    port: int
    memory_bytes: int
    log: str


class LabStatus(msgspec.Struct, frozen=True):
    name: str
    url: str
    kubeconfig: str
    up_seconds: float
    healthy: bool
    parts: list[PartStatus]


class Lab:
    """A lab that is up. Make one with `Lab.up`, find one with `Lab.attach`; it stays up until `down`."""

    def __init__(self, state: LabState) -> None:
        self._state = state

    @classmethod
    def up(cls, name: str = "default", **options: Unpack[LabOptions]) -> Self:
        check_name(name)
        if sys.platform != "linux":
            raise Unavailable(f"a lab runs on Linux, not on {sys.platform}")
        state = state_for(name, options)
        if state.kubelets:
            check_real_nodes_possible()
        build.ensure(needed_programs(state))
        check_disk(paths.labs(), DISK_BYTES)
        with paths.locked(paths.labs() / f"{name}.lock"):
            _make_room(name)
            lifecycle.take_down_orphans()
            try:
                lifecycle.prepare(state)
                lifecycle.start_all(state)
                state.ready = True
                state.save()
            except BaseException:
                lifecycle.take_down(state)
                raise
        return cls(state)

    @classmethod
    def attach(cls, name: str = "default") -> Self:
        """Returns the running lab of this name, which another process may have started."""
        state = load(name)
        if state is None:
            raise LabError(f"there is no lab '{name}': start it with `headway lab up`")
        return cls(state)

    @classmethod
    def all(cls) -> list[Self]:
        return [cls(state) for state in load_all()]

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def url(self) -> str:
        return self._state.url

    @property
    def folder(self) -> Path:
        """All files of this lab; removed by `down`."""
        return self._state.folder

    @property
    def kubeconfig(self) -> Path:
        """A cluster administrator's kubeconfig, with a client certificate inside."""
        return self._credentials.kubeconfig("admin")

    @property
    def ca(self) -> Path:
        return self._credentials.authority

    @property
    def certificate(self) -> Path:
        return self._credentials.pair("admin").certificate

    @property
    def key(self) -> Path:
        return self._credentials.pair("admin").key

    @property
    def audit_log(self) -> Path:
        """What service accounts asked of the API server, one JSON object per line; of a lab with `audit`."""
        return self._state.folder / AUDIT_LOG

    @property
    def kubectl(self) -> Path:
        return self.program("kubectl")

    def program(self, name: str) -> Path:
        """The path of a program in the lab's release, such as `kubectl` or `helm`; built when it is first asked for."""
        build.ensure([at_release(name, self._state.kubernetes)])
        return self._state.program(name)

    def load_image(self, archive: Path) -> None:
        """Gives every real node an image: an archive of an OCI layout, or of `docker save`."""
        if not self._state.kubelets:
            raise LabError("images are for real nodes: start a lab with kubelets")
        if not archive.is_file():
            raise LabError(f"{archive}: there is no such file")
        for node in range(1, self._state.kubelets + 1):
            real_nodes.load_image(self._state, node, archive)

    @property
    def node_names(self) -> list[str]:
        """The real nodes."""
        return [f"node-{number}" for number in range(1, self._state.kubelets + 1)]

    @property
    def host_address(self) -> str:
        """The address at which pods on real nodes reach servers of this machine. Listen on it, or on 0.0.0.0."""
        network = self._state.network
        return network.gateway(1) if network else self._state.address

    @property
    def shared(self) -> Path:
        """A folder that pods made from `pod_template` may write to, at the same path as on the host."""
        folder = self._state.folder / "shared"
        folder.mkdir(exist_ok=True)
        return folder

    @cached_property
    def api(self) -> Api:
        """A small synchronous client, as administrator."""
        return Api(self.url, self.ssl_context())

    @cached_property
    def gang_version(self) -> str:
        """The newest version of `scheduling.k8s.io` that serves PodGroups; empty in a lab without gangs."""
        for version in self.api.get(f"/apis/{GANG_GROUP}")["versions"]:
            served = self.api.get(f"/apis/{version['groupVersion']}")["resources"]
            if any(resource["name"] == "podgroups" for resource in served):
                return str(version["version"])
        return ""

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as administrator, for aiohttp and the standard library."""
        return credentials.client_context(self.ca, self._credentials.pair("admin"))

    def pod_template(
        self,
        paths: Iterable[str | Path] = (),
        *,
        python: str | Path | None = None,
        writable: Iterable[str | Path] = (),
        shared_at: str = "",
    ) -> dict[str, Any]:
        """A pod template that runs a Python of this machine (default: this one) and sees `paths` read-only.

        Pods can write to `lab.shared`, at the same path or at `shared_at`, and to `writable`. Add `command` and
        `resources` to its container.
        """
        return pods.pod_template(
            read_only=[Path(path) for path in paths],
            writable={self.shared: shared_at or str(self.shared)} | {Path(one): str(one) for one in writable},
            python=Path(python) if python else pods.this_python(),
        )

    def store(self, folder: str, objects: Iterable[dict[str, Any]]) -> int:
        """Stores new objects as they are, past the API server, for example with a time of creation of one's own.

        `folder` is that of the API server's registry, such as `pods/default`. Returns the last resource version.
        """
        return simulated_nodes.store(self._state, folder, objects)

    def create_namespace(self, name: str) -> None:
        """Creates a namespace and waits until pods can be created in it."""
        self.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        lifecycle.wait_for_account(self._state, self.api, name)

    def _reread(self) -> None:
        """Reads the state again: another process may have restarted parts."""
        self._state = read(self._state.folder / "lab.json") or self._state

    def status(self) -> LabStatus:
        self._reread()
        parts = [
            PartStatus(
                name=part.name,
                alive=part.alive,
                pid=part.process.pid if part.process and part.alive else None,
                version=part.version,
                port=part.port,
                memory_bytes=process.memory_bytes(part.process) if part.process and part.alive else 0,
                log=str(self._state.log(part.name)),
            )
            for part in self._state.parts
        ]
        return LabStatus(
            name=self.name,
            url=self.url,
            kubeconfig=str(self.kubeconfig),
            up_seconds=time.time() - self._state.created,
            healthy=self._state.ready and all(part.alive for part in parts),
            parts=parts,
        )

    def log(self, part: str) -> Path:
        return self._state.log(self._state.part(part).name)

    def kill(self, part: str, *, silent: bool = False) -> None:
        """Kills a part at once, as a crash would. `node-N` is a whole real node with its containers.

        With `silent` its network goes first, as when a node is powered off: connections to it hang, they do not end.
        """
        self._reread()
        if silent:
            network.switch(self._state, int(part.removeprefix("node-")), on=False)
        for name in self._members(part):
            target = self._state.part(name).process
            if target is not None:
                process.send(target, signal.SIGKILL)
                process.wait_gone([target], 10)
        if part in self.node_names:
            machine.kill_node(self._state, int(part.removeprefix("node-")))

    def start(self, part: str) -> None:
        """Starts a part that was killed, and does not wait until it works."""
        self._reread()
        for name in self._members(part):
            lifecycle.start(self._state, self._state.part(name))

    def restart(self, part: str) -> None:
        """Ends a part in order, which takes seconds for the API server; starts it again and waits until it works."""
        self._reread()
        for name in reversed(self._members(part)):
            running = self._state.part(name).process
            if running is not None:
                process.end([running], grace_seconds=15)
        if part in self.node_names:
            network.switch(self._state, int(part.removeprefix("node-")), on=True)
        for name in self._members(part):
            lifecycle.start(self._state, self._state.part(name))
        if part in {"etcd", "kube-apiserver"}:
            lifecycle.wait_for_data(self._state)
        if part.startswith(("node-", "kubelet-")):
            lifecycle.wait_for_node(self._state, int(part.rpartition("-")[2]))

    def down(self) -> None:
        """Ends everything that the lab started, and nothing else. Removes its files."""
        if "api" in self.__dict__:
            self.api.close()
        self._reread()
        with paths.locked(Path(self._state.root) / f"{self.name}.lock"):
            lifecycle.take_down(self._state)

    @property
    def _credentials(self) -> credentials.Credentials:
        return credentials.of(self._state)

    def _members(self, part: str) -> list[str]:
        if part in self.node_names:
            number = part.removeprefix("node-")
            return [f"containerd-{number}", f"kubelet-{number}"]
        return [self._state.part(part).name]


def _make_room(name: str) -> None:
    """Raises if a lab of this name runs; removes what a dead one left behind."""
    existing = load(name)
    if existing is None:
        shutil.rmtree(paths.labs() / name, ignore_errors=True)
    elif any(part.alive for part in existing.parts):
        raise LabError(f"lab '{name}' is already up at {existing.url}: end it with `headway lab down --name {name}`")
    else:
        lifecycle.take_down(existing)
