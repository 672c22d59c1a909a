"""Gives a model to jobs that name none, so that they have a speed profile and a loss curve.

The class of a job depends on its requested GPU-hours: small below 1, medium below 10, large below 100, else huge (the
classes of Pollux's workloads). Jobs with parameter servers are a class of their own. `WEIGHTS` has the weights of the
models in each class. The choice is a hash of the seed and the job's id: it does not change when other jobs are
added, removed or reordered. A job without a duration is small. A job that names its model keeps it. A job without
steps gets its declared seconds times the steps per second of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b

from headway.core.job import Job

WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "small": {"cifar10": 0.5, "ncf": 0.4, "bert": 0.1},
    "medium": {"bert": 0.4, "deepspeech2": 0.4, "cifar10": 0.2},
    "large": {"yolov3": 0.6, "deepspeech2": 0.2, "imagenet": 0.2},
    "huge": {"imagenet": 0.8, "yolov3": 0.2},
    "servers": {
        "resnet-50": 0.125, "vgg-16": 0.125, "resnext-110": 0.125, "inception-bn": 0.125, "seq2seq": 0.125,
        "cnn-text": 0.125, "dssm": 0.125, "wlm": 0.125,
    },
}  # fmt: skip
STEPS_PER_SECOND: Mapping[str, float] = {
    "bert": 1.1, "cifar10": 9.7, "deepspeech2": 1.5, "imagenet": 1.1, "ncf": 134.0, "yolov3": 3.1,
}  # fmt: skip
"""On one T4 at the base batch size of the model, from Pollux's profiles."""
OTHER_STEPS_PER_SECOND = 1.0
"""For all other models."""


def size_class(job: Job) -> str:
    if any(role.name == "ps" for role in job.roles):
        return "servers"
    hours = job.replicas * (job.seconds or 0.0) / 3600.0
    return "small" if hours < 1 else "medium" if hours < 10 else "large" if hours < 100 else "huge"


def model_for(job: Job, seed: int) -> str:
    """Returns the model by the rule, also for a job that names one."""
    digest = blake2b(f"{seed}:{job.id}".encode(), digest_size=8).digest()
    at = int.from_bytes(digest, "big") / 2**64
    weights = WEIGHTS[size_class(job)]
    for model, weight in weights.items():
        at -= weight
        if at < 0:
            return model
    return next(iter(weights))


def assign_models(jobs: Iterable[Job], seed: int = 0) -> tuple[Job, ...]:
    """Returns the same jobs, each with a model and, if it declares its duration, with steps."""
    return tuple(_assigned(job, seed) for job in jobs)


def _assigned(job: Job, seed: int) -> Job:
    model = job.model or model_for(job, seed)
    steps = job.steps
    if steps is None and job.seconds is not None:
        steps = max(1, round(job.seconds * STEPS_PER_SECOND.get(model, OTHER_STEPS_PER_SECOND)))
    return job if model == job.model and steps == job.steps else replace(job, model=model, steps=steps)
