"""One lying tenant: how far it moves what others are told.

The same runs are heard several times: as if the jobs of the largest user had reported nothing, and as if they had told
lies. All histories are then asked about the jobs of the others in the next window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.compare.perform import Tell
from headway.compare.scenario import Scenario
from headway.core.job import Job
from headway.core.node import FloatArray, Nodes
from headway.core.scaling import SizeSpan, workers_per_node
from headway.estimates.history.history import History
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.model import scaling
from headway.estimates.speed.requested import requested_setting
from headway.experiment.learning.window_run import ShadowBooks, run_with
from headway.policies.headway import Headway
from headway.sim.lies import LIES

LIES_TOLD = ("inflated steps", "tiny total", "stalled at 99 %", "creeping from 90 %")


@dataclass(frozen=True, slots=True)
class Moved:
    """How far one lie of one user moves what others are told, as the largest ratio less one."""

    lie: str
    steps: float
    """Seconds per step."""
    speeds: float
    """At other sizes."""
    lengths: float
    """Training times."""

    @property
    def max(self) -> float:
        return max(self.steps, self.speeds, self.lengths)


def largest_user(windows: Sequence[Scenario]) -> str:
    users = [job.user for case in windows for job in case.trace.jobs]
    return max(sorted(set(users)), key=users.count)


def moved_by(windows: Sequence[Scenario], tell: Tell = lambda _: None) -> list[Moved]:
    """Lie by lie: the largest ratios over all windows but the first."""
    liar, honest, silent = largest_user(windows), History(), History()
    believed = dict.fromkeys(LIES_TOLD, History())
    far = {lie: np.zeros(3) for lie in LIES_TOLD}
    for number, case in enumerate(windows):
        others = [job for job in case.trace.jobs if job.user != liar]
        for lie in LIES_TOLD if number else ():
            far[lie] = np.maximum(far[lie], apart(silent, believed[lie], others, Nodes.of(case.nodes)))
        heard = [(LIES["silent"], silent), *((LIES[lie], believed[lie]) for lie in LIES_TOLD)]
        books = ShadowBooks(
            ProgressBook(history=honest), liar, [(lie, ProgressBook(history=one)) for lie, one in heard]
        )
        run_with(case, Headway, books)
        honest, silent = books.asked.history, books.deceived[0][1].history
        believed = {lie: book.history for lie, (_, book) in zip(LIES_TOLD, books.deceived[1:], strict=True)}
        tell((number + 1) / len(windows))
    return [Moved(lie, *np.expm1(far[lie]).tolist()) for lie in LIES_TOLD]


def apart(one: History, other: History, jobs: Sequence[Job], nodes: Nodes) -> tuple[float, float, float]:
    """The largest |log ratio| of what both tell of these jobs: seconds per step, speeds at other sizes, lengths."""
    steps, speeds, lengths = [0.0], [0.0], [0.0]
    for job in jobs:
        asked = requested_setting(job, nodes)
        pace = [history.step(job, asked) for history in (one, other)]
        if pace[0] is not None and pace[1] is not None:
            steps.append(abs(math.log(pace[0].seconds / pace[1].seconds)))
        if len(job.roles) == 1:
            role = job.roles[0]
            span = SizeSpan(role.min, max(role.max, role.replicas), workers_per_node(job, nodes))
            told = [_speeds(history, job, span, nodes) for history in (one, other)]
            speeds.append(float(np.abs(np.log(told[0] / told[1])).max()))
        took = [history.durations.told(job) for history in (one, other)]
        if took[0] is not None and took[1] is not None:
            lengths.append(abs(math.log(took[0].left(0.0)[0] / took[1].left(0.0)[0])))
    return max(steps), max(speeds), max(lengths)


def _speeds(history: History, job: Job, span: SizeSpan, nodes: Nodes) -> FloatArray:
    prior = history.prior(job, requested_setting(job, nodes))
    told = scaling(prior.form, prior.coefficients, job, span).speeds
    return np.array(told[span.min : span.max + 1])
