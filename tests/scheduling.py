"""`headway schedule` on the lab, for one namespace of it, as a process that a test can kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import pytest
import yaml

import headway

HERE = Path(__file__).parent / "kube"
SOURCE = Path(headway.__path__[0]).parent
HEADWAY = [sys.executable, "-c", "from headway.cli import main; main()"]
TRAINING = "/apis/headway.dev/v1alpha1/namespaces/{}/trainingjobs"


@dataclass
class Schedule:
    """`headway schedule` for one namespace."""

    lab: object
    namespace: str
    folder: Path
    port: int
    process: subprocess.Popen | None = None
    output: list[Path] = field(default_factory=list)
    code: list[Path] = field(default_factory=lambda: [HERE, SOURCE])
    """Folders that its pods see."""
    fixed: list[str] = field(default_factory=list)
    """Fields that templates of jobs may not set."""

    @property
    def log(self) -> Path:
        return self.folder / "run.log"

    def start(self, *options: str) -> None:
        self.output.append(self.folder / f"output-{len(self.output)}")
        template = self.folder / "template.yaml"
        pod = self.lab.pod_template(paths=self.code)
        main = pod["spec"]["containers"][0]
        main["env"] = [one for one in main["env"] if one["name"] != "PYTHONPATH"]
        main["env"].append({"name": "PYTHONPATH", "value": str(SOURCE)})
        template.write_text(json.dumps(pod | {"fixed": self.fixed}))
        command = [
            *HEADWAY, "schedule", "--kubeconfig", str(self.kubeconfig()), "--namespace", self.namespace,
            "--policy", f"{HERE / 'script.py'}:scripted", "--log", str(self.log), "--template", str(template),
            "--checkpoints", str(self.lab.shared / self.namespace), "--progress-seconds", "1",
            "--progress-listen", f"0.0.0.0:{self.port}",
            "--progress-address", f"{self.lab.host_address}:{self.port}", *options,
        ]  # fmt: skip
        with self.output[-1].open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=_environment())

    def kubeconfig(self) -> Path:
        """With the rights of the shipped role and no more."""
        path = self.folder / "kubeconfig"
        if not path.exists():
            account = "/api/v1/namespaces/headway-system/serviceaccounts/headway/token"
            asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            token = self.lab.api.post(account, asked)["status"]["token"]
            config = yaml.safe_load(self.lab.kubeconfig.read_bytes())
            config["users"][0]["user"] = {"token": token}
            path.write_text(json.dumps(config))
        return path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def words(self) -> str:
        return "\n".join(path.read_text() for path in self.output)

    # ── jobs ──

    def submit(self, name: str, roles: dict, arguments: list[str], **spec: object) -> None:
        command = ["python", str(HERE / "trainer.py"), *arguments]
        for role in roles.values():
            role.setdefault("cpu", "100m")
            role.setdefault("memory", "64Mi")
            role.setdefault("command", command)
        body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}}
        self.lab.api.post(TRAINING.format(self.namespace), {**body, "spec": {"roles": roles, **spec}})

    def job(self, name: str) -> dict:
        return self.lab.api.get(f"{TRAINING.format(self.namespace)}/{name}")

    def phase(self, name: str) -> str:
        return self.job(name).get("status", {}).get("phase", "")

    def pods(self, name: str = "") -> list[dict]:
        query = f"?labelSelector=headway.dev/job={name}" if name else ""
        return self.lab.api.get(f"/api/v1/namespaces/{self.namespace}/pods{query}")["items"]

    def story(self, name: str) -> list[str]:
        folders = list((self.lab.shared / self.namespace / self.namespace).glob(f"{name}-*"))
        assert len(folders) == 1, folders
        return (folders[0] / "story").read_text().splitlines()

    def has_saved(self, name: str) -> bool:
        stories = (self.lab.shared / self.namespace / self.namespace).glob(f"{name}-*/story")
        return any(" saved " in story.read_text() for story in stories)

    def wait(self, name: str, *phases: str, seconds: float = 180) -> dict:
        deadline = time.monotonic() + seconds
        while (job := self.job(name)).get("status", {}).get("phase") not in phases:
            assert time.monotonic() < deadline, f"{name} is {job.get('status')}, not {phases}\n{self.words()}"
            assert self.process is None or self.process.poll() is None, self.words()
            time.sleep(0.2)
        return job

    def replay(self) -> subprocess.CompletedProcess:
        return run_headway("replay", str(self.log))


def run_headway(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*HEADWAY, *arguments], capture_output=True, text=True, env=_environment(), check=False)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


@pytest.fixture(scope="session")
def installed(lab):
    done = run_headway("schedule", "--install", "--kubeconfig", str(lab.kubeconfig))
    assert done.returncode == 0, done.stderr
    return lab


@pytest.fixture
def schedule(installed, namespace, tmp_path):
    with socket.create_server(("", 0)) as probe:
        port = probe.getsockname()[1]
    schedule = Schedule(installed, namespace, tmp_path, port)
    yield schedule
    if schedule.process is not None and schedule.process.poll() is None:
        schedule.kill()
    installed.api.delete(TRAINING.format(namespace))


@pytest.fixture
def measured(schedule):
    """The account of the tests may ask kubelets, as `headway schedule --install --measure kubelet` grants it."""
    manifests = resources.files("headway.kube") / "manifests/rbac-kubelet.yaml"
    made = []
    for one in yaml.safe_load_all(manifests.read_text().replace("NAMESPACE", "headway-system")):
        path = f"/apis/rbac.authorization.k8s.io/v1/{one['kind'].lower()}s"
        schedule.lab.api.post(path, one)
        made.append(f"{path}/{one['metadata']['name']}")
    yield schedule
    for path in made:
        schedule.lab.api.delete(path)
