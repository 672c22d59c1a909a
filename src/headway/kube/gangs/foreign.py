"""The steps of a gang whose pods somebody else made: they get nodes, and nothing else.

Headway binds pods that name it as their scheduler. Of pods behind its gate it says where they may run and lifts the
gate; then the native scheduler binds them. All that a restart must know is in the pods: without a node they wait, with
one they hold it until they end. So nothing is written before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from headway.core.gang import Phase
from headway.core.states import OVER, State
from headway.kube.api.objects import Pod
from headway.kube.gangs.gang import THAWED, Around, Capability, Gang, Pause
from headway.kube.gangs.intent import Allocation, Intent, RoleAllocation
from headway.kube.gangs.model import Bind, Delete, Effect, SetCondition, Ungate
from headway.kube.pods.conditions import HELD_BACK, condition_reason, told_by
from headway.kube.pods.gate import gate_of, pinned_to
from headway.kube.pods.replica import Replica, phase_of
from headway.kube.values import replace

REFUSED_SECONDS = 5.0
"""A gang of which a pod was refused is tried again after this."""
BINDS_SECONDS = 60.0
"""The native scheduler binds a pod whose gate was lifted within this time, or its node is not what it was."""
NOT_MADE_ANEW = "it may run on node {} only and was not bound there; nobody makes it anew: create it again"


def foreign_replica(pod: Pod, role: str, index: int) -> Replica:
    return Replica(
        name=pod.metadata.name, role=role, index=index, node=pod.spec.nodeName or pinned_to(pod), uid=pod.metadata.uid,
        bound=bool(pod.spec.nodeName), phase=phase_of(pod)[0], version=pod.metadata.resourceVersion,
        deleting=pod.metadata.deletionTimestamp is not None, gate=gate_of(pod), told=told_by(pod),
        made_anew=any(owner.controller for owner in pod.metadata.ownerReferences),
    )  # fmt: skip


def joined(gang: Gang, pod: Pod, role: str) -> Replica:
    """A pod that was made in place of another one: it takes the number that is free."""
    known = gang.pods.get(pod.metadata.uid)
    if known is not None:
        return foreign_replica(pod, known.role, known.index)
    alive = [one for one in gang.pods.values() if not one.over]
    open_ = [one for one in gang.job.roles if sum(pod.role == one.name for pod in alive) < one.replicas]
    like = [one.name for one in open_ if one.name == role or one.name.startswith(f"{role}-")]
    name = like[0] if like else open_[0].name if open_ else gang.job.roles[0].name
    taken = {one.index for one in alive if one.role == name}
    return foreign_replica(pod, name, next(number for number in range(len(taken) + 1) if number not in taken))


def as_found(gang: Gang, now: float) -> Gang:
    """At the start, or when it comes: one of which every pod has a node runs there."""
    if not all(pod.bound for pod in gang.pods.values()):
        return gang
    return replace(gang, wanted=Intent(state=State.RUNNING, allocation=allocated(gang), since=now))


def foreign_step(gang: Gang, around: Around, now: float) -> tuple[Gang, tuple[Effect, ...]]:
    if gang.refusal is not None and gang.state is State.STARTING:
        gang = _back(gang, now)
    if gang.pause.resting and now >= gang.pause.again:
        gang = replace(gang, pause=replace(gang.pause, resting=False))
    gang = replace(gang, wanted=observe_foreign(gang, now), refusal=None)
    stuck = _stuck(gang, around, now)
    if not any(pod.uid in gang.start.excused and not pod.made_anew for pod in stuck):
        gang = replace(gang, frozen=THAWED)
    fresh = [pod for pod in stuck if pod.uid not in gang.start.excused]
    if fresh:
        gang = _given_up(gang, fresh, now)
    lacking = _lacking(gang)
    more = bool(lacking) and lacking != gang.start.lacking
    gang = replace(gang, start=replace(gang.start, lacking=lacking), wake=now if more else _wake(gang, now))
    if gang.state in OVER:
        return gang, ()
    deletes = [Delete(pod.name, pod.uid, None, pod.version) for pod in stuck if pod.made_anew and not pod.deleting]
    return gang, (*deletes, *_placing(gang), *_telling(gang, stuck))


def observe_foreign(gang: Gang, now: float) -> Intent:  # noqa: PLR0911  one line a case
    intent, pods = gang.wanted, list(gang.pods.values())
    alive = [pod for pod in pods if not pod.over]
    if intent.state in OVER:
        return intent
    if not alive:
        return Intent(state=_end(intent, pods), since=now)
    placed = [pod for pod in alive if pod.bound or (pod.node and pod.uid not in gang.start.excused)]
    if not placed:  # none loses its node, but the server's data may be restored from a copy
        return intent if intent.state in (State.WAITING, State.STARTING) else Intent(since=now)
    here = allocated(gang)
    if all(pod.bound and (pod.phase is not Phase.PENDING or intent.state is not State.STARTING) for pod in alive):
        same = intent.state is State.RUNNING and intent.allocation == here
        return intent if same else Intent(state=State.RUNNING, allocation=here, since=now)
    if intent.state is State.WAITING:
        return Intent(state=State.STARTING, target=here, since=now)
    if intent.state is State.RUNNING:  # a pod was made in place of one that is over
        return replace(intent, state=State.SCALING, target=intent.allocation, since=now)
    return intent


def _end(intent: Intent, pods: list[Replica]) -> State:
    if not pods or intent.state is State.WAITING:
        return State.CANCELLED
    return State.FINISHED if all(pod.phase is Phase.DONE for pod in pods) else State.FAILED


def allocated(gang: Gang) -> Allocation:
    """Where its pods are, or may be."""
    alive = sorted((pod for pod in gang.pods.values() if pod.node and not pod.over), key=lambda pod: pod.index)
    return tuple(
        RoleAllocation(role.name, tuple(pod.node for pod in alive if pod.role == role.name), role.request)
        for role in gang.job.roles
    )


def places(gang: Gang) -> Iterator[tuple[Replica, str]]:
    """For each of its pods that has none yet: the node that it is to have."""
    for share in gang.wanted.target or gang.wanted.allocation or ():
        mine = _of_role(gang, share.role)
        left = Counter(share.nodes) - Counter(pod.node for pod in mine if pod.node)
        free = [node for node in share.nodes if _take(left, node)]
        waiting = [pod for pod in mine if not pod.node and not pod.deleting]
        yield from zip(waiting, free, strict=False)


def _of_role(gang: Gang, role: str) -> list[Replica]:
    mine = [pod for pod in gang.pods.values() if pod.role == role and not pod.over]
    return sorted(mine, key=lambda pod: pod.index)


def _lacking(gang: Gang) -> dict[str, int]:
    """By role: pods that are there, and for which no node was planned."""
    if gang.state not in (State.STARTING, State.SCALING):
        return {}
    planned = {share.role: len(share.nodes) for share in gang.wanted.target or ()}
    counts = {role.name: len(_of_role(gang, role.name)) for role in gang.job.roles}
    return {name: more for name, count in counts.items() if (more := count - planned.get(name, 0)) > 0}


def _wake(gang: Gang, now: float) -> float:
    late = gang.wanted.since + BINDS_SECONDS
    binds = Capability.UNGATE in gang.can and gang.state in (State.STARTING, State.SCALING) and late > now
    return min(gang.pause.again if gang.pause.resting else math.inf, late if binds else math.inf)


def _take(left: Counter[str], node: str) -> bool:
    left[node] -= 1
    return left[node] >= 0


def _placing(gang: Gang) -> Iterator[Effect]:
    for pod, node in places(gang):
        if Capability.BIND in gang.can:
            yield Bind(pod.name, pod.uid, node, pod.version)
        elif pod.gate is not None:
            yield Ungate(pod.name, pod.uid, node, pod.gate, pod.version)


def _telling(gang: Gang, stuck: list[Replica]) -> Iterator[Effect]:
    """Why its pods have no node, in the status of each; news of that, in the status of the first."""
    intent, lost = gang.wanted, {pod.uid for pod in stuck if not pod.made_anew}
    for pod in gang.pods.values():
        why = NOT_MADE_ANEW.format(pod.node) if pod.uid in lost else intent.message
        waits = pod.uid in lost or (intent.state is State.WAITING and intent.message and not pod.node)
        if waits and not pod.over and pod.told != why and (pod.index == 0 or not pod.told or pod.uid in lost):
            reason = condition_reason(intent.reason) if Capability.BIND in gang.can else HELD_BACK
            if gang.written.condition != (pod.uid, why):
                yield SetCondition(pod.name, pod.uid, reason, why)


# ── what the native scheduler cannot bind ───────────────────────────────────────────────────────────────────


def _stuck(gang: Gang, around: Around, now: float) -> list[Replica]:
    """Pods that may run on one node only, which is gone, or where they were not bound in time; where none of the gang
    was bound, all that may run.
    """
    if Capability.UNGATE not in gang.can or gang.state in OVER:
        return []
    open_ = [pod for pod in gang.pods.values() if pod.node and not pod.bound and not pod.over and pod.gate is None]
    late = gang.state is not State.WAITING and now >= gang.wanted.since + BINDS_SECONDS
    stuck = [pod for pod in open_ if late or pod.node in around.gone or pod.uid in gang.start.excused]
    return open_ if stuck and not any(pod.bound for pod in gang.pods.values()) else stuck


def _given_up(gang: Gang, stuck: list[Replica], now: float) -> Gang:
    """Without any bound pod the gang waits for another turn. Else the others stay, and those that its owner makes in
    place of these get other nodes.
    """
    start = replace(
        gang.start, excused=gang.start.excused | {pod.uid for pod in stuck},
        avoided=gang.start.avoided | {pod.node for pod in stuck},
    )  # fmt: skip
    gang = replace(gang, start=start)
    if not any(pod.bound for pod in gang.pods.values()):
        lost = next((pod for pod in stuck if not pod.made_anew), None)
        gang = _back(gang, now)
        return gang if lost is None else gang.freezes(NOT_MADE_ANEW.format(lost.node), now, again=math.inf)
    shares = []
    for share in gang.wanted.target or gang.wanted.allocation or ():
        left = Counter(pod.node for pod in stuck if pod.role == share.role)
        shares.append(replace(share, nodes=tuple(node for node in share.nodes if not _take(left, node))))
    return replace(gang, wanted=replace(gang.wanted, target=tuple(shares), since=now))


def _back(gang: Gang, now: float) -> Gang:
    """It waits for another turn, after a while."""
    pause = Pause(now + REFUSED_SECONDS, refusals=gang.pause.refusals + 1)
    return replace(gang, pause=pause, refusal=None, wanted=Intent(since=now))
