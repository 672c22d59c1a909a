"""A lab's life on this machine: up, faults, crashes, several at once, and nothing left behind."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.lab import Lab, LabError, Unavailable, paths, process, programs, state
from headway.lab.api import Api, LabApiError

pytestmark = pytest.mark.lab


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """A state folder of the test's own; whatever is left in it afterwards is taken down."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield paths.labs()
    for left in Lab.all():
        left.down()


def unique(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(3)}"


def traces(identity: str, mark: str) -> list[str]:
    """All signs of one lab on this machine."""
    found = [f"process {one.pid}" for one in process.marked(mark)]
    found += [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if identity in line or mark in line
    ]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/headway-lab-{identity}")]
    found += [str(path) for path in paths.RUN_ROOT.glob(identity)]
    for folder in ("/var/lib/cni", "/run/containerd", "/var/log/containers"):
        found += [str(path) for path in Path(folder).rglob("*") if identity in f"{path} {path.resolve()}"]
    if Path(mark).exists():
        found.append(mark)
    return found


def shim_sockets(one: state.LabState) -> list[Path]:
    """Of this lab only: others may come and go on the machine meanwhile."""
    notes = one.run_folder.glob("*/state/io.containerd.runtime.v2.task/*/*/address")
    return [Path(note.read_text().removeprefix("unix://")) for note in notes]


def bridges(one: state.LabState) -> list[str]:
    assert one.network is not None
    return [path.name for path in Path("/sys/class/net").glob(f"hwlab{one.network.block}-*")]


def test_the_api_answers_only_with_a_certificate(control_plane):
    assert control_plane.api.get("/version")["gitVersion"] == "v1.36.3"
    stranger = Api(control_plane.url, ssl.create_default_context(cafile=str(control_plane.ca)))
    with pytest.raises(LabApiError) as refused:
        stranger.get("/api/v1/nodes")
    assert refused.value.status == 403
    distrustful = Api(control_plane.url, ssl.create_default_context())
    with pytest.raises(ssl.SSLCertVerificationError):
        distrustful.get("/version")
    stranger.close()
    distrustful.close()


def test_etcd_refuses_clients_of_the_api_server(control_plane):
    port = next(part.port for part in control_plane.status().parts if part.name == "etcd")
    context = ssl.create_default_context(cafile=str(control_plane.ca.parent / "etcd" / "ca.crt"))
    context.load_cert_chain(str(control_plane.certificate), str(control_plane.key))
    intruder = Api(f"https://127.0.0.1:{port}", context)
    with pytest.raises(OSError, match=r"(?i)ssl|reset|alert|broken"):
        intruder.get("/health")
    intruder.close()


def test_a_killed_part_is_seen_and_restarted_with_its_data(control_plane):
    name = unique("kept")
    control_plane.create_namespace(name)
    for part in ("kube-apiserver", "etcd"):
        control_plane.kill(part)
        status = control_plane.status()
        assert not status.healthy
        assert [one.name for one in status.parts if not one.alive] == [part]
        control_plane.restart(part)
        assert _answer(control_plane, f"/api/v1/namespaces/{name}")["metadata"]["name"] == name
        assert _soon_healthy(control_plane)


