"""From the `simulate` section of a file to the world."""

from __future__ import annotations

import pytest

from headway.compare.scenario import described_world
from headway.core.errors import UserError
from headway.estimates.models.coefficients import BUILT_IN
from headway.sim.faults import NO_FAULTS, Outage
from headway.sim.speed import Speed
from headway.workload.simulate_fields import ExitFields, FaultFields, OutageFields, SimulateFields, SpeedFields
from headway.workload.trace import Trace
from shared_cpu import shared


def _world(*jobs, **fields):
    return described_world("file.yaml", Trace(name="t", jobs=jobs, simulate=SimulateFields(**fields)), 4)


def test_nothing_asked_for_is_a_plain_world() -> None:
    world = _world()
    assert world.faults is NO_FAULTS
    assert not world.sharing
    assert world.speed == Speed()
    assert world.checkpoint_seconds is None, "as often as each job says"


def test_everything_asked_for_arrives() -> None:
    faults = FaultFields(between="2h", repair="5m", outages=[OutageFields("n0", "1h", 60)], stragglers=0.1)
    speed = SpeedFields(profiles="built-in", accelerators={"t4": 2.0}, neighbour_loss=0.2)
    world = _world(shared("a"), start="30s", checkpoint="10m", report="1m", noise=0.1, faults=faults, speed=speed)
    assert (world.costs.start, world.checkpoint_seconds, world.seed) == (30.0, 600.0, 4)
    assert (world.reports.seconds, world.reports.noise) == (60.0, 0.1)
    assert world.faults.outages == (Outage("n0", 3600.0, 60.0),)
    assert (world.faults.mean_seconds_between, world.faults.mean_repair_seconds) == (7200.0, 300.0)
    assert (world.sharing.cpu, world.sharing.neighbour_loss) == (True, 0.2)
    assert world.speed.profiles is BUILT_IN


def test_cpu_is_shared_only_where_a_job_may_use_more_than_it_holds() -> None:
    assert _world(shared("a")).sharing.cpu
    assert not _world(shared("a", limit=0.1)).sharing
    assert not _world(shared("a"), speed=SpeedFields(share_cpu=False)).sharing


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"checkpoint": "soon"}, r"^file.yaml: field simulate.checkpoint: 'soon' is not a duration"),
        ({"faults": FaultFields(between=1, repair=0)}, r"^file.yaml: field simulate.faults.repair: must be above zero"),
        ({"speed": SpeedFields(profiles="nowhere")}, r"^file.yaml: nowhere: there is no such folder"),
    ],
)
def test_a_mistake_is_told_with_file_and_field(fields, sentence) -> None:
    with pytest.raises(UserError, match=sentence):
        _world(**fields)


def test_a_replica_that_ends_is_part_of_the_world():
    exits = [ExitFields(job="a", after="1m", code=137, attempt=1)]
    (fault,) = _world(faults=FaultFields(exits=exits)).faults.exits
    assert (fault.job, fault.role, fault.index, fault.after, fault.code, fault.attempt) == (
        "a",
        "worker",
        0,
        60,
        137,
        1,
    )
