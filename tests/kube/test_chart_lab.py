"""The chart's own Deployment on real kubelets, under its own role, as docs/install.md says: command by command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headway.lab import Lab, LabError
from headway.lab.api import LabApiError
from headway.lab.testing import up_for_test
from helm import needs_helm
from scheduling import HERE, SOURCE, TRAINING

ROOT = Path(__file__).parents[2]
PAGE, BUILD = ROOT / "docs/install.md", ROOT / "deploy/image/build.py"
ACCOUNT = "system:serviceaccount:headway-system:headway"
SYSTEM, TEAM = "headway-system", "team"
pytestmark = [
    pytest.mark.lab, pytest.mark.timeout(900),
    needs_helm,
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
def folder(lab, tmp_path_factory) -> Path:
    """Where the page's commands are run: with the chart, the values and the programs."""
    template = lab.pod_template(paths=[HERE, SOURCE])
    main = template["spec"]["containers"][0]
    main["env"] = [one for one in main["env"] if one["name"] != "PYTHONPATH"]
    main["env"].append({"name": "PYTHONPATH", "value": str(SOURCE)})
    folder = tmp_path_factory.mktemp("install")
    small = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    values = {
        "template": template, "checkpoints": str(lab.shared / TEAM), "measure": "off", "resources": small,
        "image": {"pullPolicy": "Never"}, "extraArgs": ["--progress-seconds=1"],
    }  # fmt: skip
    (folder / "values.yaml").write_text(json.dumps(values))
    (folder / "charts").symlink_to(ROOT / "charts")
    (folder / "bin").mkdir()
    for program in ("helm", "kubectl"):
        (folder / "bin" / program).symlink_to(lab.program(program))
    (folder / "bin/headway").write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n')
    (folder / "bin/headway").chmod(0o755)
    return folder


FRAGMENTS = ("kubectl describe", "kubectl logs --previous", "headway resume", "headway why")
"""A reader adds whose."""
SERVES = "headway schedule --metrics-listen"
"""It does not end; tests/kube/test_alerts_lab.py runs it."""


def inline(name: str) -> list[str]:
    """Commands within the text of a page, about the job `long`."""
    found = re.findall(r"`((?:kubectl|headway) [^`]+)`", (ROOT / "docs" / name).read_text())
    whole = [one for one in dict.fromkeys(found) if one not in FRAGMENTS and not one.startswith(SERVES)]
    return [re.sub(r"(JOB|bert)( -n NAMESPACE)?", f"long -n {TEAM}", one) for one in whole]


def page(heading: str) -> list[str]:
    """The commands under this heading."""
    part = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (text,) = [one for one in part if one.startswith(f"{heading}\n")]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def run(lab, folder: Path, line: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(lab.kubeconfig), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}: {done.stderr}\n{story(lab)}"
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


def wait(lab, name: str, *phases: str, seconds: float = 120.0) -> dict:
    deadline = time.monotonic() + seconds
    while (job := lab.api.get(f"{JOBS}/{name}")).get("status", {}).get("phase") not in phases:
        assert time.monotonic() < deadline, f"{job.get('status')}\n{story(lab)}"
        time.sleep(0.3)
    return job


def goes_on(lab, name: str) -> None:
    """Whoever leads now hears of its progress."""
    step = wait(lab, name, "Running")["status"]["progress"]["step"]
    deadline = time.monotonic() + 90.0
    while lab.api.get(f"{JOBS}/{name}")["status"]["progress"]["step"] <= step:
        assert time.monotonic() < deadline, story(lab)
        time.sleep(0.5)


