"""What it costs to know who sends: reviews of real tokens by a real API server.

    python bench/reviews.py [--pods 200]

It starts a control plane without nodes, makes pods and their tokens, and asks whose each token is, as `schedule`
does: one by one, all at once, and again when the answers are kept. It prints milliseconds each.
"""

from __future__ import annotations

import argparse
import logging
import queue
import statistics
import time
from typing import Any

from headway.kube.api.access import load_access
from headway.kube.identity.tokens import PodIdentity
from headway.kube.writes.worker import ApiWorker
from headway.lab import Lab
from headway.progress_server import Greeting, KnownReplica


def make_tokens(lab: Lab, count: int) -> dict[str, str]:
    """Token by the pod's uid."""
    lab.create_namespace("crowd")
    tokens = {}
    for number in range(count):
        spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "nobody"}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}
        uid = lab.api.post("/api/v1/namespaces/crowd/pods", body)["metadata"]["uid"]
        pod = {"kind": "Pod", "apiVersion": "v1", "name": f"p{number}", "uid": uid}
        asked = {"audiences": ["headway"], "expirationSeconds": 3600, "boundObjectRef": pod}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked}
        answer = lab.api.post("/api/v1/namespaces/crowd/serviceaccounts/default/token", request)
        tokens[uid] = answer["status"]["token"]
    return tokens


def ask(identity: PodIdentity, token: str, answers: queue.SimpleQueue[KnownReplica | str]) -> None:
    identity(Greeting(token, None, True, None, 0, "", True, "10.0.0.1"), answers.put)


def known(answers: queue.SimpleQueue[KnownReplica | str]) -> None:
    answer = answers.get(timeout=60)
    assert isinstance(answer, KnownReplica), answer


def one_by_one(identity: PodIdentity, tokens: list[str]) -> list[float]:
    took, answers = [], queue.SimpleQueue[KnownReplica | str]()
    for token in tokens:
        began = time.perf_counter()
        ask(identity, token, answers)
        known(answers)
        took.append(1000 * (time.perf_counter() - began))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=200)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # a control plane without our kinds: the watch of jobs fails
    lab = Lab.up("reviews", kubelets=0, owned=True)
    try:
        tokens = make_tokens(lab, options.pods)
        roster = {uid: ("crowd/j", "worker", number, 0) for number, uid in enumerate(tokens)}
        worker = ApiWorker(load_access(lab.kubeconfig), "crowd")
        half = list(tokens.values())[: options.pods // 2], list(tokens.values())[options.pods // 2 :]
        identity = PodIdentity(roster, worker.ask)  # type: ignore[arg-type]
        took = sorted(one_by_one(identity, half[0]))
        print(f"{len(took)} reviews one by one: median {statistics.median(took):.2f} ms, 99 % {took[-2]:.2f} ms")
        answers, began = queue.SimpleQueue[KnownReplica | str](), time.perf_counter()
        for token in half[1]:
            ask(identity, token, answers)
        for _ in half[1]:
            known(answers)
        each = 1000 * (time.perf_counter() - began) / len(half[1])
        print(f"{len(half[1])} reviews at once: {each:.2f} ms each, {1000 / each:,.0f} a second")
        took = sorted(one_by_one(identity, half[0]))
        print(f"{len(took)} kept answers: median {1000 * statistics.median(took):.0f} microseconds each")
        worker.close()
    finally:
        lab.down()


if __name__ == "__main__":
    main()
