"""What a size is worth, in plain scalar code: one job and one size at a time. The reference for `Worth`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.estimates import OVERRUN_SHARE, Counts
from headway.core.job import computes
from headway.core.jobs.shapes import dominant_share
from headway.core.placement import Placement
from headway.core.scaling import SizeSpan
from headway.core.snapshot import Snapshot
from headway.policies.value.sizes import FURTHER, UNKNOWN_SECONDS, bounds, demand, held, larger_sizes, may_resize_gang
from headway.policies.value.terms import Terms
from headway.policies.value.worth import Worth


@dataclass
class PlainWorth:
    snapshot: Snapshot
    terms: Terms

    def known(self, row: int) -> bool:
        snapshot = self.snapshot
        if not may_resize_gang(snapshot, row) or not snapshot.estimates.known:
            return False
        counts = held(snapshot, row) or snapshot.jobs.shape_at(row).counts
        return not math.isnan(self._left(row)) and 0.0 < self.best_speed(row, counts) < math.inf

    def work(self, row: int) -> float:
        seconds, placement = self._left(row), self.snapshot.placements.get(row)
        if math.isnan(seconds):
            found = UNKNOWN_SECONDS
        elif placement is None:
            found = seconds
        else:
            found = seconds * self.speed(row, placement)
        return found if math.isfinite(found) and found > 0 else 0.0

    def speed(self, row: int, placement: Placement) -> float:
        span = self._span(row)
        if span is None or len(placement.nodes[0]) > span.max:
            return Worth(self.snapshot, self.terms).speed(row, placement)  # several roles: there is one code only
        count = len(placement.nodes[0])
        ideal = self.best_speed(row, (count,))
        if len(set(placement.nodes[0])) > 1 and count <= span.per_node:
            apart = self.snapshot.estimates.scaling(row, span).apart
            return ideal * (apart if 0.0 < apart <= 1.0 else 1.0)
        return ideal

    def best_speed(self, row: int, counts: Counts) -> float:
        if not self.snapshot.estimates.known:
            return 0.0
        span = self._span(row)
        if span is None or counts[0] > span.max:
            speed = self.snapshot.estimates.speed(row, counts)
        else:
            speed = self.snapshot.estimates.scaling(row, span).speeds[counts[0]]
        return speed if math.isfinite(speed) and speed > 0 else 0.0

    def seconds(self, row: int, speed: float) -> float:
        return self.work(row) / speed if speed > 0 else math.inf

    def value_at(self, row: int, speed: float) -> float:
        if speed <= 0:
            return 0.0
        favour = self.terms.favour
        work = max(self.work(row), speed * max(self.terms.restart, 1.0))
        asked = self.share(row, self.snapshot.jobs.shape_at(row).counts)
        return float(speed * asked ** (1.0 - favour) * work**-favour)

    def share(self, row: int, counts: Counts) -> float:
        found = dominant_share(demand(self.snapshot, row, counts), self.snapshot.nodes.total())
        return min(max(found, 1e-9), 1e6)

    def path(self, row: int) -> list[Counts]:
        if not self.known(row):
            return Worth(self.snapshot, self.terms).path(row)
        least, most = bounds(self.snapshot, row)
        span = self._span(row)
        most = most if span is None else (span.max,)
        path, speed = [least], self.best_speed(row, least)
        while len(path) < 48:
            sizes = larger_sizes(path[-1], most)
            options = [(self.best_speed(row, counts), counts) for counts in sizes]
            gains = [((faster - speed) / self._further(row, path[-1], counts), faster, counts)
                     for faster, counts in options if faster > speed * (1.0 + 1e-6)]  # fmt: skip
            if not gains:
                return path
            enough = max(gain for gain, _, _ in gains) * (1.0 - 1e-6)
            _, speed, counts = min((found for found in gains if found[0] >= enough), key=lambda found: sum(found[2]))
            path.append(counts)
        return path

    def best_price(self, row: int, room: int) -> float:
        """The price of the best growth if the nodes were the best ones; infinite where it would not gain enough."""
        now, terms, best = self.snapshot.placements[row], self.terms, math.inf
        count, speed = len(now.nodes[0]), self.speed(row, now)
        for more in FURTHER:
            if more > room or count + more > self._span(row).max:
                break
            faster = self.best_speed(row, (count + more,))
            enough = speed * (1.0 + terms.margin * min(1.0, more / max(count, 1)))
            if faster < enough or self.seconds(row, speed) - self.seconds(row, faster) <= terms.restart:
                continue
            share = self.share(row, (count + more,)) - self.share(row, (count,))
            gain = (self.value_at(row, faster) - self.value_at(row, speed)) / max(share, 1e-9)
            best = min(best, -gain) if gain > 0 else best
        return best

    def tabled(self, row: int) -> bool:
        """Whether the job has one role and holds what it asked for."""
        return self._span(row) is not None and self.snapshot.placements[row].requests is None

    def _further(self, row: int, now: Counts, larger: Counts) -> float:
        if self._span(row) is not None:
            return float(larger[0] - now[0])
        return self.share(row, larger) - self.share(row, now) + 1e-9

    def _span(self, row: int) -> SizeSpan | None:
        shape, nodes = self.snapshot.jobs.shape_at(row), self.snapshot.nodes
        if len(shape.roles) != 1 or not shape.elastic or shape.missing or not shape.roles[0].asks:
            return None
        role, placement = shape.roles[0], self.snapshot.placements.get(row)
        per_node = max(1, min(int(nodes.capacity[kind].max()) // amount for kind, amount in role.asks))
        most = max(role.min, min(role.max, nodes.slots(role.asks, role.constraint)))
        assert computes(role.name)
        return None if placement is not None and len(placement.nodes[0]) > most else SizeSpan(role.min, most, per_node)

    def _left(self, row: int) -> float:
        snapshot = self.snapshot
        seconds = float(snapshot.estimates.left(snapshot.now)[row])
        if seconds <= 0.0 and row in snapshot.placements:
            trained, since = float(snapshot.jobs.attained[row]), float(snapshot.jobs.since[row])
            return OVERRUN_SHARE * (trained + max(0.0, snapshot.now - since))
        return seconds if math.isfinite(seconds) else math.nan
