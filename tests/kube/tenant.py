"""Somebody with the role `edit` in one namespace of the lab, and with no other rights."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from scheduling import TRAINING

RBAC = "rbac.authorization.k8s.io"


class Tenant:
    def __init__(self, lab: Any, namespace: str) -> None:
        self.lab, self.namespace = lab, namespace
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        lab.api.post(account, {"metadata": {"name": "tenant"}})
        lab.api.post(
            f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings",
            {
                "metadata": {"name": "tenant"}, "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
                "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
            },
        )  # fmt: skip
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        self._token = lab.api.post(f"{account}/tenant/token", asked)["status"]["token"]
        self._tls = ssl.create_default_context(cafile=str(lab.ca))

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the answer. A body may be bytes: Python's own encoder cannot write all that can be sent."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        request = urllib.request.Request(self.lab.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def submit(self, name: str, spec: bytes | dict) -> None:
        given = spec if isinstance(spec, bytes) else json.dumps(spec).encode()
        head = b'{"apiVersion":"headway.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"%s"},"spec":'
        status, answer = self.send("POST", TRAINING.format(self.namespace), head % name.encode() + given + b"}")
        assert status == 201, answer[:500]

    def read(self, name: str) -> bytes:
        return self.send("GET", f"{TRAINING.format(self.namespace)}/{name}")[1]

    def delete(self, name: str) -> int:
        return self.send("DELETE", f"{TRAINING.format(self.namespace)}/{name}")[0]

    def create_pod(self, pod: dict) -> None:
        status, answer = self.send("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
        assert status == 201, answer[:500]
