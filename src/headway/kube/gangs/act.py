"""The actions that bring the pods to the intent. Pure; taking them twice does no harm."""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.gang import Phase
from headway.core.job import Role
from headway.core.states import OVER, State
from headway.kube.gangs.intent import EVICTED, Allocation, RoleAllocation, wanted
from headway.kube.gangs.model import (
    Bind,
    Create,
    Delete,
    PodAction,
    Publish,
    Release,
    RequestCheckpoint,
    ResizePod,
    View,
    all_up,
    matched,
    up,
)
from headway.kube.pods.body import hold_name
from headway.kube.pods.hosts import addresses
from headway.kube.pods.marks import pod_name
from headway.kube.pods.replica import Replica

OWNERS = 8
"""How many pods a hold belongs to. It goes with the last of them."""
AT_ONCE_SECONDS = 1
"""The shortest grace time after which a kubelet still stops the pod; 0 would only remove the object."""


def act(view: View) -> tuple[PodAction, ...]:
    intent = view.intent
    allocation = wanted(intent)
    if intent.state in OVER:
        return tuple(_delete(r) for r in view.replicas if not r.deleting and not _keeps_its_log(view, r))
    if intent.state is State.WAITING:
        return tuple(_delete(r) for r in view.replicas if not r.deleting)
    if intent.reason == EVICTED and intent.state is State.STOPPING and not intent.draining:
        return tuple(_request_checkpoint(view))  # nothing is made in place of the pod that goes
    if allocation is None:
        return (*(_delete(r, _grace(view)) for r in view.alive() if not r.deleting), *_hurry(view), *_force(view))
    return (
        *_clear(view, allocation),
        *_publish(view),
        *_create(view, allocation),
        *_release(view, allocation),
        *_adjust(view, allocation),
        *_request_checkpoint(view),
    )


def _keeps_its_log(view: View, replica: Replica) -> bool:
    """A pod that has ended holds nothing, and its log can still be read. Pods of a cancelled job are deleted."""
    return replica.over and replica.attempt == view.intent.attempt and view.intent.state is not State.CANCELLED


def _grace(view: View) -> int | None:
    """A job that has saved, or is done, needs no grace time: its further work is not wanted."""
    intent = view.intent
    saved = intent.saved and not view.job.saves_itself
    return AT_ONCE_SECONDS if saved or (intent.draining and intent.goal is State.FINISHED) else None


def _delete(replica: Replica, grace: int | None = None) -> Delete:
    return Delete(replica.name, replica.uid, grace, replica.version)


def _hurry(view: View) -> Iterator[Delete]:
    """A pod that another hand deletes with a long grace time is not waited for any more, once its gang has saved."""
    grace = _grace(view)
    if grace is None:
        return
    for replica in view.alive():
        if replica.deleting and (replica.grace or 0) > grace and replica.node not in view.gone:
            yield _delete(replica, grace)


def _force(view: View) -> Iterator[Delete]:
    for replica in view.alive():
        if replica.deleting and replica.node in view.gone:
            yield Delete(replica.name, replica.uid, 0, replica.version)


def _clear(view: View, allocation: Allocation) -> Iterator[PodAction]:
    """Deletes pods of earlier attempts and surplus pods. While a job scales, new pods are up before old ones go."""
    for replica in view.replicas:
        if replica.attempt != view.intent.attempt and not replica.deleting:
            yield _delete(replica, _grace(view))
    yield from _force(view)
    if view.intent.state is State.SCALING and not all_up(allocation, view.mine()):
        return
    known = {share.role for share in allocation}
    for share in allocation:
        for replica in matched(share, view.mine())[1]:
            if not replica.deleting:
                yield _delete(replica)
    for replica in view.mine():
        if replica.role not in known and not replica.deleting:
            yield _delete(replica)


def _publish(view: View) -> Iterator[PodAction]:
    """Before each attempt: somebody may have deleted the Service."""
    intent = view.intent
    grows = intent.state in (State.STARTING, State.SCALING) or (intent.state is State.MOVING and intent.saved)
    if view.subdomain and grows and not view.published:
        yield Publish(view.subdomain)


