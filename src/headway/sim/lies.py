"""Scripts that report what is not true, so that a policy can be asked what a lie brings.

Example: a job that claims twenty times its steps seems nearly done. Many policies serve such a job first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headway.core.job import Job
from headway.core.snapshot import Sample

FACTOR = 20
"""How far the truth is bent."""

Lie = Callable[[Sample], Sample | None]


def _silent(_sample: Sample) -> None:
    return None


def _inflated(sample: Sample) -> Sample:
    """Claims many times its steps, beyond the total if need be."""
    return replace(sample, step=sample.step * FACTOR)


def _tiny_total(sample: Sample) -> Sample:
    total = sample.total_steps
    return replace(sample, total_steps=None if total is None else max(1, total // FACTOR))


def _stalled(sample: Sample) -> Sample:
    """Hurries to 99 % and stays there."""
    if sample.total_steps is None:
        return sample
    return replace(sample, step=min(sample.step * FACTOR, int(sample.total_steps * 0.99)))


def _creeping(sample: Sample) -> Sample:
    """Hurries to 90 %, then goes on slowly, so that no two reports are equal."""
    total = sample.total_steps
    if total is None:
        return sample
    share = sample.step / total
    return replace(sample, step=int(total * (min(0.9, share * FACTOR) + 0.09 * share)))


def _invented_loss(sample: Sample) -> Sample:
    """A loss that falls as fast as can be believed."""
    return replace(sample, loss=10.0 / (1.0 + sample.step))


LIES: Mapping[str, Lie] = {
    "silent": _silent,
    "honest": lambda sample: sample,
    "inflated steps": _inflated,
    "tiny total": _tiny_total,
    "stalled at 99 %": _stalled,
    "creeping from 90 %": _creeping,
    "invented loss": _invented_loss,
}


def told_by(user: str, lie: Lie) -> Callable[[Job, Sample], Sample | None]:
    """All jobs of this user lie; everybody else tells the truth."""
    return lambda job, sample: lie(sample) if job.user == user else sample