def _answer(lab, path, seconds=120):
    """On a loaded machine the API server may need longer than one request's time to find its etcd again."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            return lab.api.get(path)
        except OSError:
            if time.monotonic() > give_up:
                raise


def _soon_healthy(lab, seconds=120):
    give_up = time.monotonic() + seconds
    while not lab.status().healthy and time.monotonic() < give_up:
        time.sleep(0.2)
    return lab.status().healthy


def test_a_second_lab_of_the_same_name_is_refused(control_plane):
    with pytest.raises(LabError, match=r"is already up at https://127\.0\.0\.1:"):
        Lab.up(control_plane.name)
    assert _soon_healthy(control_plane)


def test_a_taken_port_is_told_and_nothing_is_left(own_state):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LabError, match=f"port {port} is taken"):
            Lab.up(unique("port"), port=port)
    assert list(own_state.iterdir()) == []


def test_no_disk_space_is_told_and_nothing_is_left(own_state, monkeypatch):
    monkeypatch.setattr("headway.lab.lab.DISK_BYTES", 10**18)
    with pytest.raises(LabError, match="a lab needs 1000000000000 MB of disk"):
        Lab.up(unique("disk"))
    assert list(own_state.iterdir()) == []


def test_without_root_kubelets_are_refused(own_state, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match="real nodes need root"):
        Lab.up(unique("user"), kubelets=1)


def test_missing_packages_are_named(own_state, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(programs, "system_program", lambda name: None if name == "runc" else f"/usr/bin/{name}")
    monkeypatch.setattr(programs, "cni_folder", lambda: None)
    with pytest.raises(Unavailable, match=r"headway lab deps.*\(runc containernetworking-plugins\)"):
        Lab.up(unique("deps"), kubelets=1)


def test_a_part_that_cannot_start_is_told_with_its_last_words(own_state, monkeypatch, tmp_path):
    broken = tmp_path / "kube-scheduler"
    broken.write_text("#!/bin/sh\necho 'Error: this scheduler is broken'\nexit 1\n")
    broken.chmod(0o755)
    from headway.lab import state

    find = state.find
    monkeypatch.setattr(state, "find", lambda name: broken if name == "kube-scheduler" else find(name))
    with pytest.raises(LabError, match="kube-scheduler ended while starting: Error: this scheduler is broken"):
        Lab.up(unique("broken"))
    assert list(own_state.iterdir()) == []


def test_a_damaged_state_file_is_told(own_state):
    folder = own_state / "damaged"
    folder.mkdir(parents=True)
    (folder / "lab.json").write_text("{")
    with pytest.raises(LabError, match=r"damaged/lab.json cannot be read"):
        Lab.attach("damaged")
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["", "Upper", "../up", "-a", "x" * 40])
def test_bad_names_are_refused(own_state, name):
    with pytest.raises(LabError, match="cannot name a lab"):
        Lab.up(name)


CRASH = """
import sys
from headway.lab import Lab
print("begun", flush=True)
Lab.up(sys.argv[1], kubelets=2, owned=True)
print("up", flush=True)
"""


@pytest.mark.usefixtures("lab")  # skipped where that one is; and shows that two labs live side by side
@pytest.mark.parametrize("after_seconds", [0.4, 1.0, 2.5, 4.5])
def test_down_after_a_crash_at_any_moment_leaves_nothing(own_state, after_seconds):
    name = unique("crash")
    starter = subprocess.Popen([sys.executable, "-c", CRASH, name], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    assert starter.stdout.readline() == "begun\n"
    time.sleep(after_seconds)
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    left = state.load(name)
    if left is not None:
        Lab.attach(name).down()
        assert traces(left.identity, left.mark) == []
        assert left.network is None or bridges(left) == []


def test_a_lab_with_pods_and_dead_parts_goes_away_without_a_trace(lab, own_state):
    """Beside another lab with real nodes, which must not notice."""
    other = Lab.up(unique("gone"), kubelets=2, kubelet_cpus=1)
    known = state.load(other.name)
    assert known is not None
    started, sockets = run_sleepers(other), shim_sockets(known)
    assert len(sockets) >= 2
    assert len(bridges(known)) == 2
    other.kill("containerd-1")
    other.kill("kubelet-2")
    began = time.monotonic()
    other.down()
    assert time.monotonic() - began < 25  # no part that is dead is waited for
    assert traces(known.identity, known.mark) == []
    assert bridges(known) == []
    assert not any(socket.exists() for socket in sockets)
    assert not any(process.current(pid) for pid in started), "a container outlived its lab"
    assert lab.status().healthy
    assert len(lab.api.get("/api/v1/nodes")["items"]) == 2


def run_sleepers(one: Lab) -> list[int]:
    """A pod on each node; the pids of their processes as the host sees them."""
    word = secrets.token_hex(8)
    for node in one.node_names:
        spec = one.pod_template()["spec"] | {"nodeName": node}
        spec["containers"][0]["command"] = ["sh", "-c", f"trap '' TERM; : {word}; while :; do sleep 1; done"]
        one.api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": f"on-{node}"}, "spec": spec})
    deadline = time.monotonic() + 120
    while len(found := pids_with(word)) < 2:
        assert time.monotonic() < deadline, "the pods do not run"
        time.sleep(0.1)
    return found


def pids_with(word: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_an_orphan_is_taken_down_by_the_next_up(own_state):
    code = CRASH.replace("kubelets=2, ", "")
    orphan, following = unique("orphan"), unique("next")
    subprocess.run([sys.executable, "-c", code, orphan], check=True, capture_output=True)
    left = state.load(orphan)
    assert left is not None
    assert all(part.alive for part in left.parts)
    lab = Lab.up(following)
    assert [one.name for one in Lab.all()] == [following]
    assert traces(left.identity, left.mark) == []
    lab.down()


def test_a_node_that_died_with_its_pods_comes_back(lab, namespace):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = lab.pod_template()["spec"] | {"nodeName": "node-2"}
    word = secrets.token_hex(8)
    spec["containers"][0]["command"] = ["sh", "-c", f": {word}; while :; do sleep 1; done"]
    lab.api.post(pods, {"metadata": {"name": "phoenix"}, "spec": spec})
    wait_until(lambda: len(pids_with(word)) == 1)
    first = pids_with(word)
    lab.kill("node-2")
    wait_until(lambda: pids_with(word) == [])
    lab.restart("node-2")
    wait_until(lambda: len(pids_with(word)) == 1 and pids_with(word) != first)
    restarts = lab.api.get(f"{pods}/phoenix")["status"]["containerStatuses"][0]["restartCount"]
    assert restarts >= 0
    assert lab.status().healthy


def wait_until(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
