"""Real nodes: a containerd and a kubelet each, with their own folders, sockets, cgroups and network.

Two kubelets must not share a containerd: each would end the pods of the other as unknown.
"""

from __future__ import annotations

import http
import http.client
import json
import os
import subprocess
import time
from pathlib import Path

from headway.lab import credentials, network
from headway.lab.errors import LabError
from headway.lab.machine import node_cgroup
from headway.lab.pods import BASE_IMAGE, write_archive
from headway.lab.programs import cni_folder, reported_version, required_program
from headway.lab.state import LabState, Part

KUBELET_PORT, HEALTH_PORT = 10250, 10248
"""The default ports: each node has an address of its own."""
TOO_EARLY = "validate CRI v1 runtime API"
"""The error of a kubelet that starts before containerd answers on its socket."""


def socket_path(state: LabState, node: int) -> Path:
    return state.run_folder / f"node-{node}" / "containerd.sock"


def folder(state: LabState, node: int) -> Path:
    return state.folder / f"node-{node}"


def parts(state: LabState, node: int) -> list[Part]:
    """Writes the configuration of the containerd and kubelet of one node; returns both parts."""
    home = folder(state, node)
    for path in (home / "cni", home / "kubelet", home / "pod-logs", socket_path(state, node).parent):
        path.mkdir(parents=True, exist_ok=True)
    (home / "cni" / "10-lab.conflist").write_text(json.dumps(network.container_network(state, node)))
    (home / "containerd.toml").write_text(_containerd_config(state, node))
    (home / "kubelet.json").write_text(json.dumps(_kubelet_config(state, node), indent=2))
    containerd = Path(required_program("containerd"))
    flags = {
        "config": home / "kubelet.json",
        "kubeconfig": credentials.of(state).kubeconfig(f"kubelet-{node}"),
        "hostname-override": f"node-{node}",
        "node-ip": _gateway(state, node),
        "root-dir": _short_root(state, node),
        "cert-dir": home / "kubelet" / "pki",
        "node-labels": f"headway.dev/lab={state.name},headway.dev/real=true",
    }
    kubelet = state.flagged_part("kubelet", flags, KUBELET_PORT)
    kubelet.name = f"kubelet-{node}"
    return [
        Part(
            name=f"containerd-{node}",
            argv=[str(containerd), "--config", str(home / "containerd.toml")],
            version=reported_version(containerd),
        ),
        kubelet,
    ]


def _short_root(state: LabState, node: int) -> Path:
    """A short name for the kubelet's root folder: it creates sockets there, and the path of a socket is limited."""
    link = state.run_folder / f"node-{node}" / "kubelet"
    if not link.is_symlink():
        link.symlink_to(folder(state, node) / "kubelet")
    return link


def is_healthy(state: LabState, node: int) -> bool:
    """Whether the health check of the kubelet succeeds."""
    connection = http.client.HTTPConnection(_gateway(state, node), HEALTH_PORT, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def import_image(state: LabState, node: int) -> None:
    """Imports the image of the lab into the node's containerd, as soon as it answers."""
    archive = state.folder / "image.tar"
    if not archive.exists():
        partial = archive.with_suffix(f".{os.getpid()}-{node}")
        write_archive(partial)
        partial.rename(archive)
    load_image(state, node, archive)


def load_image(state: LabState, node: int, archive: Path) -> None:
    """Gives the node's containerd an image: an archive of an OCI layout, or of `docker save`."""
    command = [required_program("ctr"), "--address", str(socket_path(state, node)), "-n", "k8s.io"]
    command += ["images", "import", "--snapshotter", "native", str(archive)]
    deadline = time.monotonic() + 20
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline:
            raise LabError(f"containerd of node-{node} does not take the image: {done.stderr.strip()}")
        time.sleep(0.1)


def _gateway(state: LabState, node: int) -> str:
    assert state.network is not None
    return state.network.gateway(node)


def _containerd_config(state: LabState, node: int) -> str:
    """`native` snapshots copy the image, which is small, and so work on any file system, also on an overlay."""
    home, socket = folder(state, node), socket_path(state, node)
    return f"""version = 2
root = "{home / "containerd"}"
state = "{socket.parent / "state"}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{BASE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_folder()}"
    conf_dir = "{home / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"{_base_spec(state, node)}
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{socket.parent / "runc"}"
"""


def _base_spec(state: LabState, node: int) -> str:
    """Lets every container begin with a cpuset of the node's own cores.

    The cgroup of the node cannot have it: kubelet gives all cores of the machine to the cgroup below.
    """
    if not state.cores:
        return ""
    told = subprocess.run([required_program("ctr"), "oci", "spec"], capture_output=True, check=False)
    if told.returncode != 0:
        raise LabError(f"`ctr oci spec` failed: {told.stderr.decode().strip()}")
    spec = json.loads(told.stdout)
    spec["linux"]["resources"]["cpu"] = {"cpus": ",".join(map(str, state.cores[node - 1]))}
    path = folder(state, node) / "base-spec.json"
    path.write_text(json.dumps(spec, indent=2))
    return f'\n      base_runtime_spec = "{path}"'


def _kubelet_config(state: LabState, node: int) -> dict[str, object]:
    made, home = credentials.of(state), folder(state, node)
    serving = made.pair(f"kubelet-{node}-serving")
    config: dict[str, object] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": _gateway(state, node),
        "port": KUBELET_PORT,
        "healthzBindAddress": _gateway(state, node),
        "healthzPort": HEALTH_PORT,
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(made.authority)}},
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{socket_path(state, node)}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node_cgroup(state, node),
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "podLogsDir": str(home / "pod-logs"),
        "volumePluginDir": str(home / "plugins"),
        "clusterDomain": "cluster.local",
        "clusterDNS": [_gateway(state, 1)],
    }
    offered = state.kubelet_cpus
    if offered is None and state.cores:
        offered = len(state.cores[node - 1])
    if offered is not None:
        reserved = max(0, round(1000 * ((os.cpu_count() or 1) - offered)))
        config["systemReserved"] = {"cpu": f"{reserved}m"}
    return config