def _create(view: View, allocation: Allocation) -> Iterator[PodAction]:
    """Creates and binds missing pods of all roles at once: what is held back leaves no hole for others."""
    intent = view.intent
    if any(replica.attempt != intent.attempt for replica in view.alive()):
        return  # two attempts must never write one checkpoint
    mine = view.mine()
    counts = tuple((share.role, len(share.nodes)) for share in allocation)
    shares = {share.role: share for share in allocation}
    numbers = {share.role: _numbers(share, mine) for share in allocation}
    hosts = tuple((role, addresses(role, indexes, view.subdomain)) for role, (indexes, _) in numbers.items())
    for role in view.job.roles:
        share = shares.get(role.name)
        if share is None or any(one.role == role.name and one.uid in view.excused for one in mine):
            continue  # a pod that was turned away has its name still
        hold = hold_name(view.subdomain, intent.attempt, role.name) if role.after else ""
        for index, node in numbers[role.name][1].items():
            name = pod_name(view.name, intent.attempt, role.name, index)
            yield Create(
                name, role.name, index, intent.attempt, node, share.amounts, hosts, counts, view.subdomain, hold
            )
    if any(missing for _, missing in numbers.values()):
        return  # a gang is bound when all its pods are made, as they were booked
    for share in allocation:
        for replica in matched(share, mine)[0]:
            if not replica.bound and replica.phase is Phase.PENDING:
                yield Bind(replica.name, replica.uid, replica.node, replica.version)


def _release(view: View, allocation: Allocation) -> Iterator[PodAction]:
    """Lets the pods of a role start, once the roles before it are up."""
    mine, shares = view.mine(), {share.role: share for share in allocation}
    for role in view.job.roles:
        hold = hold_name(view.subdomain, view.intent.attempt, role.name)
        waits = any(one.role == role.name and one.phase is Phase.PENDING for one in mine)
        if not role.after or not waits or hold in view.released:
            continue
        before = _roles_before(view.job.roles, role)
        if all(up(shares[name], mine) for name in before if name in shares):
            first = [one for one in mine if not one.deleting and one.role in (role.name, *before)]
            yield Release(hold, tuple((one.name, one.uid) for one in first[:OWNERS]))


def _roles_before(roles: tuple[Role, ...], role: Role) -> list[str]:
    """The roles that must be up before this one, directly or indirectly, in the job's order."""
    named = {other.name: other for other in roles}
    found: set[str] = set()
    open_ = list(role.after)
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_.extend(named[name].after)
    return [other.name for other in roles if other.name in found]


def _numbers(share: RoleAllocation, mine: list[Replica]) -> tuple[list[int], dict[int, str]]:
    """Of one role: the numbers of its replicas, and of those that lack a pod the node."""
    fit, _, lacking = matched(share, mine)
    taken = {replica.index for replica in mine if replica.role == share.role}
    free = (number for number in range(len(taken) + len(lacking)) if number not in taken)
    missing = dict(zip(free, lacking, strict=False))
    return sorted([*(replica.index for replica in fit), *missing]), missing


def _adjust(view: View, allocation: Allocation) -> Iterator[PodAction]:
    """Resizes pods whose amounts differ from the allocation: after a resize was decided, or given up."""
    for share in allocation:
        for replica in matched(share, view.mine())[0]:
            spec = dict(replica.spec)
            meant = {kind: amount for kind, amount in share.amounts if kind in spec}
            if replica.phase is Phase.UP and meant != spec:
                yield ResizePod(replica.name, replica.uid, tuple(sorted(meant.items())), replica.version)


def _request_checkpoint(view: View) -> Iterator[PodAction]:
    intent = view.intent
    leaving = (intent.state is State.MOVING and not intent.saved) or intent.state is State.STOPPING
    if leaving and not view.saves.asked and not view.job.saves_itself:
        yield RequestCheckpoint()
