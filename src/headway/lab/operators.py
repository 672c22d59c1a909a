"""Job operators beside the lab's control plane: JobSet, Kubeflow's training operator and Kueue.

Their definitions and webhooks come from their own Go modules. They run as processes of the lab, so the API server calls
their webhooks at a local port instead of through a Service. The lab issues their certificates. They act as cluster
administrators.
"""

from __future__ import annotations

import base64
import http
import http.client
import json
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.lab import credentials
from headway.lab.api import Api, LabApiError
from headway.lab.credentials import Authority, CertificateSubject
from headway.lab.errors import LabError
from headway.lab.pods import BASE_IMAGE
from headway.lab.programs import PROGRAMS, find
from headway.lab.state import LOOPBACK, LabState, Part

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_SECONDS = 20.0
PORTS_EACH = 2
"""One for the webhooks, one for the health check."""
KUEUE_WORKERS = {"Job.batch": 5, "Pod": 5, "Workload.kueue.x-k8s.io": 5}
"""The values of its own installation. Without them it has one worker for each kind, which is slow."""
KUEUE_BENCH = {"qps": 200, "burst": 200}
"""About what an API server on two cores can answer. With 5,000 and a queue of 4,000, on one core, its admissions timed
out again and again, and not one pod was bound."""
FIXED_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108
"""This path is compiled into the training operator. It waits for a certificate here, although it serves another."""


@dataclass(frozen=True, slots=True)
class Ports:
    webhook: int
    health: int


@dataclass(frozen=True, slots=True)
class Operator:
    name: str
    namespace: str
    flags: Callable[[LabState, Ports], list[str]]
    webhook_names: Callable[[str], str]
    """From the name of a webhook registration in the module to ours."""
    selectors: dict[str, dict[str, Any]]
    """Selectors to add to webhooks, by name, so that they are not called for all pods."""
    service: str = ""
    """The Service for which its certificate is issued; default: the name of the operator."""
    secret: str = ""
    """The Secret for its certificates, if the operator manages them itself."""

    @property
    def host(self) -> str:
        return f"{self.service or self.name}.{self.namespace}.svc"


def _jobset_flags(state: LabState, ports: Ports) -> list[str]:
    config = _configuration("config.jobset.x-k8s.io/v1alpha1", state, "jobset", ports)
    return [f"--config={_written(state, 'jobset', config)}", "--metrics-bind-address=0"]


def _kueue_flags(state: LabState, ports: Ports) -> list[str]:
    config = _configuration("config.kueue.x-k8s.io/v1beta1", state, "kueue", ports)
    frameworks = ["batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/tfjob", "kubeflow.org/pytorchjob", "pod"]
    config |= {
        "metrics": {"bindAddress": "0"},
        "integrations": {"frameworks": frameworks},
        "internalCertManagement": {"enable": True},  # otherwise it expects certificates in a fixed folder below /etc
        "controller": {"groupKindConcurrency": KUEUE_WORKERS},
        "clientConnection": KUEUE_BENCH if state.bench else {"qps": 50, "burst": 100},
    }
    return [f"--config={_written(state, 'kueue', config)}", "--feature-gates=VisibilityOnDemand=false"]


def _training_flags(_state: LabState, ports: Ports) -> list[str]:
    return [
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={LOOPBACK}:{ports.health}",
        f"--webhook-server-port={ports.webhook}",
        f"--pytorch-init-container-image={BASE_IMAGE}",
    ]


_FOREIGN = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
    ]
}
_OF_A_JOBSET = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}

OPERATORS = {
    "jobset": Operator(
        "jobset",
        "jobset-system",
        _jobset_flags,
        "jobset-{}".format,
        {name: {"objectSelector": _OF_A_JOBSET} for name in ("mpod.kb.io", "vpod.kb.io")},
    ),
    "training-operator": Operator(
        "training-operator",
        "kubeflow",
        _training_flags,
        lambda _: "validator.training-operator.kubeflow.org",
        {},
        secret="training-operator-webhook-cert",  # noqa: S106 - its name
    ),
    "kueue": Operator(
        "kueue",
        "kueue-system",
        _kueue_flags,
        "kueue-{}".format,
        {
            f"{kind}{what}.kb.io": {"namespaceSelector": _FOREIGN}
            for kind in "mv"
            for what in ("pod", "deployment", "statefulset")
        },
        service="kueue-webhook-service",
        secret="kueue-webhook-server-cert",  # noqa: S106 - its name
    ),
}


def check_names(names: Iterable[str]) -> list[str]:
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in OPERATORS:
            raise LabError(f"there is no operator '{name}' for the lab; there are {', '.join(OPERATORS)}")
    return wanted


def ports_of(state: LabState, name: str) -> Ports:
    """The last ports of the lab, in pairs, in the order of its operators."""
    place = len(state.reserved_ports) - PORTS_EACH * (len(state.operators) - state.operators.index(name))
    return Ports(state.reserved_ports[place], state.reserved_ports[place + 1])


