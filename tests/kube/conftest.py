"""A real cluster to schedule on, with `headway schedule` for one namespace of it."""

from __future__ import annotations

import socket

import pytest
from scheduling import TRAINING, Schedule, run_headway


@pytest.fixture(scope="session")
def installed(lab):
    done = run_headway("schedule", "--install", "--kubeconfig", str(lab.kubeconfig))
    assert done.returncode == 0, done.stderr
    return lab


@pytest.fixture
def schedule(installed, namespace, tmp_path):
    with socket.create_server(("", 0)) as probe:
        port = probe.getsockname()[1]
    schedule = Schedule(installed, namespace, tmp_path, port)
    yield schedule
    if schedule.process is not None and schedule.process.poll() is None:
        schedule.kill()
    installed.api.delete(TRAINING.format(namespace))
