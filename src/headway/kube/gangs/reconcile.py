"""Reconciles one job: intent and pods in, next intent and actions out. Pure: all input is in the view.

1. Observe: the pods may change the intent.
2. Act: create, bind, delete and resize pods so that they match the intent.
The caller writes the intent first, then takes the actions, and reconciles again when something has changed.
"""

from __future__ import annotations

import math

from headway.core.states import OVER, State
from headway.kube.gangs.act import act
from headway.kube.gangs.intent import EVICTED
from headway.kube.gangs.model import NextStep, View
from headway.kube.gangs.observe import gang_verdict, observe
from headway.kube.values import replace

ASK_AGAIN_SECONDS = 1.0


def reconcile(view: View) -> NextStep:
    intent = observe(view)
    if intent != view.intent:
        saves = view.saves.next() if intent.reason == EVICTED and view.intent.reason != EVICTED else view.saves
        view = replace(view, intent=intent, refusal=None, saves=saves)
    resting = intent.state in OVER or intent.state is State.WAITING
    settles = math.inf if resting or intent.draining else gang_verdict(view).until
    # A replica has ended, and the gang rule waits for the others: no action before its verdict.
    actions = () if math.isfinite(settles) else act(view)
    return NextStep(intent, actions, math.inf if resting else min(settles, _wake(view)))


def _wake(view: View) -> float:
    """When to reconcile again even if no pod changes."""
    intent = view.intent
    saving = not intent.saved and intent.state in (State.MOVING, State.STOPPING) and not intent.draining
    again = view.now + ASK_AGAIN_SECONDS if saving and not view.saves.asked else math.inf
    return min(intent.until, again)
