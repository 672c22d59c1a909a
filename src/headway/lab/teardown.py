"""Ends a lab: all that it started and only that, also when a crash left it half made.

A lab is thrown away, so its processes are killed, not asked: nothing they could still write is kept.
"""

from __future__ import annotations

import shutil
import time

from headway.lab import cgroups, machine, network, operators, places, process
from headway.lab.errors import LabError
from headway.lab.state import LabState, load_all


def take_down(state: LabState) -> None:
    """Ends processes, then whatever they held; safe to repeat after it was interrupted."""
    _end_processes(state)
    if state.network is not None:
        with places.locked(places.machine_lock()):
            cgroups.remove(state)
            _end_processes(state)  # a shim may have started one more helper meanwhile
            machine.remove_leavings(state)
            network.remove(state)
            if machine.is_last(state):
                machine.restore()
    if "training-operator" in state.operators and not _another_has(state, "training-operator"):
        operators.remove_fixed_certificates()
    shutil.rmtree(state.folder, ignore_errors=True)
    if state.folder.exists():
        raise LabError(f"{state.folder} cannot be removed: remove it by hand")


def take_down_orphans() -> None:
    """End labs whose test run died without ending them."""
    for state in load_all():
        if state.owner is not None and not process.is_alive(state.owner):
            take_down(state)


def _another_has(state: LabState, operator: str) -> bool:
    return any(operator in other.operators for other in load_all() if other.name != state.name)


def _end_processes(state: LabState) -> None:
    deadline = time.monotonic() + 20
    while True:
        recorded = [part.process for part in state.parts if part.process and part.alive]
        ours = {*recorded, *process.marked(state.mark)}
        if not ours:
            return
        if time.monotonic() > deadline:
            raise LabError(f"process {min(one.pid for one in ours)} of lab '{state.name}' cannot be ended")
        process.end(ours, grace_seconds=0)
