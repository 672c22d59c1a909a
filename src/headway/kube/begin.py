"""From a decision to an intent. Pure; what it takes to get there is reconciliation's business."""

from __future__ import annotations

from dataclasses import replace

from headway.core.plan import Action, Because, Move, Resize, Scale, Start, Stop
from headway.core.states import State
from headway.kube.job.intent import Allocation, Intent
from headway.kube.reconcile.model import KubeTimeouts


def begun(intent: Intent, decision: Action, target: Allocation | None, now: float, patience: KubeTimeouts) -> Intent:
    """The intent once this was decided; `target` is where the job will be when it has ended."""
    fresh = replace(
        intent, target=target, since=now, saved=False, draining=False, goal=State.WAITING, message="", reason=""
    )
    match decision:
        case Start():
            return replace(fresh, state=State.STARTING, until=now + patience.start)
        case Scale():
            return replace(fresh, state=State.SCALING, until=now + patience.scale)
        case Resize():
            return replace(fresh, state=State.RESIZING, until=now + patience.resize)
        case Move():
            return replace(fresh, state=State.MOVING, until=now + patience.save)
        case Stop(because=because):
            goal = State.CANCELLED if because is Because.CANCELLED else State.WAITING
            reason = because.value.capitalize()
            return replace(fresh, state=State.STOPPING, until=now + patience.save, goal=goal, reason=reason)


def adopted(intent: Intent, now: float, patience: KubeTimeouts) -> Intent:
    """After a restart: what was begun gets its full time again, since nobody was there to see it through."""
    waits = {
        State.STARTING: patience.start, State.SCALING: patience.scale, State.RESIZING: patience.resize,
        State.MOVING: patience.start if intent.saved else patience.save, State.STOPPING: patience.save,
    }  # fmt: skip
    if intent.state not in waits or intent.draining:
        return intent
    return replace(intent, until=max(intent.until, now + waits[intent.state]))