def pods(lab, name: str) -> dict[str, int]:
    """By uid: how often its container was started again."""
    found = lab.api.get(f"/api/v1/namespaces/{TEAM}/pods?labelSelector=headway.dev/job={name}")["items"]
    return {
        pod["metadata"]["uid"]: pod["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) for pod in found
    }


def names(lab, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in lab.api.get(f"/apis/{path}")["items"]]


def leader(lab) -> str:
    """Whoever ends hands the Lease back: for a moment nobody holds it."""
    give_up = time.monotonic() + 20.0
    while True:
        lease = lab.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/headway")
        if holder := lease["spec"].get("holderIdentity"):
            return holder.partition("/")[0]
        assert time.monotonic() < give_up, "nobody leads"
        time.sleep(0.2)


def told(lab, reason: str) -> None:
    """Of an Event on the Lease. A kubelet brings a changed ConfigMap within a minute or two."""
    give_up, path = time.monotonic() + 180.0, f"/apis/events.k8s.io/v1/namespaces/{SYSTEM}/events"
    while reason not in {one["reason"] for one in lab.api.get(path)["items"]}:
        assert time.monotonic() < give_up, story(lab)
        time.sleep(1.0)


def test_the_page_is_followed_and_no_training_is_touched(lab, folder):
    install, *looks, plain = page("Install")
    upgrade, rollback = page("Upgrade")
    (uninstall,) = page("Uninstall")
    run(lab, folder, f"{uninstall} --ignore-not-found")  # where this is a second try
    values = json.loads((folder / "values.yaml").read_text()) | {"podLabels": {}, "settings": {}}
    (folder / "values.yaml").write_text(json.dumps(values))
    with suppress(LabApiError):  # the CRD is not there yet
        lab.api.delete(JOBS)
    began = time.monotonic()
    assert "schedules TrainingJobs of all namespaces" in run(lab, folder, install)
    submit(lab, "first", 10)
    wait(lab, "first", "Running", "Succeeded")
    assert time.monotonic() - began < 120.0, "from helm install to the first running job"
    wait(lab, "first", "Succeeded")
    assert sum(" Running " in run(lab, folder, line) for line in looks[:1]) == 1
    assert "headway" in run(lab, folder, looks[1])

    submit(lab, "long", 100_000)
    wait(lab, "long", "Running")
    before, old = pods(lab, "long"), leader(lab)
    (folder / "values.yaml").write_text(json.dumps(values | {"settings": {"trial": 60}}))
    run(lab, folder, upgrade)
    told(lab, "SettingsChanged")
    assert leader(lab) == old, "other settings need no other replicas"
    (folder / "values.yaml").write_text(json.dumps(values | {"podLabels": {"other": "pods"}}))
    run(lab, folder, upgrade)
    assert (new := leader(lab)) != old
    goes_on(lab, "long")
    run(lab, folder, rollback)
    assert leader(lab) != new
    assert pods(lab, "long") == before, "an upgrade and a rollback leave every pod untouched"
    for line in (*page("Backup and restore"), *page("Rights")):
        run(lab, folder, line)
    assert "name: long" in (folder / "jobs.yaml").read_text()
    for line in (*inline("alarms.md"), *inline("troubleshooting.md")):
        run(lab, folder, line)
    assert pods(lab, "long") == before

    run(lab, folder, uninstall)
    assert pods(lab, "long") == before, "training goes on without Headway"
    assert lab.api.get(f"{JOBS}/long")["status"]["phase"] == "Running"
    roles = names(lab, "rbac.authorization.k8s.io/v1/clusterroles")
    assert not [role for role in roles if role.startswith("headway-sch")]
    assert "trainingjobs.headway.dev" in names(lab, "apiextensions.k8s.io/v1/customresourcedefinitions")
    made = subprocess.run(
        [sys.executable, str(ROOT / "deploy/release.py"), "--plain", str(folder / "headway.yaml")], check=False
    )
    assert made.returncode == 0
    secrets = f"/api/v1/namespaces/{SYSTEM}/secrets"
    for name in ("headway-pods", "headway-progress", "headway-state"):
        lab.api.delete(f"{secrets}/{name}")
    (restore,) = re.findall(r"`(kubectl apply -f secrets.yaml)`", PAGE.read_text())
    run(lab, folder, restore)
    run(lab, folder, plain)
    goes_on(lab, "long")
    assert pods(lab, "long") == before, "the next installation knows its pods again"
    lab.api.delete(f"{JOBS}/long")


MAKES = "makes and deletes only what belongs to a TrainingJob"
ANY_RIGHT = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "any-right"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "headway", "namespace": SYSTEM}],
}  # fmt: skip
RESIZED = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "20m"}}}]}}
REFUSED = {
    f"-n {TEAM} delete pod stranger": MAKES,
    f"-n {TEAM} delete pod turn": MAKES,
    f"-n {TEAM} create -f pod.json": MAKES,
    f"-n {TEAM} create service clusterip other --tcp=1": MAKES,
    f"-n {TEAM} create configmap other": MAKES,
    f"-n {TEAM} delete configmap kube-root-ca.crt": MAKES,
    f"-n {TEAM} label pod stranger a=b": "changes no pod, Service or ConfigMap",
    f"-n {TEAM} label pod turn a=b": "changes no pod, Service or ConfigMap",
    f"-n {TEAM} label configmap kube-root-ca.crt a=b": "changes no pod, Service or ConfigMap",
    f"-n {TEAM} patch pod stranger --subresource resize --patch-file resized.json": "resizes only",
    "-n kube-system delete pod stranger": "changes nothing in kube-system",
    "create --raw /api/v1/namespaces/kube-system/pods/stranger/binding -f binding.json": "nothing in kube-system",
}


def test_its_own_account_is_held_to_what_it_is_for(lab, folder):
    """Whatever its roles allow: a bug or a stolen token cannot delete pods of others."""
    main = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "10m"}}}
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"},
                "spec": {"schedulerName": "nobody", "containers": [main]}}  # fmt: skip
    turn = {"name": "turn", "labels": {"headway.dev/turn": "given"}}
    waits = stranger["spec"] | {"schedulingGates": [{"name": "headway.dev/turn"}]}
    bound = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "stranger"}, "target": {"name": "node"}}
    for path, one in (
        (f"/api/v1/namespaces/{TEAM}/pods", stranger),
        (f"/api/v1/namespaces/{TEAM}/pods", stranger | {"metadata": turn, "spec": waits}),
        ("/api/v1/namespaces/kube-system/pods", stranger),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", ANY_RIGHT),
    ):
        with suppress(LabApiError):  # where this is a second try
            lab.api.post(path, one)
    for name, one in (
        ("pod", stranger | {"metadata": {"name": "another"}}), ("resized", RESIZED), ("binding", bound),
    ):  # fmt: skip
        (folder / f"{name}.json").write_text(json.dumps(one))
    for line, why in REFUSED.items():
        assert why in refused(lab, folder, f"kubectl --as {ACCOUNT} {line}"), line


def refused(lab, folder: Path, line: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(lab.kubeconfig), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0, done.stdout
    return done.stderr
