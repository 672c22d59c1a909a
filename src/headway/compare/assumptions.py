"""What a simulation takes for granted, in sentences: a figure means little to a reader who does not know them.

Example: `sizes: rigid: every job keeps the size it asks for`. Also whether jobs competed at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.compare.scenario import Scenario, shares_cpu
from headway.core.text import lasting
from headway.estimates.models.scaling import PARALLEL
from headway.jobspec import seconds
from headway.workload.simulate_fields import FaultFields

COSTS = {"start": "a start", "save": "a save", "stop": "a stop", "scale": "a change of size", "resize": "a resize"}
LITTLE_WAITING = 0.05
"""Jobs hardly compete where the mean wait is below this share of the mean completion time under every policy."""


def assumptions(scenario: Scenario, estimates: str, *, rigid: bool = False) -> dict[str, str]:
    """By topic: sizes, speed, costs, faults where there are any, and where estimates come from."""
    faults = _faults(scenario.trace.simulate.faults)
    return {
        "sizes": _sizes(scenario, rigid=rigid),
        "speed": _speed(scenario),
        "costs": _costs(scenario),
        **({"faults": faults} if faults else {}),
        "estimates": _estimates(scenario, estimates),
    }


def _sizes(scenario: Scenario, *, rigid: bool) -> str:
    jobs = scenario.trace.jobs
    elastic = 0 if rigid else sum(any(role.min != role.max for role in job.roles) for job in jobs)
    if not elastic:
        return "rigid: every job keeps the size it asks for"
    return f"elastic: {elastic:,} of {len(jobs):,} jobs may have fewer or more replicas than they ask for"


def _speed(scenario: Scenario) -> str:
    fields = scenario.trace.simulate.speed
    if fields.profiles:
        said = f"measured profiles of models ({fields.profiles})"
    else:
        said = f"the declared time at the asked-for size; other sizes by Amdahl's law, {PARALLEL:.0%} of it parallel"
    said = said.replace("%", " %")
    losses = {name: getattr(fields, name) for name in ("node_loss", "domain_loss", "neighbour_loss")}
    parts = [f"{name} {loss:g}" for name, loss in losses.items() if loss]
    parts += ["types of accelerator differ"] * bool(fields.accelerators or scenario.trace.seconds_on)
    if shares_cpu(scenario.trace):
        parts.append("jobs with a limit use idle cpu of their node")
    return "; ".join([said, *parts])


def _costs(scenario: Scenario) -> str:
    fields = scenario.trace.simulate
    known = {name: seconds(getattr(fields, name)) for name in COSTS}
    said = [f"{COSTS[name]} {value:g} s" for name, value in known.items() if value]
    return ", ".join(said) if said else "none: starts, stops and changes of size take no time"


def _faults(fields: FaultFields) -> str:
    if fields == FaultFields():
        return ""
    said = [f"nodes fail about every {lasting(seconds(fields.between))}"] if seconds(fields.between) else []
    said += [f"{len(fields.outages)} planned outages"] if fields.outages else []
    said += [f"{len(fields.exits)} planned exits of replicas"] if fields.exits else []
    said += [f"{fields.refused_starts:.0%} of starts are refused".replace("%", " %")] if fields.refused_starts else []
    said += [f"{fields.stragglers:.0%} of replicas are slow".replace("%", " %")] if fields.stragglers else []
    return ", ".join(said) or str(msgspec.to_builtins(fields))


def _estimates(scenario: Scenario, estimates: str) -> str:
    trace = scenario.trace
    match estimates:
        case "declared":
            alike = trace.truth is None or all(trace.work(job) == job.seconds for job in trace.jobs)
            exact = "which are the true ones here; --estimates progress does not know them"
            return f"declared seconds, {exact if alike else 'which differ from the true ones'}"
        case "oracle":
            return "oracle: policies know the true time left"
        case "progress":
            with_beliefs = f", beginning with {scenario.beliefs.name}" if scenario.beliefs.name else ""
            return f"fitted to the progress that jobs report{with_beliefs}"
        case "linear":
            return "the last half minute of progress, extended in a straight line"
    return "none: policies do not know how long a job takes"


def contention(scenario: Scenario, rows: Sequence[Mapping[str, Any]]) -> str:
    """A hint where jobs hardly compete: any policy looks alike then. Empty where they do. A start is no waiting."""
    start = seconds(scenario.trace.simulate.start)
    shares = [(max(0.0, row["wait"]["mean"] - start) / row["jct"]["mean"], row["policy"])
              for row in rows if row["jct"]["mean"]]  # fmt: skip
    share, policy = max(shares, default=(1.0, ""))
    if share >= LITTLE_WAITING or len(scenario.trace.jobs) < 2:
        return ""
    return (
        f"Jobs hardly compete here: under {policy} the mean wait for room is {share:.1%} of the mean completion time, "
        "so policies differ little. Take a smaller cluster, more jobs or a higher load."
    ).replace("%", " %")
