"""Fixtures shared by all tests: `lab` (two real nodes, one per session), `control_plane`, `namespace`."""

from __future__ import annotations

import signal

from headway.lab.testing import control_plane, lab, namespace

__all__ = ["control_plane", "lab", "namespace"]

# Who runs the tests in the background may have SIGINT ignored, and processes of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
