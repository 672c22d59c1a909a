"""Headway with settings that a small trained network chooses by the state of the cluster, cycle by cycle.

It decides by `headway` as it is

- where its network says nothing: without weights the two are exactly the same;
- where the cluster's state is not like what it was trained on;
- where whoever watches it says so (`Snapshot.standing`): while it is in shadow, and after it was found to be worse or
  too slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.core.plan import Plan
from headway.core.snapshot import Snapshot, Standing
from headway.policies.headway import Headway
from headway.policies.knobs import BY_NAME
from headway.policies.network import SettingsNetwork
from headway.policies.value.outlook import FEATURES, outlook

PLAIN = Headway()
NO_CHOICE = "no choice"


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Why the trained policy does not decide a cycle."""

    cause: str
    """The same for like reasons: how it stands, or the feature that leaves the range of its training."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    network: SettingsNetwork = field(default_factory=SettingsNetwork)
    name: str = ""
    """The file's name and the begin of its hash; empty where there is no file."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        return self.settled(snapshot)(snapshot)

    def settled(self, snapshot: Snapshot) -> Headway:
        """The policy that decides this cycle."""
        return self.judged(snapshot)[0]

    def judged(self, snapshot: Snapshot) -> tuple[Headway, KeptOut | None]:
        """The policy that decides this cycle; where it is plain headway, why the trained one does not."""
        standing = snapshot.standing
        if not standing.decides:
            return PLAIN, KeptOut(standing.mode, f"it is {_how(standing)}: {standing.why}")
        return self._wanted(snapshot)

    def proposed(self, snapshot: Snapshot) -> Headway:
        """The policy that would decide it if nobody watched."""
        return self._wanted(snapshot)[0]

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """What headway says under the settings of this cycle, and who chose them."""
        return {**self.settled(snapshot).explain(snapshot, row), "guard": self._guard(snapshot)}

    def _wanted(self, snapshot: Snapshot) -> tuple[Headway, KeptOut | None]:
        if self.network.silent:
            return PLAIN, KeptOut("weights", "it has no weights")
        if not _matters(snapshot):
            return PLAIN, KeptOut(NO_CHOICE, "no job waited and no size was to be chosen")
        features = outlook(snapshot)
        number = self.network.outside(features)
        if number is not None:
            told = f"the cluster is not like its training: {self.network.beyond(features)}"
            return PLAIN, KeptOut(FEATURES[number], told)
        return self._turned(features), None

    def _turned(self, features: np.ndarray[Any, np.dtype[np.float64]]) -> Headway:
        offsets = self.network.offsets(features).tolist()
        values = {name: BY_NAME[name].value(offset) for name, offset in zip(self.network.knobs, offsets, strict=True)}
        chosen: dict[str, Any] = {name: value for name, value in values.items() if value != BY_NAME[name].default}
        return Headway(**chosen)

    def _guard(self, snapshot: Snapshot) -> dict[str, Any]:
        standing, beyond = snapshot.standing, self.network.beyond(outlook(snapshot))
        told: dict[str, Any] = {"mode": standing.mode or "unwatched", "file": self.name, "beyond": beyond}
        if self.network.silent:
            sentence = "The trained policy has no weights: headway decides."
        elif not standing.decides:
            sentence = f"headway decides, the trained policy is {_how(standing)}: {standing.why}."
        elif beyond:
            sentence = f"headway decides, because the cluster is not like the training: {beyond}."
        else:
            turned = self.proposed(snapshot)
            differs = [f"{name} {getattr(turned, name):g}" for name in self.network.knobs
                       if getattr(turned, name) != BY_NAME[name].default]  # fmt: skip
            since = f" ({standing.why})" if standing.why else ""
            sentence = f"The trained policy decides{since}: {', '.join(differs) or 'settings as they are'}."
        return {**told, "sentence": sentence}


def _how(standing: Standing) -> str:
    return {"shadow": "in shadow"}.get(standing.mode, standing.mode)


def _matters(snapshot: Snapshot) -> bool:
    """Whether settings matter: a job waits, or sizes are chosen. Else headway would not even look at beliefs."""
    return bool(len(snapshot.jobs.waiting())) or (snapshot.jobs.any_elastic and snapshot.estimates.known)
