"""Acting as a tenant's pod, with real tokens, on the real API server: nobody can speak for another replica."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import time
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from headway.kube.identity.tokens import PodIdentity
from headway.progress_server import Greeting, KnownReplica
from scheduling import run_headway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
MINE, ANOTHERS = ("team/j", "worker", 0, 0), ("other/k", "ps", 1, 2)


def a_pod(lab, namespace: str, name: str) -> str:
    """A pod that no node runs; returns its uid."""
    container = {"name": "main", "image": "none", "command": ["none"]}
    spec = {"containers": [container], "schedulerName": "nobody", "automountServiceAccountToken": False}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return lab.api.post(f"/api/v1/namespaces/{namespace}/pods", body)["metadata"]["uid"]


def a_token(lab, namespace: str, pod: str = "", uid: str = "", audience: str = "headway") -> str:
    """As the kubelet asks for it."""
    spec: dict = {"audiences": [audience], "expirationSeconds": 3600}
    if pod:
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return lab.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token", body)["status"]["token"]


def part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def changed(token: str, key: Path, **claims: object) -> str:
    """The token with other claims, signed by the lab's own key: what only the API server can make."""
    head, body, _ = token.split(".")
    read = json.loads(base64.urlsafe_b64decode(body + "=="))
    body = part(json.dumps(read | claims).encode())
    signer = serialization.load_pem_private_key(key.read_bytes(), None)
    r, s = utils.decode_dss_signature(signer.sign(f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256())))
    return f"{head}.{body}.{part(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def who(identity: PodIdentity, token: str) -> object:
    answers: list = []
    identity(Greeting(token, None, True, None, 0, "", True, "10.0.0.1"), answers.append)
    (answer,) = answers
    return answer.sender if isinstance(answer, KnownReplica) else answer


