"""Fixtures shared by all tests: `lab` (two real nodes, one per session), `control_plane`, `namespace`."""

from __future__ import annotations

from headway.lab.testing import control_plane, lab, namespace

__all__ = ["control_plane", "lab", "namespace"]
