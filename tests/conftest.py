"""Fixtures shared by all tests: `lab` (two real nodes, one per session), `control_plane`, `namespace`, `schedule`.

`make test` runs two workers beside each other. What waits for a real Kubernetes is one group, what waits for real
processes of this machine another, any other file a group of its own: each group stays in one worker. So there is one
lab, runs do not take each other's cpus, and what a file sets up for all its tests is set up once.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from headway.lab.testing import control_plane, lab, namespace
from scheduling import installed, schedule

__all__ = ["control_plane", "installed", "lab", "namespace", "schedule"]

ON_KUBERNETES = {"lab", "control_plane"}  # fixtures
ON_THIS_MACHINE = {"conformance", "examples", "local", "progress", "progress_server"}  # folders


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("lab") or ON_KUBERNETES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("kubernetes"))
        elif item.get_closest_marker("train") or ON_THIS_MACHINE & set(item.path.parts):
            item.add_marker(pytest.mark.xdist_group("this machine"))
        else:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


# How long an example takes depends on what else the machine does. Times are measured in bench/, not here.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Tests that run in the background may have SIGINT ignored, and the processes that they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Runs of one user on one machine know each other by this folder. Tests neither disturb others nor are disturbed.
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="headway-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)
