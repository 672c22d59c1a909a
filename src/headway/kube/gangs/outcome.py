"""How a job comes to wait or to be over, by itself or by its user: its pods are deleted, then it is there. Pure."""

from __future__ import annotations

import math

from headway.core.states import State
from headway.kube.gangs.intent import Intent
from headway.kube.gangs.model import View
from headway.kube.values import replace


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


SUSPENDED, CANCELLED = ("Suspended", "its user suspended it"), ("Cancelled", "its user cancelled it")


def obey(view: View) -> Intent | None:
    """None if nothing is ordered, or it is under way."""
    intent, orders = view.intent, view.orders
    leaves = intent.state is State.STOPPING and intent.goal is State.CANCELLED
    if not orders.holds_back:
        if leaves and intent.suspended:
            return replace(intent, goal=State.WAITING, suspended=False, reason="Resumed", message="its user resumed it")
        return None
    suspended = not orders.cancel
    over = intent.draining and intent.goal in (State.FINISHED, State.FAILED)
    if over or (leaves and intent.suspended == suspended):
        return None
    reason, message = SUSPENDED if suspended else CANCELLED
    ordered = replace(intent, suspended=suspended, reason=reason, message=message)
    if intent.state is State.STOPPING and not intent.draining:
        return replace(ordered, goal=State.CANCELLED)
    if _trains(intent) and view.can_save:
        return replace(
            ordered, state=State.STOPPING, goal=State.CANCELLED, target=None, since=view.now,
            until=view.now + view.timeouts.save, draining=False, saved=False,
        )  # fmt: skip
    return take_down(replace(view, intent=ordered), State.CANCELLED, reason, message)


def _trains(intent: Intent) -> bool:
    moves = intent.state is State.MOVING and not intent.saved
    return moves or intent.state in (State.RUNNING, State.SCALING, State.RESIZING)


def left_unsaved(intent: Intent, why: str) -> Intent:
    """A job whose user ends or suspends it goes, although it did not save."""
    return replace(intent, draining=True, until=math.inf, message=f"{intent.message}; it was not saved: {why}")
