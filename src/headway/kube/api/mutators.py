"""What changes pods as they are made, such as webhooks and LimitRanges, and whether news of it are a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headway.kube.api.objects import LimitRange, MutatingPolicy, PodRule, PolicyBinding, RuntimeClass
from headway.kube.api.watch import Changed, Deleted, Listed

Rule = PodRule | LimitRange | MutatingPolicy | PolicyBinding | RuntimeClass
RuleNews = Listed[Any] | Changed[Any] | Deleted[Any]
"""Of one kind of rules."""
RULES: tuple[type, ...] = (PodRule, LimitRange, MutatingPolicy, PolicyBinding, RuntimeClass)


@dataclass(slots=True)
class Mutators:
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
