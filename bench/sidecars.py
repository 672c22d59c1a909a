"""A mutating webhook adds a 2-cpu sidecar to every pod: is a node ever given more than it has?

    python bench/sidecars.py [--nodes 100] [--pods 1000]
    python bench/sidecars.py --kubelets 3 --pods 60

Simulated nodes (KWOK) refuse nothing, so the bench counts itself, as a kubelet does, what pods on each node request.
Each job asks for 1 cpu; with its sidecar it holds 3. A node of 32 cpu takes ten of them, not 32. With `--kubelets` the
nodes are real, and pods ask for a tenth of that: a kubelet turns away what does not fit (OutOfcpu), and each pod ends
after some seconds.
"""

from __future__ import annotations

import argparse
import base64
import collections
import http.server
import json
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from schedule_process import phases, prepared, started, submit

from headway.core.quantity import CPU, count
from headway.lab import Lab
from headway.lab.credentials import Authority, CertificateSubject
from headway.lab.node_shapes import node_groups

NODE_CPUS = 32
REAL_CPUS = 2
SIDECAR: dict[str, Any] = {
    "name": "sidecar", "image": "sidecar", "restartPolicy": "Always", "command": ["sleep", "1000"],
    "resources": {"requests": {"cpu": "2"}},
}  # fmt: skip


class Webhook(http.server.BaseHTTPRequestHandler):
    """Adds the sidecar."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Webhook.asked += 1
        patch = json.dumps([{"op": "add", "path": "/spec/initContainers", "value": [SIDECAR]}])
        answer = {
            "uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch",
            "patch": base64.b64encode(patch.encode()).decode(),
        }  # fmt: skip
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None: ...


def serve_webhook(lab: Lab, folder: Path) -> None:
    """Starts the webhook on loopback and tells the API server of it."""
    authority = Authority(folder, "webhook-authority")
    pair = authority.issue("webhook", CertificateSubject(name="webhook", hosts=("127.0.0.1",)))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(str(pair.certificate), str(pair.key))
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = {
        "url": f"https://127.0.0.1:{server.server_port}/",
        "caBundle": base64.b64encode(authority.certificate.read_bytes()).decode(),
    }
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "sidecar.example.com", "clientConfig": client, "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
    }  # fmt: skip
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    lab.api.post(path, {"metadata": {"name": "sidecar"}, "webhooks": [hook]})


def held(lab: Lab) -> tuple[dict[str, float], collections.Counter[str]]:
    """By node: the cpus that its pods request, and how many pods it has."""
    cpus, pods = collections.defaultdict[str, float](float), collections.Counter[str]()
    for pod in lab.api.get("/api/v1/namespaces/crowd/pods")["items"]:
        node = pod["spec"].get("nodeName")
        if node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
            asked = [one["resources"]["requests"]["cpu"] for one in containers]
            cpus[node] += sum(count(CPU, one) for one in asked) / 1000
            pods[node] += 1
    return cpus, pods


def turned_away(lab: Lab) -> set[str]:
    """Pods that a kubelet did not take, by uid."""
    found = lab.api.get("/api/v1/namespaces/crowd/pods")["items"]
    return {pod["metadata"]["uid"] for pod in found if pod["status"].get("reason", "").startswith("OutOf")}


def on_kubelets(lab: Lab, options: argparse.Namespace, folder: Path) -> None:
    """Real nodes and pods that end: the next ones come as soon as there is room."""
    lab.create_namespace("crowd")
    template = lab.pod_template()
    SIDECAR.update(image=template["spec"]["containers"][0]["image"], resources={"requests": {"cpu": "200m"}})
    serve_webhook(lab, folder)
    process, said = started(lab, "crowd", folder, template, "--policy", "first-fit")
    began, away, most = time.monotonic(), set[str](), 0.0
    for number in range(options.pods):
        submit(lab, "crowd", f"job-{number}", {"worker": {"cpu": "100m", "command": ["sleep", "3"]}})
    until = time.monotonic() + options.seconds
    while time.monotonic() < until and process.poll() is None:
        away |= turned_away(lab)
        most = max(most, *held(lab)[0].values(), 0)
        if all(one.get("phase") in ("Succeeded", "Failed") for one in phases(lab, "crowd").values()):
            break
        time.sleep(0.3)
    took = time.monotonic() - began
    ended = collections.Counter(str(one.get("phase")) for one in phases(lab, "crowd").values())
    refused = said.read_text().count("is made on another node")
    if not ended["Succeeded"]:
        print(said.read_text(), phases(lab, "crowd")["job-0"])
    process.terminate()
    process.wait()
    print(
        f"{options.kubelets} kubelets of {REAL_CPUS} cpu, {options.pods} jobs of 0.1 cpu, a sidecar of 0.2 in each pod"
    )
    print(f"after {took:.0f} s: {dict(ended)}; at any look at most {most:.1f} cpu requested on a node")
    print(f"pods that a kubelet turned away (OutOf*): {len(away)}; made elsewhere: {refused}")


def measure(lab: Lab, options: argparse.Namespace, folder: Path) -> None:
    lab.create_namespace("crowd")
    serve_webhook(lab, folder)
    template = {"spec": {"containers": [{"name": "main", "image": "train"}]}}
    process, _ = started(lab, "crowd", folder, template, "--policy", "fifo")
    began, most, total = time.monotonic(), 0.0, collections.Counter[str]()
    with ThreadPoolExecutor(8) as hands:
        list(
            hands.map(lambda number: submit(lab, "crowd", f"job-{number}", {"worker": {"cpu": 1}}), range(options.pods))
        )
    until = time.monotonic() + options.seconds
    while time.monotonic() < until and process.poll() is None:
        cpus, total = held(lab)
        most = max(most, *cpus.values(), 0)
        if total.total() >= options.pods:
            break
        time.sleep(3)
    took = time.monotonic() - began
    said = collections.Counter(str(one.get("phase")) for one in phases(lab, "crowd").values())
    process.terminate()
    process.wait()
    print(
        f"{options.nodes} simulated nodes of {NODE_CPUS} cpu, {options.pods} jobs of 1 cpu, a sidecar of 2 in each pod"
    )
    print(
        f"bound {total.total()} pods in {took:.0f} s; jobs: {dict(said)}; the webhook was asked {Webhook.asked} times"
    )
    print(
        f"the fullest node had {max(total.values(), default=0)} pods; at any look at most {most:g} of {NODE_CPUS} cpu"
    )
    print(f"pods that a kubelet would have turned away (OutOfcpu): {'none' if most <= NODE_CPUS else 'some'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--kubelets", type=int, default=0, help="so many real nodes in place of simulated ones")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300.0, help="end after this, whatever is left")
    options = parser.parse_args()
    made: dict[str, Any] = {"kubelets": options.kubelets, "kubelet_cpus": REAL_CPUS}
    if not options.kubelets:
        made = {"simulated": node_groups(options.nodes, [f"{NODE_CPUS}cpu,128Gi"]), "bench": True}
    with prepared("sidecars", **made) as (lab, folder):
        (on_kubelets if options.kubelets else measure)(lab, options, folder)


if __name__ == "__main__":
    main()
