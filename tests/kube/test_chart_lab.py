"""The chart's own Deployment on real kubelets, under its own role: installed, upgraded, rolled back, uninstalled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headway.lab import Lab, LabError
from headway.lab.api import LabApiError
from headway.lab.programs import locate
from headway.lab.testing import up_for_test
from scheduling import HERE, SOURCE, TRAINING

ROOT = Path(__file__).parents[2]
CHART, BUILD = ROOT / "charts/headway", ROOT / "deploy/image/build.py"
SYSTEM, TEAM = "headway-system", "team"
pytestmark = [
    pytest.mark.lab, pytest.mark.timeout(600),
    pytest.mark.skipif(locate("helm") is None, reason="helm is not built: headway lab build helm"),
]  # fmt: skip
JOBS = TRAINING.format(TEAM)


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    """As a release makes it. The packages are the newest: a lock may name what the mirror no longer has."""
    out = tmp_path_factory.mktemp("image") / "headway-image.tar"
    command = [sys.executable, str(BUILD), "--out", str(out), "--unlocked"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size < 300e6
    return out


@pytest.fixture(scope="module")
def lab(image):
    """With kube-proxy, of which a machine can have one: another test may hold it."""
    give_up = time.monotonic() + 300.0
    while True:
        try:
            lab = Lab.up(f"test-{os.getpid()}-chart", kubelets=2, kubelet_cpus=2, proxy=True, owned=True)
            break
        except LabError as error:
            if "kube-proxy already" not in str(error) or time.monotonic() > give_up:
                lab = up_for_test("chart", kubelets=2, kubelet_cpus=2, proxy=True)  # it fails or skips as all do
                break
            time.sleep(2.0)
    lab.load_image(image)
    lab.create_namespace(TEAM)
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def values(lab, tmp_path_factory) -> Path:
    template = lab.pod_template(paths=[HERE, SOURCE])
    main = template["spec"]["containers"][0]
    main["env"] = [one for one in main["env"] if one["name"] != "PYTHONPATH"]
    main["env"].append({"name": "PYTHONPATH", "value": str(SOURCE)})
    small = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    file = tmp_path_factory.mktemp("values") / "values.yaml"
    file.write_text(json.dumps({
        "template": template, "checkpoints": str(lab.shared / TEAM), "measure": "off", "resources": small,
        "image": {"pullPolicy": "Never"}, "extraArgs": ["--progress-seconds=1"],
    }))  # fmt: skip
    return file


def helm(lab, *words: str) -> str:
    done = subprocess.run(
        [lab.program("helm"), *words, "--namespace", SYSTEM, "--kubeconfig", str(lab.kubeconfig)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.stderr}\n{story(lab)}"
    return done.stdout


def story(lab) -> str:
    """What pods of Headway say."""
    said = []
    for pod in lab.api.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]:
        name = pod["metadata"]["name"]
        said.append(f"{name}: {json.dumps(pod['status'].get('containerStatuses', pod['status']))}")
        try:
            said.append(lab.api.get(f"/api/v1/namespaces/{SYSTEM}/pods/{name}/log"))
        except Exception as error:  # noqa: BLE001  it only helps to understand a failure
            said.append(str(error))
    return "\n".join(map(str, said))


def submit(lab, name: str, steps: int) -> None:
    command = ["python", str(HERE / "trainer.py"), "--steps", str(steps)]
    roles = {"worker": {"replicas": 2, "cpu": "100m", "memory": "64Mi", "command": command}}
    body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}}
    lab.api.post(JOBS, {**body, "spec": {"roles": roles}})


def wait(lab, name: str, phase: str, seconds: float = 120.0) -> dict:
    deadline = time.monotonic() + seconds
    while (job := lab.api.get(f"{JOBS}/{name}")).get("status", {}).get("phase") != phase:
        assert time.monotonic() < deadline, f"{job.get('status')}\n{story(lab)}"
        time.sleep(0.3)
    return job


def pods(lab, name: str) -> dict[str, int]:
    """By uid: how often its container was started again."""
    found = lab.api.get(f"/api/v1/namespaces/{TEAM}/pods?labelSelector=headway.dev/job={name}")["items"]
    return {
        pod["metadata"]["uid"]: pod["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) for pod in found
    }


def names(lab, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in lab.api.get(f"/apis/{path}")["items"]]


def leader(lab) -> str:
    lease = lab.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/headway")
    return lease["spec"]["holderIdentity"].partition("/")[0]


def test_from_install_to_uninstall_no_training_is_touched(lab, values):
    helm(lab, "uninstall", "headway", "--ignore-not-found", "--wait")  # where this is a second try
    with suppress(LabApiError):  # the CRD is not there yet
        lab.api.delete(JOBS)
    began = time.monotonic()
    said = helm(lab, "install", "headway", str(CHART), "--create-namespace", "-f", str(values), "--wait")
    assert "schedules TrainingJobs of all namespaces" in said
    submit(lab, "first", 10)
    wait(lab, "first", "Running")
    assert time.monotonic() - began < 120.0, "from helm install to the first running job"
    wait(lab, "first", "Succeeded")

    submit(lab, "long", 2400)
    wait(lab, "long", "Running")
    before, old = pods(lab, "long"), leader(lab)
    helm(lab, "upgrade", "headway", str(CHART), "-f", str(values), "--set", "settings={trial=60}", "--wait")
    assert (new := leader(lab)) != old
    step = wait(lab, "long", "Running")["status"]["progress"]["step"]
    deadline = time.monotonic() + 90.0
    while lab.api.get(f"{JOBS}/long")["status"]["progress"]["step"] <= step:
        assert time.monotonic() < deadline, f"progress goes on with the new leader\n{story(lab)}"
        time.sleep(0.5)
    helm(lab, "rollback", "headway", "--wait")
    assert leader(lab) != new
    assert pods(lab, "long") == before, "an upgrade and a rollback leave every pod untouched"

    helm(lab, "uninstall", "headway", "--wait")
    assert pods(lab, "long") == before, "training goes on without Headway"
    assert lab.api.get(f"{JOBS}/long")["status"]["phase"] == "Running"
    assert not [
        role for role in names(lab, "rbac.authorization.k8s.io/v1/clusterroles") if role.startswith("headway-sch")
    ]
    assert "trainingjobs.headway.dev" in names(lab, "apiextensions.k8s.io/v1/customresourcedefinitions")
    helm(lab, "install", "headway", str(CHART), "-f", str(values), "--wait")
    wait(lab, "long", "Succeeded", 180.0)
