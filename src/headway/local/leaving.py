"""How a job leaves when Headway is asked to stop: it saves if it can, and ends."""

from __future__ import annotations

from headway.core.gang import GangState
from headway.core.placement import Placement
from headway.core.plan import Because
from headway.core.states import State
from headway.local.flights import FlightSteps, Landing, Pilot
from headway.local.gang import Gang


def leave(pilot: Pilot, gang: Gang, where: Placement | None) -> FlightSteps:
    """The landing says that it is over, or that it waits for the next start; and why it did not save."""
    why = "none of its replicas can save"
    if gang.savers and where is not None:
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
