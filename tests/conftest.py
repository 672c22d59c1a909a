"""Fixtures shared by all tests: `lab` (two real nodes, one per session), `control_plane`, `namespace`, `schedule`.

`make test` runs three workers beside each other, because most of the time is spent waiting. What waits for the real
Kubernetes that all share is one group, what starts a lab of its own another, what waits for real processes of this
machine a third, any other file a group of its own: each group stays in one worker. So runs do not take each other's
cpus, and what a file sets up for all its tests is set up once.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from headway.lab.testing import control_plane, lab, namespace
from scheduling import installed, measured, schedule

__all__ = ["control_plane", "installed", "lab", "measured", "namespace", "schedule"]

LABS_OF_THEIR_OWN = re.compile(
    r"tests/lab/(?!test_lab_real)|tests/experiment/.*_lab|test_(chart|demand|beside_gangs)_lab"
)
ON_KUBERNETES = re.compile(r"tests/(lab|conformance)/|_lab\.py")
ON_THIS_MACHINE = re.compile(r"tests/(examples|local|progress|progress_server)/")

REAL = re.compile(rf"{ON_KUBERNETES.pattern}|{ON_THIS_MACHINE.pattern}|tests/(cli|page)/|tests/test_(docs|bench_)")


class Groups(LoadScopeScheduling):
    """Which tests stay in one worker, by their file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if LABS_OF_THEIR_OWN.search(file):
            return "labs of their own"
        if ON_KUBERNETES.search(file):
            return "kubernetes"
        return "this machine" if ON_THIS_MACHINE.search(file) else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for real pods and processes is tried twice: on a busy machine a wait may be too short.

    Each second try is told at the end of the run (RERUN). One that comes again and again is a fault: look for it.
    """
    for item in items:
        if REAL.search(item.nodeid.partition("::")[0]):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    return Groups(config, log)


# How long an example takes depends on what else the machine does. Times are measured in bench/, not here.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Tests that run in the background may have SIGINT ignored, and the processes that they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Runs of one user on one machine know each other by this folder, and the queue is there. Tests are not disturbed.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="headway-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
os.environ["HEADWAY_GPU_LOCKS"] = f"{os.environ['XDG_STATE_HOME']}/gpus"
# A cluster is meant only where a test says so.
os.environ.pop("KUBECONFIG", None)
