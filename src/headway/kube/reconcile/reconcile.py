"""Reconciles one job: intent and pods in, next intent and actions out. Pure: all input is in the view.

1. Observe: the pods may change the intent.
2. Act: create, bind, delete and resize pods so that they match the intent.
The caller writes the intent first, then takes the actions, and reconciles again when something has changed.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headway.core.states import OVER, State
from headway.kube.reconcile.act import act
from headway.kube.reconcile.model import NextStep, View
from headway.kube.reconcile.observe import gang_verdict, observe

ASK_AGAIN_SECONDS = 1.0


def reconcile(view: View) -> NextStep:
    intent = observe(view)
    if intent != view.intent:
        view = replace(view, intent=intent, refusal=None)
    return NextStep(intent, () if _is_settling(view) else act(view), _wake(view))


def _is_settling(view: View) -> bool:
    """A replica has ended, and the gang rule waits for the others: no action before its verdict."""
    intent = view.intent
    resting = intent.state in OVER or intent.state is State.WAITING or intent.draining
    return not resting and math.isfinite(gang_verdict(view).until)


def _wake(view: View) -> float:
    """When to reconcile again even if nothing changes."""
    intent = view.intent
    if intent.state in OVER or intent.state is State.WAITING:
        return math.inf
    moments = [intent.until]
    if not intent.draining:
        moments.append(gang_verdict(view).until)
    saving = not intent.saved and intent.state in (State.MOVING, State.STOPPING) and not intent.draining
    if saving and not view.saves.asked:
        moments.append(view.now + ASK_AGAIN_SECONDS)
    return min(moments)
