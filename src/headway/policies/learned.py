"""Headway with settings that a small trained network chooses by the state of the cluster, cycle by cycle.

It decides by `headway` as it is

- where its network says nothing: without weights the two are exactly the same;
- where whoever watches it says so (`Snapshot.standing`): while it is in shadow, and after it was found to be worse or
  too slow.

Where the cluster's state is not like what it was trained on, it decides as at the end of what it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headway.core.plan import Plan
from headway.core.snapshot import Snapshot, TrainedMode
from headway.policies.headway import Headway
from headway.policies.knobs import BY_NAME
from headway.policies.network import SettingsNetwork
from headway.policies.value.outlook import outlook

PLAIN = Headway()
NO_CHOICE = "no choice"


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Why the trained policy does not decide a cycle."""

    cause: str
    """The same for like reasons, such as how it stands."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    network: SettingsNetwork = field(default_factory=SettingsNetwork)
    name: str = ""
    """The file's name and the begin of its hash; empty where there is no file."""
    base: Headway = PLAIN
    """Decides where the trained one does not."""
    given: frozenset[str] = frozenset()
    """Settings of the base that are not turned."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        return self.settled(snapshot)(snapshot)

    def settled(self, snapshot: Snapshot) -> Headway:
        """The policy that decides this cycle."""
        return self.judged(snapshot)[0]

    def judged(self, snapshot: Snapshot) -> tuple[Headway, KeptOut | None]:
        """The policy that decides this cycle; where it is plain headway, why the trained one does not."""
        standing = snapshot.standing
        if not standing.decides:
            return self.base, KeptOut(standing.mode, f"it is {in_words(standing)}: {standing.why}")
        return self._wanted(snapshot)

    def proposed(self, snapshot: Snapshot) -> Headway:
        """The policy that would decide it if nobody watched."""
        return self._wanted(snapshot)[0]

    @property
    def seconds_per_cycle(self) -> float:
        """What choosing settings may take in the mean."""
        return 0.002

    def took(self, snapshot: Snapshot, clock: Callable[[], float]) -> float:
        """Seconds that it takes to choose the settings."""
        begun = clock()
        self.proposed(snapshot)
        return clock() - begun

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """What headway says under the settings of this cycle, and who chose them."""
        return {**self.settled(snapshot).explain(snapshot, row), "guard": self._guard(snapshot)}

    def _wanted(self, snapshot: Snapshot) -> tuple[Headway, KeptOut | None]:
        if self.network.silent:
            return self.base, KeptOut("weights", "it has no weights")
        if not _matters(snapshot):
            return self.base, KeptOut(NO_CHOICE, "no job waited and no size was to be chosen")
        return self._turned(outlook(snapshot)), None

    def _turned(self, features: np.ndarray[Any, np.dtype[np.float64]]) -> Headway:
        offsets = self.network.offsets(features).tolist()
        values = {name: BY_NAME[name].value(offset) for name, offset in zip(self.network.knobs, offsets, strict=True)}
        chosen: dict[str, Any] = {
            name: value for name, value in values.items() if name not in self.given and value != BY_NAME[name].default
        }
        return replace(self.base, **chosen)

    def _guard(self, snapshot: Snapshot) -> dict[str, Any]:
        standing, beyond = snapshot.standing, self.network.beyond(outlook(snapshot))
        told: dict[str, Any] = {"mode": standing.mode or "unwatched", "file": self.name, "beyond": beyond}
        if self.network.silent:
            sentence = "The trained policy has no weights: headway decides."
        elif not standing.decides:
            sentence = f"headway decides, the trained policy is {in_words(standing)}: {standing.why}."
        else:
            turned = self.proposed(snapshot)
            differs = [f"{name} {getattr(turned, name):g}" for name in self.network.knobs
                       if getattr(turned, name) != getattr(self.base, name)]  # fmt: skip
            since = f" ({standing.why})" if standing.why else ""
            far = f" The cluster is not like its training: {beyond}." if beyond else ""
            sentence = f"The trained policy decides{since}: {', '.join(differs) or 'settings as they are'}.{far}"
        return {**told, "sentence": sentence}


def in_words(standing: TrainedMode) -> str:
    """How it stands, in words that follow "it is"."""
    return {"shadow": "in shadow"}.get(standing.mode, standing.mode)


def _matters(snapshot: Snapshot) -> bool:
    """Whether settings matter: a job waits, or sizes are chosen. Else headway would not even look at beliefs."""
    return bool(len(snapshot.jobs.waiting())) or (snapshot.jobs.any_elastic and snapshot.estimates.known)