def test_the_real_api_server_says_whose_a_token_is(lab, namespace):
    def ask(path, body, done) -> None:
        done(json.dumps(lab.api.post(path, body)).encode())

    mine, anothers = a_pod(lab, namespace, "mine"), a_pod(lab, namespace, "anothers")
    roster = {mine: MINE, anothers: ANOTHERS}
    identity = PodIdentity(roster, ask)
    token = a_token(lab, namespace, "mine", mine)
    assert who(identity, token) == who(identity, token) == MINE
    assert who(identity, a_token(lab, namespace, "anothers", anothers)) == ANOTHERS
    assert identity.reviews == 2

    key = lab.kubeconfig.parent / "service-accounts.key"
    assert who(identity, changed(token, key)) == MINE, "the lab's own key makes such a token"
    head, body, signature = token.split(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    unsigned = part(b'{"alg": "none"}')
    swapped = json.loads(base64.urlsafe_b64decode(body + "=="))
    swapped["kubernetes.io"]["pod"]["uid"] = anothers
    unaware = PodIdentity(roster, ask, lambda: time.time() - 7200)  # so that the API server must say no
    refused = {
        "another pod's uid in it": who(identity, f"{head}.{part(json.dumps(swapped).encode())}.{signature}"),
        "a forged signature": who(identity, f"{head}.{body}.{flipped}"),
        "no signature": who(identity, f"{unsigned}.{body}."),
        "another audience": who(identity, a_token(lab, namespace, "mine", mine, audience="https://elsewhere")),
        "another audience, that says it is ours": who(
            identity,
            changed(a_token(lab, namespace, "mine", mine, "elsewhere"), key, aud=["headway", "elsewhere"])[:-4],
        ),
        "no pod": who(identity, a_token(lab, namespace)),
        "expired": who(unaware, changed(token, key, exp=int(time.time()) - 3600, iat=int(time.time()) - 7200)),
        "garbage": who(identity, "a.b.c"),
        "none": who(identity, ""),
    }
    assert not {name: answer for name, answer in refused.items() if not isinstance(answer, str)}
    assert unaware.reviews == 1

    late = a_token(
        lab, namespace, "mine", mine
    )  # the API server itself keeps answers for some seconds; not of this one
    lab.api.delete(f"/api/v1/namespaces/{namespace}/pods/mine?gracePeriodSeconds=0")
    assert who(PodIdentity(roster, ask), late) == "the API server does not accept its token"
    del roster[mine]
    assert "not of a job" in who(identity, token)


def test_a_user_without_rights_is_told_in_one_sentence(schedule):
    lab, folder = schedule.lab, schedule.folder
    config = yaml.safe_load(lab.kubeconfig.read_bytes())
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = lab.api.post(f"/api/v1/namespaces/{schedule.namespace}/serviceaccounts/default/token", body)
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    (folder / "tenant").write_text(json.dumps(config))
    told = run_headway("schedule", "--kubeconfig", str(folder / "tenant"), "--progress-listen", "127.0.0.1:0")
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    last = told.stderr.strip().splitlines()[-1]
    assert last.startswith("headway: the API server refuses access: "), "it ends before it asks for Secrets or leads"
    assert "is forbidden" in last
    assert last.endswith("check the kubeconfig and the roles")


class Attacker:
    """A connection to the scheduler's door, as any pod can open it."""

    def __init__(self, port: int, authority: str) -> None:
        context = ssl.create_default_context(cadata=authority)
        plain = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.sock = context.wrap_socket(plain, server_hostname="headway-progress")

    def says(self, *messages: dict) -> list[dict]:
        """All that the server answers until it ends the connection."""
        self.sock.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        data = b""
        while more := self.sock.recv(4096):
            data += more
        self.sock.close()
        return [json.loads(line) for line in data.splitlines()]

    def is_ended_while_it_says(self, message: dict) -> None:
        deadline = time.monotonic() + 60
        self.sock.settimeout(0.1)
        with self.sock:
            while time.monotonic() < deadline:
                try:
                    self.sock.sendall(json.dumps(message).encode() + b"\n")
                    if self.sock.recv(4096) == b"":
                        return
                except TimeoutError:
                    continue
                except OSError:
                    return
        raise AssertionError("it is still connected")


def test_a_tenants_pod_reports_for_itself_and_for_nobody_else(schedule):
    lab, namespace = schedule.lab, schedule.namespace
    schedule.start("--save-seconds", "20")
    schedule.submit("stop", {"worker": {}}, ["--steps", "110"])
    schedule.submit("tenant", {"worker": {}}, ["--steps", "100000"])
    schedule.wait("stop", "Running")
    schedule.wait("tenant", "Running")
    (victim,), (own,) = schedule.pods("stop"), schedule.pods("tenant")
    env = {one["name"]: one.get("value", "") for one in victim["spec"]["containers"][0]["env"]}
    authority = env["HEADWAY_PROGRESS_CA"]
    assert env["HEADWAY_PROGRESS"].startswith("tls:")

    def token(pod: dict, audience: str = "headway") -> str:
        return a_token(lab, namespace, pod["metadata"]["name"], pod["metadata"]["uid"], audience)

    lies = [{"step": 10**9, "loss": 0.0}, {"saved": None, "step": 10**9}, {"done": True, "step": 10**9}]
    claim = {"hello": 1, "job": env["HEADWAY_JOB"], "role": "worker", "index": 0, "attempt": 0, "can_save": True}
    stranger = a_pod(lab, namespace, "stranger")
    for proof in ("", token(victim, "elsewhere"), a_token(lab, namespace, "stranger", stranger), "a.b.c"):
        answers = Attacker(schedule.port, authority).says({**claim, "token": proof}, *lies)
        assert [list(answer) for answer in answers] == [["refused"]], answers

    # With the token of its own pod it may say what it likes of another: it is taken for what it is.
    both = Attacker(schedule.port, authority)
    both.sock.sendall(
        b"".join(
            json.dumps(m).encode() + b"\n"
            for m in ({**claim, "token": token(own), "tracker": "lies"}, {**claim, "index": 7}, *lies[:2])
        )
    )
    # The policy asks "stop" to save and stop. It saves, is stopped, and goes on from what it saved itself.
    schedule.wait("stop", "Succeeded", seconds=240)
    starts = [line.split() for line in schedule.story("stop") if " from " in line]
    assert [int(words[2]) for words in starts] == [0, 1], schedule.story("stop")
    assert f"worker 0 0 saved {starts[1][4]}" in schedule.story("stop"), "pods go only once their own save is told"
    assert schedule.job("stop")["status"]["progress"]["step"] == 110
    assert schedule.job("stop")["status"]["savers"] in ([], ["worker 0"])
    assert schedule.job("tenant")["status"]["phase"] == "Running"

    late = token(own)
    lab.api.delete(f"/api/v1/namespaces/{namespace}/pods/{own['metadata']['name']}?gracePeriodSeconds=0")
    both.is_ended_while_it_says(lies[0])  # the pod is gone
    answers = Attacker(schedule.port, authority).says({"hello": 1, "token": late}, *lies)
    assert [list(answer) for answer in answers] == [["refused"]]
    assert schedule.stop() == 0
