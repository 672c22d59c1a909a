"""A real Kubernetes on this machine, with simulated and real nodes: for tests, demos and measurements.

    from headway.lab import Lab

    lab = Lab.up(kubelets=2)
    lab.api.get("/api/v1/nodes")
    lab.down()

The lab knows nothing of scheduling: the rest of Headway runs on it like any other program.
"""

from __future__ import annotations

from headway.lab.errors import LabError, Unavailable
from headway.lab.lab import Lab, LabStatus, PartStatus
from headway.lab.node_shapes import NodeGroup, node_groups
from headway.lab.programs import RELEASE, ensure_debian_packages

__all__ = [
    "RELEASE",
    "Lab",
    "LabError",
    "LabStatus",
    "NodeGroup",
    "PartStatus",
    "Unavailable",
    "ensure_debian_packages",
    "node_groups",
]
