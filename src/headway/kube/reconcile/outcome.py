"""How a job comes to wait or to be over: its pods are deleted, then it is there. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from headway.core.states import State
from headway.kube.job.intent import Intent
from headway.kube.reconcile.model import View


def settle(intent: Intent, state: State, now: float) -> Intent:
    """The intent of a job without pods: it waits, is suspended, or is over. What starts again is another attempt."""
    suspended = intent.suspended and state is State.CANCELLED
    return Intent(
        state=state, attempt=intent.attempt + (state is State.WAITING or suspended), since=now,
        losses=intent.losses, refusals=intent.refusals, suspended=suspended,
        reason=intent.reason if intent.draining else state.name.capitalize(),
        message=intent.message if intent.draining else "",
    )  # fmt: skip


def take_down(view: View, goal: State, reason: str, message: str) -> Intent:
    """Deletes all pods; then the job is in the state `goal`. At once if there are no pods."""
    intent = view.intent
    going = replace(
        intent, state=State.STOPPING, draining=True, goal=goal, target=None, since=view.now,
        until=math.inf, saved=False, reason=reason, message=message,
    )  # fmt: skip
    return going if view.alive() else settle(going, goal, view.now)
