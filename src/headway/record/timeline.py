"""A run over time, small enough to draw: what was held, which jobs waited, and where jobs ran."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.node import FloatArray, IntArray, Nodes

WAITS, STALLS, TRAINS = 0, 1, 2
BINS = 240
MOST_BARS = 2500
MOST_ROWS = 40
MOST_SLOTS = 16


@dataclass(slots=True, eq=False)
class KeptStays:
    """Every stay of a run, in flat arrays: a long run has millions. Amounts are of the main resource."""

    spans: array[float] = field(default_factory=lambda: array("d"))
    """In fives: from, to, what (WAITS, STALLS, TRAINS), amount, arrival number of the job."""
    places: array[float] = field(default_factory=lambda: array("d"))
    """In threes: number of the span, node, amount there."""
    splits: array[float] = field(default_factory=lambda: array("d"))
    """In threes: from, to, amount that is free on partly used nodes."""

    def add(self, serial: int, times: tuple[float, float, float], places: Mapping[int, int] | None) -> None:
        """`times`: when the stay begins, from when on the job trains, and when it ends. No places: it holds nothing."""
        begun, turn, ended = times
        idle, held = (WAITS, {}) if places is None else (STALLS, places)
        amount = sum(held.values())
        for since, until, what in ((begun, turn, idle), (turn, ended, TRAINS)):
            if until > since:
                number = len(self.spans) // 5
                self.spans.extend((since, until, what, amount, serial))
                for node, there in held.items():
                    self.places.extend((number, node, there))

    def span_table(self) -> FloatArray:
        return np.array(self.spans, np.float64).reshape(-1, 5)

    def place_table(self) -> FloatArray:
        return np.array(self.places, np.float64).reshape(-1, 3)

    def split_table(self) -> FloatArray:
        return np.array(self.splits, np.float64).reshape(-1, 3)


@dataclass(frozen=True, slots=True)
class Series:
    """Means over equal stretches of time."""

    begin: float
    end: float
    held: list[float]
    """Share of the main resource that is held."""
    stalled: list[float]
    """Share that is held by gangs that do not run."""
    waiting: list[float]
    """Jobs that wait."""
    running: list[float]
    split: list[float]
    """Share of the main resource that is free, but on partly used nodes."""


@dataclass(frozen=True, slots=True)
class Bar:
    row: int
    slot: int
    slots: int
    begin: float
    end: float
    serial: int
    trains: bool


@dataclass(frozen=True, slots=True)
class Gantt:
    """Nodes from top to bottom: bars where there are few, otherwise how full each row was in each stretch of time."""

    begin: float
    end: float
    rows: list[str]
    slots: list[int]
    """By row: how many units of the resource are drawn."""
    bars: list[Bar] = field(default_factory=list)
    shares: list[list[float]] = field(default_factory=list)


def series(kept: KeptStays, begin: float, end: float, capacity: float, bins: int = BINS) -> Series:
    spans = kept.span_table()
    edges = np.linspace(begin, max(end, begin + 1e-9), bins + 1)
    what, amount = spans[:, 2], spans[:, 3]
    parts = [
        (what != WAITS, amount / max(capacity, 1e-9)), (what == STALLS, amount / max(capacity, 1e-9)),
        (what == WAITS, np.ones(len(spans))), (what == TRAINS, np.ones(len(spans))),
    ]  # fmt: skip
    drawn = [binned(spans[mask, 0], spans[mask, 1], weight[mask], edges) for mask, weight in parts]
    splits = kept.split_table()
    drawn.append(binned(splits[:, 0], splits[:, 1], splits[:, 2] / max(capacity, 1e-9), edges))
    return Series(begin, end, *([round(float(value), 4) for value in column] for column in drawn))


def binned(begins: FloatArray, ends: FloatArray, weights: FloatArray, edges: FloatArray) -> FloatArray:
    """The exact mean, between each two edges, of the sum of weights."""
    if not len(begins):
        return np.zeros(len(edges) - 1)
    times = np.concatenate([begins, ends])
    steps = np.concatenate([weights, -weights])
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(steps[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    means: FloatArray = np.maximum(0.0, np.diff(np.interp(edges, times, area)) / np.diff(edges))
    return means


def gantt(kept: KeptStays, nodes: Nodes, capacity: IntArray, during: tuple[float, float]) -> Gantt:
    """`capacity`: of the main resource, by node."""
    shown = np.flatnonzero(capacity)
    places = kept.place_table()
    places = places[places[:, 2] > 0]
    if len(places) <= MOST_BARS and len(shown) <= MOST_ROWS:
        rows = [nodes.nodes[node].name for node in shown]
        slots = [min(int(capacity[node]), MOST_SLOTS) for node in shown]
        return Gantt(*during, rows, slots, _bars(kept.span_table(), places, shown.tolist(), capacity.tolist()))
    names, shares = _shares(kept.span_table(), places, nodes, capacity, during)
    return Gantt(*during, names, [1] * len(names), shares=shares)


def _bars(spans: FloatArray, places: FloatArray, shown: list[int], capacity: list[int]) -> list[Bar]:
    """Each stay takes the lowest free slots of its node. Slots that are not neighbours become several bars."""
    row_of = {node: row for row, node in enumerate(shown)}
    busy: dict[int, list[float]] = {node: [-np.inf] * min(capacity[node], MOST_SLOTS) for node in shown}
    bars = []
    for number, place, amount in sorted(places.tolist(), key=lambda p: (spans[int(p[0]), 0], p[0])):
        begun, ended, what, _, serial = spans[int(number)].tolist()
        node = int(place)
        slots = busy[node]
        wanted = max(1, round(amount * len(slots) / capacity[node]))
        free = [slot for slot, until in enumerate(slots) if until <= begun + 1e-9][:wanted]
        for slot, size in _runs(free):
            bars.append(Bar(row_of[node], slot, size, begun, ended, int(serial), what == TRAINS))
            slots[slot : slot + size] = [ended] * size
    return bars


def _runs(slots: list[int]) -> list[tuple[int, int]]:
    """Neighbouring slots together: the first slot and the number of slots."""
    runs: list[tuple[int, int]] = []
    for slot in slots:
        if runs and slot == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((slot, 1))
    return runs


def _shares(
    spans: FloatArray, places: FloatArray, nodes: Nodes, capacity: IntArray, during: tuple[float, float]
) -> tuple[list[str], list[list[float]]]:
    """Groups of neighbouring nodes, and how full each was in each stretch of time."""
    shown = np.flatnonzero(capacity)
    groups = np.array_split(shown, min(len(shown), MOST_ROWS))
    edges = np.linspace(during[0], max(during[1], during[0] + 1e-9), BINS + 1)
    group_of = np.full(len(nodes), -1)
    for number, group in enumerate(groups):
        group_of[group] = number
    owner = group_of[places[:, 1].astype(np.intp)]
    shares = []
    for number, group in enumerate(groups):
        mine = places[owner == number]
        stays = spans[mine[:, 0].astype(np.intp)]
        filled = binned(stays[:, 0], stays[:, 1], mine[:, 2] / float(capacity[group].sum()), edges)
        shares.append([round(float(value), 2) for value in filled])
    return [_names(nodes, int(group[0]), int(group[-1])) for group in groups], shares


def _names(nodes: Nodes, first: int, last: int) -> str:
    one = nodes.nodes[first].name
    return one if first == last else f"{one} to {nodes.nodes[last].name}"
