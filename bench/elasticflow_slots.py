"""ElasticFlow's own rules as a policy for our simulator: how its simulator admits and sizes jobs.

The future is divided into pieces; each has a number of GPUs that no job was promised. A job gets the smallest number
that meets its deadline, from the last moment at which that number suffices, and before it the next smaller one. GPUs
that are then free now go, step by step, to the job whose use of GPU time grows most per GPU. If not all jobs can meet
their deadline together with the new ones, all new ones are rejected.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Job, JobId
from headway.core.placement import Placement
from headway.core.plan import Decision, Plan, Start
from headway.core.snapshot import Snapshot
from headway.policies.placing.spread import place_emptiest
from headway.sim.world import Costs


@dataclass
class Laid:
    """One job in the future."""

    name: JobId
    row: int
    deadline: float
    work: float
    """Left, in steps."""
    levels: list[int]
    """Numbers of GPUs that were measured, ascending."""
    speeds: list[float]
    """Steps per second of each."""
    gpus: list[tuple[float, float, int]] = field(default_factory=list)
    """From, to, how many."""
    in_time: bool = False

    def at_most(self, gpus: int) -> int:
        """The number of the largest level that needs no more, or -1."""
        return bisect_right(self.levels, gpus) - 1

    @property
    def now(self) -> int:
        return self.gpus[0][2] if self.gpus else 0

    @property
    def gpu_time(self) -> float:
        return sum((to - since) * count for since, to, count in self.gpus)


class Ahead:
    """The future: moments, and the GPUs that are free from each on."""

    def __init__(self, now: float, gpus: int, slot: float) -> None:
        self.times, self.free, self.slot = [now], [gpus], slot

    def copy(self) -> Ahead:
        other = Ahead(self.times[0], 0, self.slot)
        other.times, other.free = list(self.times), list(self.free)
        return other

    def aligned(self, moment: float, since: float | None = None) -> float:
        first = self.times[0] if since is None else since
        return first + max(0, math.ceil((moment - first) / self.slot - 1e-9)) * self.slot

    def cut(self, moment: float) -> int:
        """The number of the piece that begins at that moment."""
        place = bisect_left(self.times, moment)
        if place == len(self.times) or self.times[place] != moment:
            self.times.insert(place, moment)
            self.free.insert(place, self.free[place - 1])
        return place

    def merge(self) -> None:
        """Removes moments at which nothing changes."""
        kept = [n for n in range(len(self.times)) if not n or self.free[n] != self.free[n - 1]]
        self.times, self.free = [self.times[n] for n in kept], [self.free[n] for n in kept]

    def give_back(self, job: Laid, sign: int = 1) -> None:
        for since, to, count in job.gpus:
            first, last = self.cut(since), self.cut(to)
            for piece in range(first, last):
                self.free[piece] += sign * count

    def lay(self, job: Laid, first: int | None = None) -> None:
        """Promises the job its GPUs; with `first`, that many until the next moment at which something changes."""
        job.gpus, job.in_time = [], True
        left, begin = job.work, 0
        due = self.aligned(job.deadline)
        if first is not None:
            upto = self.times[1] if len(self.times) > 1 else max(due, self.times[0] + self.slot)
            speed = job.speeds[job.at_most(first)]
            end = self.aligned(self.times[0] + math.ceil(left / speed))
            if end <= upto:
                self._take(job, self.times[0], end, first)
                job.in_time = self.times[0] + left / speed <= job.deadline
                return
            left -= speed * ((job.deadline if upto == due else upto) - self.times[0])
            begin = 1
            self.cut(upto)
            self._take(job, self.times[0], upto, first)
        last = self.cut(due) if due > self.times[0] else 0
        found = self._latest(job, left, begin, last)
        if found is None:
            job.in_time = False
            self._fill(job, left, begin, [len(job.levels) - 1] * len(self.times))
            return
        level, point = found
        self._fill(job, left, begin, [level - 1 if piece < point else level for piece in range(len(self.times))])

    def _latest(self, job: Laid, left: float, begin: int, last: int) -> tuple[int, int] | None:
        """The smallest level that meets the deadline, and the last piece from which it suffices."""
        for level in range(len(job.levels)):
            done = 0.0
            for piece in range(last - 1, begin - 1, -1):
                used = min(level, job.at_most(self.free[piece]))
                if used < 0:
                    continue
                end = job.deadline if piece == last - 1 else self.times[piece + 1]
                done += (end - self.times[piece]) * job.speeds[used]
                if done >= left - 1e-9:
                    return level, piece
        return None

    def _fill(self, job: Laid, left: float, begin: int, most: list[int]) -> None:
        piece = begin
        while piece < len(self.times):
            used = min(most[min(piece, len(most) - 1)], job.at_most(self.free[piece]))
            since = self.times[piece]
            to = self.times[piece + 1] if piece + 1 < len(self.times) else math.inf
            if used >= 0:
                real = math.ceil(left / job.speeds[used] - 1e-9)
                end = self.aligned(since + real, since)
                if end <= to:
                    self._take(job, since, end, job.levels[used])
                    job.in_time = job.in_time and since + left / job.speeds[used] <= job.deadline + 1e-6
                    return
                left -= (to - since) * job.speeds[used]
                self._take(job, since, to, job.levels[used])
                if left <= 0:
                    return
            else:
                job.gpus.append((since, to, 0))
            piece += 1

    def _take(self, job: Laid, since: float, to: float, count: int) -> None:
        job.gpus.append((since, to, count))
        first, last = self.cut(since), self.cut(to)
        for piece in range(first, last):
            self.free[piece] -= count


def speed_at(table: Mapping[int, float], gpus: int) -> float:
    """Steps per second. GPUs above the best measured number are idle."""
    return max(speed for count, speed in table.items() if count <= gpus)


def largest(model: str, *, t4: bool) -> int:
    """The maximum number of GPUs that ElasticFlow gives a model at this batch size."""
    name, _, batch = model.rpartition("-")
    if t4:
        return {"bert": 16, "cifar10": 16, "yolov3": 4, "ncf": 1, "deepspeech2": 32 if batch == "320" else 64}.get(
            name, 64
        )
    fixed = {
        "gpt2-128": 16, "gpt2-256": 32, "bert-64": 8, "inception3-64": 16, "inception3-128": 32, "resnet50-64": 32,
        "vgg16-64": 32,
    }  # fmt: skip
    return fixed.get(model, 16 if name == "bert" else int(batch) if name == "deepspeech2" else min(int(batch), 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses(Costs):
    """A start costs what the policy says that a decision costs."""

    policy: Slots

    def of(self, decision: Decision, now: Placement | None, job: Job) -> float:  # noqa: ARG002  as for all costs
        return self.policy.pause(decision.placement.width()) if isinstance(decision, Start) else 0.0


class Slots:
    """It remembers the admitted jobs and its last decision, as ElasticFlow's simulator does."""

    def __init__(
        self, speeds: Mapping[str, Mapping[int, float]], gpus: int, slot: float, *, pauses: bool = True
    ) -> None:
        self.speeds, self.gpus, self.slot, self.pauses = speeds, gpus, slot, pauses
        self.decisions, self.fresh = 0, False
        self.inside: set[JobId] = set()
        self.away: set[JobId] = set()
        self.last = -math.inf
        self.until = math.inf
        self.sizes: dict[JobId, int] = {}

    def __call__(self, snapshot: Snapshot) -> Plan:
        now = snapshot.now
        if now > self.last:
            known = self.inside | self.away
            new = any(snapshot.jobs.job(row).id not in known for row in snapshot.jobs.waiting().tolist())
            due = self.last + self.slot if new else max(self.until, self.last + self.slot) + self.pause(1)
            if now < due - 1e-6:
                return Plan((), due)  # what a job leaves is not looked at before its slot is over
            self._decide(snapshot)
            self.last, self.fresh = now, True
            self.decisions += 1
        return self._carry_out(snapshot)

    def pause(self, gpus: int) -> float:
        """Seconds without training that a decision costs a running job; at times all jobs restart."""
        large = self.gpus >= 256
        seconds = 7.0 if large else 2.0
        if self.decisions > 1 and (self.decisions - 1) % int(self.slot) == 0:
            seconds += (47.0 if large else 27.0) + 2.0 * (math.log2(gpus) + 1.0)
        return seconds if self.pauses else 0.0

    def _jobs(self, snapshot: Snapshot) -> list[Laid]:
        jobs, left = snapshot.jobs, snapshot.estimates.left(snapshot.now)
        found = []
        for row in np.sort(np.concatenate([jobs.running(), jobs.waiting()])).tolist():
            job = jobs.job(row)
            if job.id in self.away:
                continue
            table = self.speeds[job.model]
            placement = snapshot.placements.get(row)
            size = job.roles[0].replicas if placement is None else placement.width()
            most = largest(job.model, t4=self.gpus < 256)
            levels = [level for level in sorted(table) if level <= most]
            found.append(Laid(job.id, row, float(jobs.deadline[row]), float(left[row]) * speed_at(table, size), levels,
                              [table[level] for level in levels]))  # fmt: skip
        return sorted(found, key=lambda job: job.deadline)

    def _decide(self, snapshot: Snapshot) -> None:
        jobs = self._jobs(snapshot)
        ahead = self._laid(snapshot.now, jobs)
        new = [job for job in jobs if job.name not in self.inside]
        if new and not all(job.in_time for job in jobs):
            self.away.update(job.name for job in new)
            jobs = [job for job in jobs if job.name in self.inside]
            ahead = self._laid(snapshot.now, jobs)
        self.inside.update(job.name for job in jobs)
        self._share_out(ahead, jobs)
        self.sizes = {job.name: job.now for job in jobs}
        self.until = min((to for job in jobs for _, to, _ in job.gpus[:1]), default=math.inf)

    def _laid(self, now: float, jobs: list[Laid]) -> Ahead:
        ahead = Ahead(now, self.gpus, self.slot)
        for job in jobs:
            ahead.lay(job)
        return ahead

    def _share_out(self, ahead: Ahead, jobs: list[Laid]) -> None:
        """Distributes the GPUs that are free now, one level at a time."""
        while ahead.free[0] > 0:
            best: tuple[float, Laid, Laid, Ahead] | None = None
            for job in jobs:
                level = job.at_most(job.now) + 1
                if level >= len(job.levels) or job.levels[level] - job.now > ahead.free[0] or job.work <= 0:
                    continue
                other, trial = ahead.copy(), Laid(job.name, job.row, job.deadline, job.work, job.levels, job.speeds)
                other.give_back(job)
                other.merge()
                other.lay(trial, job.levels[level])
                gain = (trial.gpu_time - job.gpu_time) / (job.levels[level] - job.now) if job.now else math.inf
                if best is None or gain > best[0]:
                    best = (gain, job, trial, other)
            if best is None:
                return
            _, job, trial, after = best
            job.gpus, job.in_time = trial.gpus, trial.in_time
            ahead.times, ahead.free = after.times, after.free

    def _carry_out(self, snapshot: Snapshot) -> Plan:
        draft, jobs = Draft(snapshot), snapshot.jobs
        for row in jobs.running().tolist():
            size = self.sizes.get(jobs.job(row).id, 0)
            if (self.pauses and self.fresh) or snapshot.placements[row].width() != size:
                draft.stop(row)
        self.fresh = False
        if not draft.decided_rows():
            for row in jobs.waiting().tolist():
                size = self.sizes.get(jobs.job(row).id, 0)
                placement = place_emptiest(snapshot, draft.free, jobs.shape_at(row), (size,)) if size else None
                if placement is not None:
                    draft.start(row, placement)
        draft.wake(max(self.until, self.last + self.slot) + self.pause(1))
        return draft.plan()
