"""The steps of a pod that somebody else made and that names Headway as its scheduler: it is bound, and nothing else.

Its state is in the cluster alone: without a node it waits, with one it holds its room until it ends. So nothing is
written before a binding, and a restart needs no memory.
"""

from __future__ import annotations

import math

from headway.core.gang import Phase
from headway.core.states import OVER, State
from headway.kube.gangs.gang import Gang, Pause
from headway.kube.gangs.intent import Intent, RoleAllocation
from headway.kube.gangs.model import Bind, Effect, SetCondition
from headway.kube.pods.conditions import condition_reason
from headway.kube.pods.replica import Replica
from headway.kube.values import replace

ROLE = "pod"
REFUSED_SECONDS = 5.0
"""A pod whose binding was refused is tried again after this."""


def foreign_step(gang: Gang, now: float) -> tuple[Gang, tuple[Effect, ...]]:
    if gang.refusal is not None and gang.state is State.STARTING:
        gang = replace(gang, refusal=None, pause=Pause(now + REFUSED_SECONDS, refusals=gang.pause.refusals))
        gang = replace(gang, wanted=Intent(state=State.WAITING, since=now))
    if gang.pause.resting and now >= gang.pause.again:
        gang = replace(gang, pause=replace(gang.pause, resting=False))
    gang = replace(gang, wanted=observe_foreign(gang, now), refusal=None)
    pod, intent = next(iter(gang.pods.values()), None), gang.wanted
    gang = replace(gang, wake=gang.pause.again if gang.pause.resting else math.inf)
    if pod is None or intent.state in OVER:
        return gang, ()
    if intent.state is State.STARTING and not pod.bound and intent.target is not None:
        return gang, (Bind(pod.name, pod.uid, intent.target[0].nodes[0], pod.version),)
    why = (condition_reason(intent.reason), intent.message)
    if intent.state is State.WAITING and intent.message and why != gang.written.condition:
        return gang, (SetCondition(pod.name, pod.uid, *why),)
    return gang, ()


def observe_foreign(gang: Gang, now: float) -> Intent:
    intent, pod = gang.wanted, next(iter(gang.pods.values()), None)
    if intent.state in OVER:
        return intent
    if pod is None or (pod.over and intent.state is State.WAITING):
        return Intent(state=State.CANCELLED, since=now)
    if pod.over:
        return Intent(state=State.FINISHED if pod.phase is Phase.DONE else State.FAILED, since=now)
    if not pod.bound:  # a pod never loses its node, but the server's data may be restored from a copy
        return Intent(since=now) if intent.state is State.RUNNING else intent
    here = intent.nodes() == [pod.node]
    if here and (intent.state is State.RUNNING or (intent.state is State.STARTING and pod.phase is not Phase.UP)):
        return intent
    return Intent(state=State.RUNNING, allocation=_there(gang, pod), since=now)


def _there(gang: Gang, pod: Replica) -> tuple[RoleAllocation, ...]:
    return (RoleAllocation(ROLE, (pod.node,), gang.job.roles[0].request),)
