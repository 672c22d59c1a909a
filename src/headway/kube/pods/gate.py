"""The gate that holds a pod of others back from the native scheduler until its gang's turn, and how it is lifted. Pure.

A policy of the API server puts the gate on new pods. When the turn comes, one patch says where the pod may run, and
lifts the gate: the native scheduler binds it there. As long as a pod is gated, its demands on nodes may be narrowed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headway.kube.api.objects import GROUP, Expression, NodeTerm, Pod

GATE = f"{GROUP}/turn"
"""The gate; also the label of a pod whose gate was lifted."""
GIVEN = "given"
NATIVE = "default-scheduler"
NAME = "metadata.name"


class Gate(msgspec.Struct, frozen=True):
    """What must be known of a gated pod to lift its gate."""

    terms: tuple[NodeTerm, ...] = ()
    """What it demands of nodes already."""
    selects: bool = False
    """It has such terms. None of them is another thing than an empty list: that matches no node."""


def is_ours(pod: Pod) -> bool:
    """Whether its turn is ours to give, or was given."""
    named = {gate.name for gate in pod.spec.schedulingGates}
    return pod.spec.schedulerName == NATIVE and (named == {GATE} or (not named and GATE in pod.metadata.labels))


def gate_of(pod: Pod) -> Gate | None:
    """None if it has no gate of ours, or those of others, too."""
    if pod.spec.nodeName or [gate.name for gate in pod.spec.schedulingGates] != [GATE]:
        return None
    node = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = None if node is None else node.requiredDuringSchedulingIgnoredDuringExecution
    return Gate() if required is None else Gate(tuple(required.nodeSelectorTerms), selects=True)


def pinned_to(pod: Pod) -> str:
    """The only node that it may run on since its gate was lifted; empty if there is no such node."""
    if GATE not in pod.metadata.labels or pod.spec.schedulingGates:
        return ""
    node = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = None if node is None else node.requiredDuringSchedulingIgnoredDuringExecution
    names = {_named(term) for term in (required.nodeSelectorTerms if required is not None else ())}
    return names.pop() if len(names) == 1 else ""


def lifted(gate: Gate, node: str, uid: str, version: str) -> dict[str, Any]:
    """The merge patch: to every alternative that the pod names, the node is added."""
    here = Expression(NAME, "In", [node])
    terms = [NodeTerm(term.matchExpressions, [*term.matchFields, here]) for term in gate.terms]
    if not gate.selects:
        terms = [NodeTerm([], [here])]
    required = {"nodeSelectorTerms": msgspec.to_builtins(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    meta = {"uid": uid, "labels": {GATE: GIVEN}} | ({"resourceVersion": version} if version else {})
    return {"metadata": meta, "spec": {"schedulingGates": [], "affinity": affinity}}


def _named(term: NodeTerm) -> str:
    fields = [one for one in term.matchFields if one.key == NAME and one.operator == "In" and len(one.values) == 1]
    return fields[-1].values[0] if fields else ""
