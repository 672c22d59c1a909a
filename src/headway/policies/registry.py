"""The policies by name. A plain dict: nothing registers itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from headway.core.policy import Policy
from headway.policies.adaptive import Adaptive
from headway.policies.baselines.backfill import backfill
from headway.policies.baselines.balanced import balanced
from headway.policies.baselines.dragon import Dragon
from headway.policies.baselines.drf import drf
from headway.policies.baselines.edf import edf
from headway.policies.baselines.elasticflow import ElasticFlow
from headway.policies.baselines.fifo import fifo, first_fit
from headway.policies.baselines.flowcon import FlowCon
from headway.policies.baselines.gavel_finish_time import gavel_finish_time
from headway.policies.baselines.gavel_makespan import gavel_makespan
from headway.policies.baselines.gavel_max_min import gavel_max_min
from headway.policies.baselines.kube_default import KubeDefault
from headway.policies.baselines.kube_podgroup import kube_podgroup
from headway.policies.baselines.las import Las
from headway.policies.baselines.optimus import Optimus
from headway.policies.baselines.sia import sia
from headway.policies.baselines.sjf import sjf
from headway.policies.baselines.spread import spread
from headway.policies.baselines.srtf import Srsf, Srtf
from headway.policies.baselines.tiresias import Tiresias
from headway.policies.baselines.volcano import Volcano
from headway.policies.combined_priority import CombinedPriority
from headway.policies.deadline import Deadline
from headway.policies.elastic import Elastic
from headway.policies.headway import Headway
from headway.policies.learned import Learned
from headway.policies.migration import Migration
from headway.policies.ranges import Range

POLICIES: Mapping[str, Callable[..., Policy]] = {
    "fifo": lambda: fifo,
    "first-fit": lambda: first_fit,
    "sjf": lambda: sjf,
    "backfill": lambda: backfill,
    "srtf": Srtf,
    "srsf": Srsf,
    "las": Las,
    "tiresias": Tiresias,
    "drf": lambda: drf,
    "edf": lambda: edf,
    "optimus": Optimus,
    "elasticflow": ElasticFlow,
    "dragon": Dragon,
    "gavel-max-min": gavel_max_min,
    "gavel-finish-time": gavel_finish_time,
    "gavel-makespan": gavel_makespan,
    "sia": sia,
    "kube-default": KubeDefault,
    "kube-podgroup": lambda: kube_podgroup,
    "volcano": Volcano,
    "adaptive": Adaptive,
    "combined-priority": CombinedPriority,
    "deadline": Deadline,
    "spread": lambda: spread,
    "balanced": lambda: balanced,
    "flowcon": FlowCon,
    "migration": Migration,
    "headway": Headway,
    "elastic": Elastic,
    "learned": lambda: Learned(),  # noqa: PLW0108  its network is no setting: it comes from a file
}
"""Name to a function that makes the policy from its settings."""


def settings_of(name: str) -> Mapping[str, Any]:
    """The settings that a policy takes, with their defaults."""
    made_by = POLICIES[name]
    return {field.name: field.default for field in fields(made_by)} if is_dataclass(made_by) else {}


def ranges_of(name: str) -> Mapping[str, Range]:
    """By setting, the values that make sense; only numbers have a range."""
    made_by = POLICIES[name]
    hints: dict[str, Any] = get_type_hints(made_by, include_extras=True) if is_dataclass(made_by) else {}
    marks = {field: getattr(hint, "__metadata__", ()) for field, hint in hints.items()}
    return {field: one for field, found in marks.items() for one in found if isinstance(one, Range)}
