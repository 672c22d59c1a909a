"""Which files of the folder of published traces each experiment reads, of those that it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headway.experiment.elastic_published import ELASTIC_PUBLISHED, LOG, WORKLOADS
from headway.experiment.everything import EVERYTHING
from headway.experiment.everything_cells import APART, SOURCES
from headway.experiment.learning import curve
from headway.experiment.learning.plan import read_plan, windows_of
from headway.experiment.learning.proof_windows import GENERATED
from headway.experiment.native import slices
from headway.experiment.published import PEER, TRACES
from headway.experiment.unlike import FILES, UNLIKE
from headway.workload.origins.table import origins


def _everything() -> Iterator[str]:
    for seed in EVERYTHING.full.seeds:
        yield from (source.file.format(seed) for source in SOURCES.values())


def _peer() -> Iterator[str]:
    for one in TRACES.values():
        yield f"elasticflow/{one.file}"
        yield from (other.file for other in origins() if other.file.startswith(f"elasticflow/{one.table}/"))


def _elastic_published() -> Iterator[str]:
    yield LOG
    for file in WORKLOADS.values():
        yield from (file.format(seed) for seed in ELASTIC_PUBLISHED.full.seeds)


def _learning() -> Iterator[str]:
    plan, _ = read_plan()
    for one in windows_of(plan):
        if one.source != GENERATED:
            file = SOURCES[one.source].file
            yield file.format(one.place)
            yield from (file.format(place + APART) for place in plan.taught_by)


def _native() -> Iterator[str]:
    for one in (*slices.REPORTED, *slices.CALIBRATION):
        yield slices.SOURCES[one.source].file.format(one.place + APART if one.calibration else one.place)


def _unlike() -> Iterator[str]:
    for cell in UNLIKE.cells:
        yield from FILES[cell.mix][: max(UNLIKE.full.seeds)]


NEEDS: Mapping[str, Callable[[], Iterator[str]]] = {
    PEER.name: _peer,
    ELASTIC_PUBLISHED.name: _elastic_published,
    EVERYTHING.name: _everything,
    UNLIKE.name: _unlike,
    "learning": _learning,
    "learning-curve": lambda: iter((SOURCES[curve.SOURCE].file,)),
    "native": _native,
}


def files_by_experiment() -> dict[str, tuple[str, ...]]:
    return {name: tuple(dict.fromkeys(files())) for name, files in NEEDS.items()}
