"""How a job's pods will really be, before anything is held for it: the server is asked by a dry run, once per template.

Webhooks, defaults, LimitRanges and runtime classes change pods as they are made. The answer is kept until one of these
changes. Where the server does not answer, the pod counts as Headway would send it; what it really is, is seen when it
exists.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from headway.core.job import Job, Role
from headway.kube.api.objects import LimitRange, Meta, MutatingPolicy, Pod, PodRule, PolicyBinding, RuntimeClass
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.gangs.model import Create
from headway.kube.pods.body import pod_of
from headway.kube.pods.checkpoints import checkpoint_folder
from headway.kube.pods.constraints import BoundClaim, Unplaceable, demands_of
from headway.kube.pods.placement_rules import facts_of
from headway.kube.pods.placing import PodRules
from headway.kube.pods.replica import MAIN
from headway.kube.pods.resources import held_by, role_for
from headway.kube.settings import PodDefaults
from headway.kube.values import replace

log = logging.getLogger("headway.kube")
Body = dict[str, Any]
MOST_KNOWN = 5_000
"""Templates of which it is known what becomes of them. The first is forgotten first."""


@dataclass(frozen=True, slots=True)
class DryRunDone:
    """What the server answered to a dry run."""

    key: str
    pod: Pod | None
    claims: Mapping[str, BoundClaim] = field(default_factory=dict)
    why: str = ""
    """Why there is no pod."""


@dataclass(frozen=True, slots=True)
class Booking:
    """A job with its roles as their pods will really be."""

    job: Job
    rules: Mapping[str, PodRules]
    parts: tuple[SamplePod, ...] = ()


class SamplePod(NamedTuple):
    """A pod of one role, as Headway would send it."""

    role: Role
    """As its user asked for it."""
    key: str
    """Equal for pods that will be alike."""
    body: Body


@dataclass(slots=True)
class DryRuns:
    defaults: PodDefaults
    known: dict[str, DryRunDone] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    """By key, what was asked for and is not known yet: seconds that the question was put off."""
    _bodies: dict[str, Body] = field(default_factory=dict)
    """By key: one body for all pods that will be alike."""
    _outdated: Counter[str] = field(default_factory=Counter)
    """By key: answers to come that were asked for before the last change."""

    def parts(self, job: Job, meta: Meta, template: Mapping[str, Any]) -> list[SamplePod]:
        """A pod of each role of this job."""
        return [self._sample(role, job, meta, template) for role in job.roles]

    def _sample(self, role: Role, job: Job, meta: Meta, template: Mapping[str, Any]) -> SamplePod:
        body = self._body(role, job, meta, template)
        key = _key(meta, body)
        if len(self._bodies) > MOST_KNOWN:
            del self._bodies[next(iter(self._bodies))]
        return SamplePod(role, key, self._bodies.setdefault(key, body))

    def missing(self, parts: Iterable[SamplePod]) -> dict[str, Body]:
        """By key: pods of which it is not known how they will be."""
        return {part.key: part.body for part in parts if part.key not in self.known}

    def body(self, key: str) -> dict[str, Body]:
        """By its key: a pod that was asked for before."""
        return {key: self._bodies[key]} if key in self._bodies else {}

    @property
    def awaited(self) -> int:
        """How many answers are to come soon."""
        return sum(after == 0.0 for after in self.asked.values())

    def take(self, answer: DryRunDone) -> bool:
        """False if the answer is outdated: another will come."""
        if self._outdated[answer.key] > 0:
            self._outdated[answer.key] -= 1
            return False
        if answer.why:
            log.warning("a dry run of pods was not possible, they are counted as they are sent: %s", answer.why)
        self.asked.pop(answer.key, None)
        self.known[answer.key] = answer
        if len(self.known) > MOST_KNOWN:
            del self.known[next(iter(self.known))]
        return True

    def forget(self) -> None:
        """Something that changes pods as they are made has changed."""
        self.known.clear()
        self._outdated = Counter(self._outdated + Counter(self.asked.keys()))
        self.asked.clear()

    def forget_parts(self, parts: Iterable[SamplePod]) -> None:
        """What these pods lack may be there later."""
        for part in parts:
            self.known.pop(part.key, None)

    def book(self, job: Job, parts: Sequence[SamplePod]) -> Booking:
        """The job as its pods will be. Raises `Unplaceable` if Headway cannot honour what they demand."""
        roles, rules = [], {}
        for asked, key, body in parts:
            name = asked.name
            answer = self.known.get(key)
            if answer is not None and answer.pod is not None:
                pod, claims = answer.pod, answer.claims
            else:
                pod, claims = _as_sent(body), _Unread()
            demands = demands_of(pod.spec, claims)
            now = job.role(name)
            plain = replace(asked, replicas=now.replicas, min=now.min, max=now.max)
            roles.append(role_for(plain, held_by(pod), demands))
            rules[name] = PodRules(facts_of(pod), demands)
        return Booking(replace(job, roles=tuple(roles)), rules, tuple(parts))

    def _body(self, role: Role, job: Job, meta: Meta, template: Mapping[str, Any]) -> Body:
        sample = Create(f"{meta.name}-0-{role.name}-0", role.name, 0, 0, "", role.request)
        body = pod_of(sample, job, meta, template, self.defaults)
        body["metadata"]["name"] = f"{meta.name}-try-{role.name}"[:63].rstrip("-")
        return body


class _Unread(dict[str, BoundClaim]):
    """Claims that nobody has read: each counts as bound anywhere."""

    def get(self, key: str, default: Any = None) -> BoundClaim:  # noqa: ARG002  as of every mapping
        return BoundClaim()


def _as_sent(body: Body) -> Pod:
    try:
        return msgspec.convert(body, Pod)
    except msgspec.ValidationError as error:
        raise Unplaceable(f"template: {error}") from error


def _key(meta: Meta, body: Body) -> str:
    """Equal for pods that differ only in name, owner, their job's own folder for checkpoints, and command and variables
    of the training container.
    """
    given = body["metadata"]
    spec = {name: value for name, value in body["spec"].items() if name not in ("hostname", "subdomain")}
    spec["containers"] = [
        {name: value for name, value in one.items() if one["name"] != MAIN or name not in ("env", "command")}
        for one in spec["containers"]
    ]
    labels = {key: value for key, value in given["labels"].items() if not key.startswith("headway.dev/")}
    noted = {key: value for key, value in given["annotations"].items() if not key.startswith("headway.dev/")}
    written = json.dumps([meta.namespace, labels, noted, spec], sort_keys=True, default=str)
    return hashlib.sha256(written.replace(checkpoint_folder("", meta)[1:], "own").encode()).hexdigest()


# ── what changes pods ──

Rule = PodRule | LimitRange | MutatingPolicy | PolicyBinding | RuntimeClass
RuleNews = Listed[Any] | Changed[Any] | Deleted[Any]
"""Of one kind of rules."""
RULES: tuple[type, ...] = (PodRule, LimitRange, MutatingPolicy, PolicyBinding, RuntimeClass)


@dataclass(slots=True)
class Mutators:
    """What changes pods as they are made, such as webhooks and LimitRanges, and whether news of it are a change."""

    _known: dict[type, dict[str, Rule]] = field(default_factory=dict)
    """By kind and uid. A kind that is not here was not listed yet."""

    def take(self, news: RuleNews) -> frozenset[str]:
        """The namespaces for which something changed; the empty name stands for all of them.

        The first list is no change: what was asked before it was asked under these rules. Nor is another label.
        """
        first, known = news.kind not in self._known, self._known.setdefault(news.kind, {})
        before = dict(known)
        match news:
            case Listed(objects=objects):
                known.clear()
                known.update({one.metadata.uid: one for one in objects})
            case Changed(object=one):
                known[one.metadata.uid] = one
            case Deleted(object=one):
                known.pop(one.metadata.uid, None)
        if first and isinstance(news, Listed):
            return frozenset()
        uids = [uid for uid in before.keys() | known.keys() if _content(before.get(uid)) != _content(known.get(uid))]
        return frozenset((known.get(uid) or before[uid]).metadata.namespace for uid in uids)


def _content(rule: Rule | None) -> bytes | None:
    """What it does, without its labels and versions."""
    match rule:
        case None:
            return None
        case PodRule():
            return bytes(rule.webhooks)
        case RuntimeClass():
            return bytes(rule.overhead) + bytes(rule.scheduling)
    return bytes(rule.spec)
