"""Who runs the slices: the native scheduler in three ways, and Headway in three. Each has a twin in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs
from headway.compare.scenario import Scenario
from headway.core.job import Can
from headway.core.policy import Policy
from headway.estimates.history.history import History
from headway.experiment.learning.window_run import learning_run
from headway.experiment.native.slices import CALIBRATION, REPORTED, fixed
from headway.policies.headway import Headway
from headway.trained.file import policy_named

BACK_OFF = {"podMaxBackoffSeconds": 1}
"""Between two events of virtual time pass hours, and no back-off is left; really it is less than a second. With the
default of ten, the pods that have waited longest would come last."""
OF_GPUS = {"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 1}]}
MOST_ALLOCATED = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": OF_GPUS}}],
        }
    ]
}
NATIVE, GROUPS, KUEUE, HEADWAY = "native", "groups", "kueue", "headway"


@dataclass(frozen=True, slots=True)
class Contender:
    title: str
    kind: str
    twin: str
    """The policy that stands for it in virtual time; empty: none."""
    fixed: bool = True
    """Jobs keep the size that they ask for."""
    stops: bool = True
    believes: bool = False
    """Begins with what the jobs of the slice for calibration have taught."""
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the native scheduler's configuration."""
    slices: int = len(REPORTED)
    """It runs on the first so many: a variant, or one that is slow."""
    rendezvous: float = math.inf
    """Seconds after which the replicas of a half gang give up and are made anew."""

    def case(self, case: Scenario) -> Scenario:
        """The slice as this contender gets it."""
        found = fixed(case) if self.fixed else case
        if self.stops:
            return found
        jobs = tuple(replace(job, can=Can.NOTHING) for job in found.trace.jobs)
        return replace(found, trace=replace(found.trace, jobs=jobs))

    def beliefs(self, source: str) -> LearnedBeliefs:
        return taught(source) if self.believes else NO_BELIEFS

    @property
    def policy(self) -> Callable[[], Policy]:
        return lambda: policy_named(self.twin)


CONTENDERS: Mapping[str, Contender] = {
    "podgroup": Contender("native, PodGroup", GROUPS, "kube-podgroup"),
    "native": Contender("native", NATIVE, "kube-default"),
    "packed": Contender("native, MostAllocated", NATIVE, "", scheduler=MOST_ALLOCATED, slices=6),
    "kueue": Contender("kueue + native", KUEUE, "", slices=1),
    "fixed": Contender("headway, fixed sizes, no stops", HEADWAY, "headway", stops=False),
    "headway": Contender("headway", HEADWAY, "headway", fixed=False),
    "learned": Contender("learned, with beliefs", HEADWAY, "learned", fixed=False, believes=True, slices=6),
    "timeout": Contender("native, rendezvous 15 min", NATIVE, "", rendezvous=900.0, slices=2),
}
"""By the name of a run. The first is the primary baseline."""
BASELINE = "podgroup"


@cache
def taught(source: str) -> LearnedBeliefs:
    """What the jobs of a source's slices for calibration have taught headway, in virtual time."""
    history = History()
    for one in CALIBRATION:
        if one.source == source:
            _, history = learning_run(one.case(), Headway, history)
    return replace(NO_BELIEFS, history=history, name=f"calibration of {source}")
