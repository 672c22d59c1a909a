"""What running and waiting jobs have shown of themselves, kept beside the log: a restart need not measure them anew.

A job is the same if its name and the moment of its submission are.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from headway.beliefs.whole_file import read_whole, write_whole
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.placement import Placement
from headway.core.snapshot import Snapshot
from headway.estimates.job.doubt import NO_DOUBT, Doubt
from headway.estimates.job.growth import Grower
from headway.estimates.job.pace import Guess, Pace
from headway.estimates.job.promise import PromisedEnd
from headway.estimates.job.track import Points, Track
from headway.estimates.speed.model import Observation, Setting

MOST_BYTES = 32 << 20
NOWHERE = Placement(())
"""Its next report is from another place than its last one: what was measured there stays known."""
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e18)]


class SeenFields(msgspec.Struct, array_like=True):
    setting: Setting
    seconds: Positive
    spread: Positive


class TrackFields(msgspec.Struct, array_like=True):
    submit: float
    began: float
    at: float
    step: int
    total: int | None
    setting: Setting
    guess: Guess | None
    gap: float
    clock: float
    seen: list[SeenFields] = []
    losses: Points = ()
    metrics: Points = ()
    grower: Grower | None = None
    doubt: Doubt = NO_DOUBT
    promised: PromisedEnd | None = None


_decoder = msgspec.msgpack.Decoder(dict[str, TrackFields])


def write_speeds(path: Path, tracks: Mapping[JobId, Track], snapshot: Snapshot) -> None:
    """Of the jobs of this snapshot."""
    rows, jobs = snapshot.jobs.row_of, snapshot.jobs
    fields = {
        job: _fields(track, float(jobs.submit[rows[job]])) for job, track in tracks.items() if job in rows
    }  # fmt: skip
    write_whole(path, msgspec.msgpack.encode(fields), private=True, synced=False)


def read_speeds(path: Path) -> dict[str, TrackFields]:
    """Nothing where there is no such file, or it is not ours."""
    with suppress(UserError, msgspec.DecodeError, RecursionError):
        return _decoder.decode(read_whole(path, MOST_BYTES, "a file of measured speeds"))
    return {}


def of_these_jobs(kept: Mapping[str, TrackFields], snapshot: Snapshot) -> dict[JobId, Track]:
    """Of the jobs that this snapshot has."""
    rows, submits = snapshot.jobs.row_of, snapshot.jobs.submit
    return {
        JobId(job): _track(fields)
        for job, fields in kept.items()
        if (row := rows.get(JobId(job))) is not None and abs(float(submits[row]) - fields.submit) < 1.0
    }


def _fields(track: Track, submit: float) -> TrackFields:
    return TrackFields(
        submit, track.began, track.at, track.step, track.total, track.setting, track.guess(), track.pace.gap,
        track.clock, [SeenFields(one.setting, one.seconds, one.spread) for one in track.observations()],
        track.losses, track.metrics, track.grower, track.doubt, track.promised,
    )  # fmt: skip


def _track(kept: TrackFields) -> Track:
    return Track(
        began=kept.began, at=kept.at, step=kept.step, total=kept.total, placement=NOWHERE, setting=kept.setting,
        pace=Pace.beginning(kept.at, kept.step, kept.guess, kept.gap), clock=kept.clock,
        seen=tuple(Observation(one.setting, one.seconds, one.spread) for one in kept.seen), losses=kept.losses,
        metrics=kept.metrics, grower=kept.grower, doubt=kept.doubt, promised=kept.promised,
    )  # fmt: skip
