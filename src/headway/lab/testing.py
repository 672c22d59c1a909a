"""Fixtures for tests on a real Kubernetes; import them into a conftest.

One lab for the whole test session, a namespace for each test. If this machine cannot run a lab, the tests are skipped
with the reason. If the environment variable `CI` is set, they fail instead, so that a broken lab does not look like a
green run.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Unpack

import pytest

from headway.lab import RELEASE, Lab, LabError, Unavailable, ensure_debian_packages
from headway.lab.options import LabOptions, needed_programs, state_for
from headway.lab.programs import missing

KUBELETS = 2
KUBELET_CPUS = 2.0


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab with two real nodes, shared by all tests of the session."""
    started = _up(kubelets=KUBELETS)
    yield started
    started.down()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Lab]:
    """A lab without nodes, for tests that need no pod to run; works without root."""
    started = _up(kubelets=0)
    yield started
    started.down()


@pytest.fixture
def namespace(lab: Lab) -> Iterator[str]:
    """A namespace in `lab` for one test, with its default service account; deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    lab.create_namespace(name)
    yield name
    lab.api.delete(f"/api/v1/namespaces/{name}")


def _up(*, kubelets: int) -> Lab:
    return up_for_test(str(kubelets), kubelets=kubelets, kubelet_cpus=KUBELET_CPUS, audit=True)


def up_for_test(stem: str, **options: Unpack[LabOptions]) -> Lab:
    """A lab that ends with this process. Of another release than the default one only where that is built."""
    in_ci = bool(os.environ.get("CI"))
    name = f"test-{os.getpid()}-{stem}"
    state = state_for(name, options)
    absent = [] if state.kubernetes == RELEASE else missing(needed_programs(state))
    if absent:  # twenty minutes to build: on demand only, even in CI
        pytest.skip(f"not built; run `headway lab build --kubernetes {state.kubernetes} {absent[0].name}`")
    try:
        if state.kubelets and in_ci:
            ensure_debian_packages()
        options["owned"] = True
        return Lab.up(name, **options)
    except Unavailable as error:
        if in_ci:
            pytest.fail(f"no lab, and CI is set: {error}", pytrace=False)
        pytest.skip(str(error))
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
