"""Fixtures shared by all tests: `lab` (two real nodes, one per session), `control_plane`, `namespace`, `schedule`."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import HealthCheck, settings

from headway.lab.testing import control_plane, lab, namespace
from scheduling import installed, schedule

__all__ = ["control_plane", "installed", "lab", "namespace", "schedule"]

# How long an example takes depends on what else the machine does. Times are measured in bench/, not here.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Tests that run in the background may have SIGINT ignored, and the processes that they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Runs of one user on one machine know each other by this folder. Tests neither disturb others nor are disturbed.
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="headway-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)
