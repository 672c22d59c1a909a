"""How a job leaves when Headway is asked to stop: it saves if it can, and ends."""

from __future__ import annotations

import time
from collections.abc import Collection

from headway.core.gang import GangState
from headway.core.placement import Placement
from headway.core.plan import Because
from headway.core.states import State
from headway.local.flights import FlightSteps, Landing, Pilot
from headway.local.gang import Gang

NOT_BEGUN = "it had not begun to report"
"""There is nothing to save: a script connects before its first step."""


def leave(pilot: Pilot, gang: Gang, where: Placement | None) -> FlightSteps:
    """The landing says that it is over, or that it waits for the next start; and why it did not save."""
    why = "none of its replicas can save"
    if not any(replica.connected for replica in gang.replicas):
        young = any(pilot.clock() - replica.launched < pilot.timeouts.start for replica in gang.replicas)
        why = NOT_BEGUN if young or not gang.replicas else "it does not report, so it could not be asked to"
    if (gang.savers or gang.job.saves_itself) and where is not None:
        landing = yield from pilot.stop(gang, where, Because.PREEMPTED)
        if landing.state is not State.RUNNING:
            return landing
        why = landing.why.removeprefix("it was not stopped: ")
    verdict = gang.verdict(pilot.clock(), pilot.timeouts.grace)
    landing = Landing(State.WAITING, None, why)
    if gang.replicas and verdict.state is GangState.DONE:
        landing = Landing(State.FINISHED, None)
    elif gang.replicas and verdict.state is GangState.FAILED:
        landing = Landing(State.FAILED, None, verdict.why)
    return (yield from pilot.take_down(gang, landing))


def end_all(gangs: Collection[Gang], seconds: float) -> None:
    """Ends every process of these gangs and waits this long. With 0 seconds the shims end them after Headway."""
    for gang in gangs:
        for replica in gang.replicas:
            replica.tell_to_stop()
    give_up = time.monotonic() + seconds
    while any(gang.alive() for gang in gangs) and time.monotonic() < give_up:
        time.sleep(0.05)
    for replica in [replica for gang in gangs for replica in gang.alive()] if seconds else []:
        replica.process.kill()  # its shim is halted; what it runs dies with it
        replica.process.wait()