def part(state: LabState, name: str) -> Part:
    operator, ports = OPERATORS[name], ports_of(state, name)
    return Part(
        name=name,
        argv=[str(find(name)), *operator.flags(state, ports)],
        version=PROGRAMS[name].version,
        port=ports.webhook,
        environment={
            "KUBECONFIG": str(credentials.of(state).kubeconfig("operators")),
            "TMPDIR": str(_home(state, name)),
        },
    )


def prepare(state: LabState) -> None:
    """Issues certificates for the webhooks of all operators, from an authority of their own."""
    if not state.operators:
        return
    expected = [f"{name}-ca" for name in state.operators]  # the operators replace an authority of any other name
    authority = Authority(_authority_folder(state), "headway-lab-webhooks", hosts=expected, use_rsa=True)
    for name in state.operators:
        host = OPERATORS[name].host
        pair = authority.issue(name, CertificateSubject(name=host, hosts=(host, LOOPBACK, "localhost")))
        folder = _certificates(state, name)
        folder.mkdir(parents=True)
        shutil.copy(pair.certificate, folder / "tls.crt")
        shutil.copy(pair.key, folder / "tls.key")


def install(state: LabState, api: Api, name: str) -> None:
    """Creates the definitions, the namespace and what the operator requires before it works."""
    operator = OPERATORS[name]
    api.post("/api/v1/namespaces", {"metadata": {"name": operator.namespace}})
    definitions = [doc for doc in _manifests(name) if doc["kind"] == "CustomResourceDefinition"]
    for definition in definitions:
        api.post(DEFINITIONS, definition)
    for definition in definitions:
        _wait_established(api, definition["metadata"]["name"])
    if operator.secret:
        _give_certificates(state, api, operator)
    _register_webhooks(state, api, name)


def _register_webhooks(state: LabState, api: Api, name: str) -> None:
    operator, ports = OPERATORS[name], ports_of(state, name)
    bundle = base64.b64encode((_authority_folder(state) / "ca.crt").read_bytes()).decode()
    for doc in _manifests(name):
        if not doc["kind"].endswith("WebhookConfiguration"):
            continue
        doc["metadata"] = {"name": operator.webhook_names(doc["metadata"]["name"])}
        for webhook in doc["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://{LOOPBACK}:{ports.webhook}{path}", "caBundle": bundle}
            webhook.update(operator.selectors.get(webhook["name"], {}))
        api.post(f"{REGISTRATION}/{doc['kind'].lower()}s", doc)


def is_ready(state: LabState, name: str) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, ports_of(state, name).health, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def remove_fixed_certificates() -> None:
    """Removes the file that `_give_certificates` put outside the folder of the lab. Ours is empty."""
    file = FIXED_CERTIFICATES / "tls.crt"
    if file.exists() and file.stat().st_size == 0:
        file.unlink()
        for folder in (FIXED_CERTIFICATES, FIXED_CERTIFICATES.parent):
            if not any(folder.iterdir()):
                folder.rmdir()


def _give_certificates(state: LabState, api: Api, operator: Operator) -> None:
    """The operator requires a Secret with a whole authority, and a file at the place where it would be mounted."""
    folder = _authority_folder(state)
    files = {
        "ca.crt": folder / "ca.crt",
        "ca.key": folder / "ca.key",
        "tls.crt": folder / f"{operator.name}.crt",
        "tls.key": folder / f"{operator.name}.key",
    }
    data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    secret = {"metadata": {"name": operator.secret}, "data": data}
    api.post(f"/api/v1/namespaces/{operator.namespace}/secrets", secret)
    if operator.name == "training-operator":
        FIXED_CERTIFICATES.mkdir(parents=True, exist_ok=True)
        (FIXED_CERTIFICATES / "tls.crt").touch()


def _wait_established(api: Api, name: str) -> None:
    deadline = time.monotonic() + ESTABLISHED_SECONDS
    while time.monotonic() < deadline:
        try:
            conditions = api.get(f"{DEFINITIONS}/{name}").get("status", {}).get("conditions") or ()
        except LabApiError:
            conditions = ()
        if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return
        time.sleep(0.05)
    raise LabError(f"the API server does not serve {name} after {ESTABLISHED_SECONDS:.0f} s")


def _manifests(name: str) -> list[dict[str, Any]]:
    files = sorted(PROGRAMS[name].manifests_folder.glob("*.json"))
    return [doc for file in files for doc in json.loads(file.read_text()) if doc and "kind" in doc]


def _configuration(version: str, state: LabState, name: str, ports: Ports) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{ports.health}"},
        "webhook": {"host": LOOPBACK, "port": ports.webhook, "certDir": str(_certificates(state, name))},
    }


def _written(state: LabState, name: str, config: dict[str, Any]) -> Path:
    path = _home(state, name) / "config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=2))
    return path


def _home(state: LabState, name: str) -> Path:
    return state.folder / "operators" / name


def _certificates(state: LabState, name: str) -> Path:
    """The folder below their temporary folder in which controllers look for certificates."""
    return _home(state, name) / "k8s-webhook-server" / "serving-certs"


def _authority_folder(state: LabState) -> Path:
    return state.folder / "credentials" / "webhooks"
