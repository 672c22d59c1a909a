"""A tenant with the role `edit` in one namespace, on the real API server and kubelets: who he is, what he may see."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from headway.cli.app import COMMANDS, app_of
from headway.core.errors import UserError
from headway.kube.api.access import load_access
from headway.kube.api.client import MERGE_PATCH, Client
from headway.kube.api.discovery import GROUP, NAME
from headway.kube.api.errors import ApiError, Forbidden
from headway.kube.api.install import install, manifests
from headway.lab.api import LabApiError
from scheduling import HERE, TRAINING

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
EDITED = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}


class Tenant:
    """A service account with a role in one namespace, and what it asks of the API server."""

    def __init__(self, lab, namespace: str, folder: Path, name: str = "ana") -> None:
        self.lab, self.namespace, self.name = lab, namespace, name
        self.user = f"system:serviceaccount:{namespace}:{name}"
        inside = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if name != "headway":
            lab.api.post(inside, {"metadata": {"name": name}})
            self.grant("edit")
        token = lab.api.post(f"{inside}/{name}/token", {"spec": {}})["status"]["token"]
        config = yaml.safe_load(lab.kubeconfig.read_bytes())
        config["users"][0]["user"] = {"token": token}
        self.kubeconfig = folder / f"kubeconfig-{name}"
        self.kubeconfig.write_text(json.dumps(config))

    def grant(self, role: str) -> None:
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        binding = {
            "metadata": {"name": f"{self.name}-{role}"}, "roleRef": EDITED | {"name": role}, "subjects": [subject],
        }  # fmt: skip
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings"
        self.lab.api.post(path, binding)

    def ask(self, method: str, path: str, body: object = None, kind: str = "application/json") -> dict:
        async def send() -> bytes:
            async with Client(load_access(self.kubeconfig)) as client:
                return await client.send(method, path, body, kind)

        return json.loads(asyncio.run(send()))

    def watch(self, path: str) -> None:
        async def begin() -> None:
            async with Client(load_access(self.kubeconfig)) as client:
                async for _ in client.watch(path, ""):
                    return

        asyncio.run(begin())

    def submit(self, name: str, **spec: object) -> dict:
        body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}}
        return self.ask("POST", TRAINING.format(self.namespace), {**body, "spec": {"roles": {"w": {}}, **spec}})

    def submit_file(self, folder: Path, name: str, *options: str) -> str:
        """What `headway submit` says."""
        file = folder / f"{name}.yaml"
        file.write_text(json.dumps({"jobs": [{"name": name, "cpu": 1, "command": ["x"]}]}))
        where = ["--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace]
        done = CliRunner().invoke(app_of(COMMANDS), ["submit", str(file), *where, *options])
        return done.output + (str(done.exception) if isinstance(done.exception, UserError) else "")


def soon(do, seconds: float = 20.0):
    """What `do` returns once it is true; the API server reads policies and roles with a delay."""
    deadline = time.monotonic() + seconds
    while not (found := do()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def test_the_cluster_records_who_submits(installed, namespace, tmp_path):
    tenant = Tenant(installed, namespace, tmp_path)
    assert tenant.submit("typed", user="ben")["spec"]["user"] == tenant.user
    assert tenant.submit("nameless")["spec"]["user"] == tenant.user
    mine = f"{TRAINING.format(namespace)}/nameless"
    change = {"spec": {"user": "ben"}}
    assert tenant.ask("PATCH", mine, change, MERGE_PATCH)["spec"]["user"] == tenant.user
    kept = tenant.ask("GET", mine)
    assert tenant.ask("PUT", mine, {**kept, "spec": {**kept["spec"], "user": "ben"}})["spec"]["user"] == tenant.user
    with pytest.raises(Forbidden):
        tenant.ask("PATCH", f"{mine}/status", {"status": {"phase": "Succeeded"}}, MERGE_PATCH)
    assert installed.api.patch(mine, change)["spec"]["user"] == tenant.user, "nor is it changed later, by anybody"
    labelled = installed.api.patch(mine, {"metadata": {"labels": {"a": "b"}}})
    assert (labelled["metadata"]["labels"], labelled["spec"]["user"]) == ({"a": "b"}, tenant.user)

    told = tenant.submit_file(tmp_path, "first", "--user", "ben")
    assert f"submitted first for user {tenant.user}, not ben: who submits for others" in told
    tenant.grant("headway-submit-for")
    soon(lambda: tenant.submit(f"for-{time.monotonic_ns()}", user="ben")["spec"]["user"] == "ben")
    told = tenant.submit_file(tmp_path, "second", "--user", "ben")
    assert told.strip().endswith("submitted second")

    everything = TRAINING.format(namespace)
    for path in (mine, f"{mine}/status", everything):
        tenant.ask("GET", path)
    tenant.watch(everything)
    tenant.ask("DELETE", mine)
    tenant.ask("DELETE", everything)
    used = {right for right in requested_by(installed, tenant.user)[0] if right[0] == "headway.dev"}
    assert used == rights_of(role_named("headway-user"))


def test_where_nothing_records_users_the_cluster_demands_that_they_are_right(installed, namespace, tmp_path):
    """As on an API server without mutating policies, or one that serves them and does not obey them."""
    tenant = Tenant(installed, namespace, tmp_path)
    writes = f"/apis/{GROUP}/v1/mutatingadmissionpolicybindings/{NAME}"
    binding = next(one for one in yaml.safe_load_all(manifests()) if one["kind"] == "MutatingAdmissionPolicyBinding")
    installed.api.delete(writes)
    try:
        said = soon(lambda: refusal(tenant, f"typed-{time.monotonic_ns()}", user="ben"))
        assert f"spec.user: must be {tenant.user}, who submits the job" in said
        assert "spec.user: must be" in refusal(tenant, "nameless")
        assert tenant.submit("own", user=tenant.user)["spec"]["user"] == tenant.user
        mine = f"{TRAINING.format(namespace)}/own"
        with pytest.raises(LabApiError, match="of a submitted job only"):
            installed.api.patch(mine, {"spec": {"user": "ben"}})
        installed.api.patch(mine, {"metadata": {"labels": {"a": "b"}}})
        told = tenant.submit_file(tmp_path, "first")
        assert told.strip().endswith("submitted first"), "the command says who submits"
        told = tenant.submit_file(tmp_path, "second", "--user", "ben")
        assert "job 'second': the cluster refuses the job" in told
        assert "must be system:serviceaccount" in told
    finally:
        installed.api.post(writes.rpartition("/")[0], binding)
        installed.api.delete(TRAINING.format(namespace))
    soon(lambda: tenant.submit(f"again-{time.monotonic_ns()}", user=tenant.user) and not refusal(tenant, "nameless"))
    installed.api.delete(TRAINING.format(namespace))


def refusal(tenant: Tenant, name: str, **spec: object) -> str:
    try:
        tenant.submit(name, **spec)
    except ApiError as error:
        return str(error)
    return ""


def test_one_namespace_with_its_rights_alone_and_each_job_with_its_own_files(schedule):  # noqa: PLR0915  one long day
    """The scheduler of one namespace uses each of its rights and needs no other; a job sees no other's checkpoints."""
    lab, namespace = schedule.lab, schedule.namespace
    asyncio.run(install(load_access(lab.kubeconfig), namespace))
    account = Tenant(lab, namespace, schedule.folder, "headway")
    schedule.folder.joinpath("kubeconfig").write_bytes(account.kubeconfig.read_bytes())
    other = lab.shared / namespace / "other-team" / "model-12345678"
    other.mkdir(parents=True)
    (other / "weights").write_text("secret")
    foreign = {"metadata": {"name": "taken-0-worker-0"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    lab.api.post(f"/api/v1/namespaces/{namespace}/pods", foreign | {"spec": foreign["spec"] | {"schedulerName": "no"}})

    alone = {"name": "x", "image": "x", "resources": {"requests": {"cpu": "64"}}}
    alone = {"metadata": {"name": "alone"}, "spec": {"schedulerName": "headway", "containers": [alone]}}
    lab.api.post(f"/api/v1/namespaces/{namespace}/pods", alone)  # it is told why it waits

    template = _claiming(schedule)
    schedule.fixed = ["spec.volumes.*.hostPath"]
    schedule.start("--progress-service", "headway-progress")
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    soon(lambda: [one for one in lab.api.get(slices)["items"] if one["metadata"]["name"] == "headway-progress"])
    assert schedule.stop() == 0
    schedule.start("--progress-service", "headway-progress")  # it is there already
    schedule.submit("claims", {"worker": {}}, [], template=template)
    refused = schedule.wait("claims", "Failed")["status"]
    assert (refused["reason"], "'later' waits for its first pod" in refused["message"]) == ("Unplaceable", True)
    assert not schedule.pods("claims")
    lab.api.delete(f"/api/v1/persistentvolumes/{namespace}")
    lab.api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{namespace}")
    schedule.submit("resize", {"worker": {}, "late": {"after": ["worker"]}}, ["--steps", "90"])
    hangs = ["python", str(HERE / "trainer.py"), "--steps", "100000"]
    torn = {"worker": {"cpu": "1100m"}, "peer": {"cpu": "1100m", "command": hangs}}
    schedule.submit("torn", torn, ["--steps", "90", "--fail-at", "5"])
    schedule.submit("taken", {"worker": {}}, ["--steps", "10"], ttlSecondsAfterFinished=1)
    schedule.submit(
        "spy", {"worker": {"command": ["sh", "-c", LOOKS.format(lab.shared)]}}, [], template=_spying(schedule)
    )
    host = {"spec": {"volumes": [{"name": "all", "hostPath": {"path": str(lab.shared)}}]}}
    schedule.submit("host", {"worker": {}}, [], template=host)
    refused = schedule.wait("host", "Failed")["status"]
    assert "spec.template.spec.volumes.all.hostPath" in refused["message"]
    assert "is fixed by the administrator" in refused["message"]

    schedule.wait("spy", "Running")
    mine = soon(lambda: next((lab.shared / namespace / namespace).glob("spy-*/seen"), None))
    seen = soon(lambda: mine.read_text().split() if "done" in mine.read_text() else None)
    peeked = (mine.parent / "peeked").read_text().split()
    for shown in (seen, peeked):
        assert any("peeked" in path for path in shown), "its own folder is there"
        assert not [path for path in shown if "other-team" in path or "weights" in path or "model" in path], shown
    lab.api.delete(f"{TRAINING.format(namespace)}/spy")
    schedule.wait("resize", "Succeeded")
    assert "exit code 3" in schedule.wait("torn", "Failed", seconds=40)["status"]["message"], "its peer's node lives"
    soon(lambda: "taken" not in [job["metadata"]["name"] for job in lab.api.get(TRAINING.format(namespace))["items"]])
    soon(lambda: not [pod for pod in schedule.pods("spy") if not pod["metadata"].get("deletionTimestamp")])
    assert "pods of other namespaces cannot be read" in schedule.words()
    assert schedule.stop() == 0
    used, refused = requested_by(lab, account.user)
    assert used == granted_in(namespace)
    assert refused == {("", "pods", "list", "")}, "asked once, whether it may read the pods of all"


def _claiming(schedule) -> dict:
    """A job's template with two claims: one that is bound, one that is bound only when a pod has its node."""
    api, name = schedule.lab.api, schedule.namespace
    claims = f"/api/v1/namespaces/{name}/persistentvolumeclaims"
    asks = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    api.post("/apis/storage.k8s.io/v1/storageclasses", {
        "metadata": {"name": name}, "provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer",
    })  # fmt: skip
    api.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/none"},
        "claimRef": {"namespace": name, "name": "bound"}, "persistentVolumeReclaimPolicy": "Retain",
    }})  # fmt: skip
    bound = {"metadata": {"name": "bound"}, "spec": {**asks, "storageClassName": "", "volumeName": name}}
    api.post(claims, bound)
    api.post(claims, {"metadata": {"name": "later"}, "spec": {**asks, "storageClassName": name}})
    soon(lambda: api.get(f"{claims}/bound")["status"].get("phase") == "Bound")
    named = ("bound", "later")
    return {"spec": {"volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in named]}}


LOOKS = "find {} > $HEADWAY_CHECKPOINT/seen; echo done >> $HEADWAY_CHECKPOINT/seen; sleep 600"


def _spying(schedule) -> dict:
    """A job's template that mounts the cluster's checkpoint volume by its name, in a container of its own."""
    main = json.loads((schedule.folder / "template.yaml").read_text())["spec"]["containers"][0]
    shared = str(schedule.lab.shared)
    volume = next(mount["name"] for mount in main["volumeMounts"] if mount["mountPath"] == shared)
    mounts = [{"name": volume, "mountPath": "/all", "subPath": "other-team"}]
    peek = {"name": "peek", "image": main["image"], "command": ["sh", "-c", "find /all > /all/peeked"]}
    return {"spec": {"initContainers": [peek | {"volumeMounts": mounts}]}}


Right = tuple[str, str, str]
BY_NAME = ("secrets", "validatingadmissionpolicies", "validatingadmissionpolicybindings")
"""The roles let Headway get some of these, by name."""


def requested_by(lab, user: str) -> tuple[set[Right], set[tuple[str, str, str, str]]]:
    """Group, resource and verb of all that was allowed, and of what was refused, with the namespace. Of what a
    role bounds to names, the name is told, too."""
    used, refused = set(), set()
    for line in lab.audit_log.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef")
        if event["user"]["username"] != user or target is None:
            continue
        name = target["resource"] + (f"/{target['subresource']}" if "subresource" in target else "")
        named = f" {target['name']}" if name in BY_NAME and event["verb"] in ("get", "patch") else ""
        right = (target.get("apiGroup", ""), name + named, event["verb"])
        if event["responseStatus"]["code"] == 403:
            refused.add((*right, target.get("namespace", "")))
        else:
            used.add(right)
    return used, refused


def role_named(name: str) -> dict:
    return next(one for one in yaml.safe_load_all(manifests()) if one["metadata"]["name"] == name)


def granted_in(namespace: str) -> set[Right]:
    roles = [one for one in yaml.safe_load_all(manifests(namespace)) if one["kind"] in ("Role", "ClusterRole")]
    return {
        right
        for role in roles
        if role["metadata"]["name"].removesuffix(f"-{namespace}") in SCHEDULER_ROLES
        for right in rights_of(role)
    }


SCHEDULER_ROLES = ("headway-scheduler", "headway-node-reader", "headway-progress", "headway-heartbeats")


def rights_of(role: dict) -> set[Right]:
    return {
        (group, resource + name, verb)
        for rule in role["rules"] for group in rule["apiGroups"]
        for resource in rule["resources"] for verb in rule["verbs"]
        for name in [f" {one}" for one in rule.get("resourceNames", ())] or [""]
    }  # fmt: skip
