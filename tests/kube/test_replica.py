"""What the status of a pod means for its replica."""

from __future__ import annotations

import msgspec
import pytest

from headway.core.gang import Phase
from headway.kube.api.objects import Pod
from headway.kube.pods.replica import replica_of


def a_pod(phase="Failed", ended=None, **status) -> Pod:
    state = {"state": {"terminated": ended}} if ended else {}
    statuses = [{"name": "main", **state}] if ended else []
    found = {"metadata": {"name": "p-2-w-1", "uid": "u"}, "spec": {"nodeName": "n"},
             "status": {"phase": phase, "containerStatuses": statuses, **status}}  # fmt: skip
    return msgspec.convert(found, Pod)


def held_up(message: str) -> Pod:
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    return a_pod("Pending", containerStatuses=[{"name": "main", "state": {"waiting": waiting}}])


@pytest.mark.parametrize(
    ("pod", "phase", "words"),
    [
        (a_pod("Running"), Phase.UP, ""),
        (a_pod("Pending"), Phase.PENDING, ""),
        (held_up('secret "key" not found'), Phase.REFUSED, 'secret "key" not found'),
        (held_up('failed to create subPath directory for volumeMount "disk"'), Phase.PENDING, ""),
        (a_pod("Succeeded", {"exitCode": 0}), Phase.DONE, ""),
        (a_pod(ended={"exitCode": 3, "reason": "Error"}), Phase.FAILED, "exit code 3"),
        (a_pod(ended={"exitCode": 139}), Phase.FAILED, "signal 11 (SIGSEGV)"),
        (a_pod(ended={"exitCode": 137}), Phase.LOST, "signal 9"),
        (a_pod(ended={"exitCode": 143}), Phase.LOST, "signal 15"),
        (a_pod(ended={"exitCode": 137, "reason": "OOMKilled"}), Phase.FAILED, "memory"),
        (a_pod(ended={"exitCode": 128, "reason": "StartError", "message": "no file"}), Phase.FAILED, "no file"),
        (a_pod(reason="Evicted", message="disk"), Phase.LOST, "Evicted: disk"),
        (a_pod(ended={"exitCode": 1}, reason="Evicted"), Phase.LOST, "Evicted"),
        (a_pod(reason="OutOfcpu", message="Node has too little"), Phase.REFUSED, "OutOfcpu"),
        (a_pod(reason="UnexpectedAdmissionError"), Phase.REFUSED, "UnexpectedAdmissionError"),
    ],
)  # fmt: skip
def test_what_became_of_a_pod(pod, phase, words):
    replica = replica_of(pod, "p", 0.0)
    assert (replica.phase, replica.role, replica.index, replica.attempt) == (phase, "w", 1, 2)
    assert words in replica.why
