"""The next intent of a job whose user suspends, resumes or cancels it. Pure.

A job that trains saves first, if it can. Unlike a policy's decision a user's order is carried out even if saving fails.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headway.core.states import State
from headway.kube.job.intent import Intent
from headway.kube.reconcile.model import View
from headway.kube.reconcile.outcome import take_down

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
