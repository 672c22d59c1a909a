"""One log for all clusters: whatever a policy saw can be built again from it, exactly."""

from __future__ import annotations

import math
import stat
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.board import Board
from headway.core.job import Can, Job, JobId, Role, Target
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.plan import Because, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import State
from headway.cycle.loop import Decided, run
from headway.estimates.plain_books import DeclaredBook, NoEstimates, OracleBook
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.record.env_marks import hidden_env
from headway.record.lines import (
    CycleLine,
    Head,
    JobLine,
    pack_decision,
    pack_job,
    pack_sample,
    unpack_decision,
    unpack_job,
    unpack_sample,
)
from headway.record.log import LogWriter, read
from headway.record.logfile import LogError
from headway.record.metrics import Tally
from headway.record.replay import ReplayCluster
from headway.sim.cluster import Costs, SimCluster, World
from make import a_job, a_role, some_nodes

PLACE = Placement(((0, 1), (2,)), ((1, 2), None))


@pytest.mark.parametrize(
    "decision",
    [
        Start(JobId("a"), PLACE),
        Scale(JobId("a"), "worker", (1, 2)),
        Resize(JobId("a"), "worker", 500, 100),
        Move(JobId("a"), Placement(((0,),))),
        Stop(JobId("a"), Because.SUSPENDED),
        Stop(JobId("a"), Because.RECLAIMED),
        Reserve(JobId("a"), PLACE, 12.5),
    ],
)
def test_decisions_survive_the_log(decision):
    assert unpack_decision(msgspec.json.decode(msgspec.json.encode(pack_decision(decision)))) == decision


def test_jobs_survive_the_log():
    job = Job(
        id=JobId("a"), user="u", queue="q", priority=3, submit=1.5, deadline=9.0, steps=10, seconds=4.0,
        can=Can.STOP | Can.SIZE, checkpoints=False, model="m", directory="/x",
        target=Target(metric="accuracy", value=0.9, higher=True),
        roles=(
            Role(name="ps", replicas=1, min=0, max=2, request=(("cpu", 5),), limit=(("cpu", 9),)),
            Role(name="worker", selector=(("k", "v"),), tolerates=("t",), accelerator="A", after=("ps",), near=("ps",),
                 apart=("worker",), command=("a", "b"), env=(("X", "1"),)),
        ),
    )  # fmt: skip
    logged = unpack_job(msgspec.json.decode(msgspec.json.encode(pack_job(job))))
    assert logged == replace(job, roles=tuple(replace(role, env=hidden_env(role.env)) for role in job.roles))
    assert unpack_job(msgspec.json.decode(msgspec.json.encode(pack_job(a_job())))) == a_job()


def _columns(snapshot: Snapshot) -> dict[str, object]:
    jobs = snapshot.jobs
    names = ("state", "since", "attained", "service", "size", "touched", "first_start", "saved", "stops", "submit",
             "priority", "deadline", "declared", "can", "width")  # fmt: skip
    alive = np.flatnonzero(jobs.state < 7)
    seen: dict[str, object] = {name: jobs.column(name)[alive].tolist() for name in names}
    seen["ids"] = [jobs.job(int(row)).id for row in alive]
    seen["free"] = snapshot.free.tolist()
    seen["placed"] = {jobs.job(row).id: place for row, place in snapshot.placements.items()}
    seen["flights"] = {jobs.job(row).id: flight for row, flight in snapshot.flights.items()}
    seen["samples"] = snapshot.samples
    if snapshot.estimates.asked:
        seen["left"] = snapshot.estimates.left(snapshot.now)[alive].tolist()
    return seen


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def _recorded(path: Path, policy: str, jobs: list[Job], nodes: Nodes, costs: Costs, estimates: str) -> list[dict]:
    sim = SimCluster(nodes, jobs, World(costs=costs))
    books = {"oracle": OracleBook(sim.truth), "declared": DeclaredBook(), "progress": ProgressBook()}
    writer = LogWriter(path, Head("sim", policy, estimates), fresh=True)
    seen: list[dict] = []

    def observe(decided: Decided) -> None:
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        seen.append(_columns(decided.snapshot))

    run(sim, POLICIES[policy](), books[estimates], observe)
    writer.end(sim.now, sim.board.unfinished)
    return seen


jobs_of_any_kind = st.lists(
    st.builds(
        lambda number, gpus, submit, seconds, priority, elastic: (gpus, submit, seconds, priority, elastic),
        st.integers(), st.integers(1, 6), st.integers(0, 50), st.integers(0, 60), st.integers(0, 3), st.booleans(),
    ),
    min_size=1, max_size=30,
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    specs=jobs_of_any_kind,
    policy=st.sampled_from(["fifo", "first-fit", "backfill", "adaptive"]),
    estimates=st.sampled_from(["oracle", "declared", "progress"]),
    cost=st.sampled_from([0.0, 1.5]),
)
def test_a_replay_sees_every_snapshot_and_decides_the_same(tmp_path_factory, specs, policy, estimates, cost):
    jobs = [
        a_job(f"j{i}", roles=[a_role(replicas=gpus, min=1 if elastic else gpus, max=gpus + 2 * elastic)],
              submit=float(submit), seconds=float(seconds), priority=priority, steps=100)
        for i, (gpus, submit, seconds, priority, elastic) in enumerate(specs)
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("log") / "run.log"
    costs = Costs(start=cost, save=cost, stop=cost, scale=cost, resize=cost)
    seen = _recorded(path, policy, jobs, some_nodes(2), costs, estimates)
    replayed: list[dict] = []
    cluster = ReplayCluster(path)
    run(cluster, POLICIES[policy](), NoEstimates(), lambda decided: replayed.append(_columns(decided.snapshot)))
    assert cluster.complete
    assert not cluster.differences
    assert len(replayed) == len(seen)
    for then, now in zip(seen, replayed, strict=True):
        assert _same(then, now), (then, now)


@pytest.mark.parametrize("sample", [Sample(JobId("a"), 1.5, 3), Sample(JobId("a"), 1.5, 3, 0.5, 10, 0.25)])
def test_samples_survive_the_log(sample):
    packed = msgspec.json.decode(msgspec.json.encode(pack_sample(sample)))
    assert unpack_sample(packed) == sample
    assert len(packed) == (5 if sample.metric is None else 6)


def test_another_policy_differs_and_is_told(tmp_path):
    jobs = [a_job("big", gpus=8, seconds=10.0), a_job("huge", gpus=8, seconds=10.0), a_job("small", seconds=5.0)]
    _recorded(tmp_path / "log", "fifo", jobs, some_nodes(2), Costs(), "declared")
    jobs = [a_job("big", gpus=7, seconds=10.0), a_job("huge", gpus=8, seconds=10.0), a_job("small", seconds=5.0)]
    _recorded(tmp_path / "log", "fifo", jobs, some_nodes(2), Costs(), "declared")
    cluster = ReplayCluster(tmp_path / "log")
    run(cluster, POLICIES["first-fit"](), NoEstimates())
    assert cluster.differences
    assert cluster.differences[0].recorded != cluster.differences[0].replayed


def test_a_log_cut_off_anywhere_is_read_up_to_its_last_whole_line(tmp_path):
    path = tmp_path / "log"
    jobs = [a_job(f"j{i}", seconds=5.0, submit=float(i)) for i in range(10)]
    _recorded(path, "fifo", jobs, some_nodes(1), Costs(), "declared")
    whole = path.read_bytes()
    lines = len(list(read(path)))
    for cut in range(0, len(whole), 97):
        path.write_bytes(whole[:cut])
        assert len(list(read(path))) == whole[:cut].count(b"\n") <= lines
        ReplayCluster(path).next_snapshot()


def test_appending_after_a_crash_does_not_spoil_the_next_line(tmp_path):
    path = tmp_path / "log"
    LogWriter(path, Head("local", "fifo", "none"), durable=True).close()
    with path.open("ab") as file:
        file.write(b'{"line":"cyc')
    LogWriter(path, Head("local", "fifo", "none"), durable=True).close()
    assert [line.policy for line in read(path)] == ["fifo", "fifo"]


@pytest.mark.parametrize("text", [b"hello\n", b'{"line":"unknown"}\n', b'{"line":"cycle","now":"x"}\n'])
def test_what_is_no_log_is_told_with_its_line(tmp_path, text):
    (tmp_path / "log").write_bytes(text)
    with pytest.raises(LogError, match="line 1"):
        list(read(tmp_path / "log"))


def test_compressed_logs_are_read_alike(tmp_path):
    jobs = [a_job(f"j{i}", seconds=5.0) for i in range(5)]
    for name in ("plain.log", "packed.log.gz"):
        _recorded(tmp_path / name, "fifo", jobs, some_nodes(1), Costs(), "declared")
    results = []
    for name in ("plain.log", "packed.log.gz"):
        tally = Tally()
        for line in read(tmp_path / name):
            tally(line)
        results.append(tally.result())
    assert results[0] == results[1]


def _logged(*env: tuple[str, str], key: bytes = b"key") -> Job:
    job = a_job(roles=[replace(a_role(), env=env)])
    return unpack_job(msgspec.json.decode(msgspec.json.encode(pack_job(job, key))))


def test_values_of_env_stay_out_of_the_log(tmp_path):
    job = a_job("a", roles=[replace(a_role(), env=(("API_TOKEN", "s3cret-value"), ("MODE", "fast")))], seconds=5.0)
    _recorded(tmp_path / "log", "fifo", [job], some_nodes(1), Costs(), "declared")
    text = (tmp_path / "log").read_text()
    assert "API_TOKEN" in text
    assert "s3cret" not in text
    assert "fast" not in text
    cluster = ReplayCluster(tmp_path / "log")
    run(cluster, POLICIES["fifo"](), NoEstimates())
    assert cluster.complete
    assert not cluster.differences


def test_a_log_tells_whether_env_has_changed():
    assert _logged(("A", "1"), ("B", "2")) == _logged(("A", "1"), ("B", "2"))
    assert _logged(("A", "1")) != _logged(("A", "2"))
    assert _logged(("A", "1")) != _logged(("B", "1"))
    assert _logged(("A", "\ud800")) != _logged(("A", ""))
    assert _logged(("A", "1")) != _logged(("A", "1"), key=b"another"), "who has no key can guess nothing"
    assert _logged(("A", "1"), key=b"") == _logged(("A", "2"), key=b""), "without a key a mark tells nothing"
    once = _logged(("A", "1"))
    assert unpack_job(msgspec.json.decode(msgspec.json.encode(dict(pack_job(once))))) == once


def test_only_its_owner_may_read_a_log(tmp_path):
    for name in ("run.log", "run.log.gz", "old.log"):
        path = tmp_path / name
        if name == "old.log":
            path.touch(0o644)
        LogWriter(path, Head("local", "fifo", "none")).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = Path("/dev/null").stat().st_mode
    LogWriter(Path("/dev/null"), Head("local", "fifo", "none"), fresh=True).close()
    assert Path("/dev/null").stat().st_mode == before


NASTY = "cannot write [/x] \x1b \ud800 \udc80"


def test_any_text_can_be_written(tmp_path):
    """A lone surrogate is no character that a file can hold; it is replaced, and the rest of the line is kept."""
    job = a_job("a", user=NASTY, seconds=5.0, directory=f"/{NASTY}")
    sim = SimCluster(some_nodes(1), [job], World())
    writer = LogWriter(tmp_path / "log", Head("sim", "fifo", "declared"), fresh=True, durable=True)

    def observe(decided: Decided) -> None:
        noted = replace(decided.snapshot, notes=((job.id, NASTY),))
        writer.cycle(noted, decided.plan, decided.refusals)

    run(sim, POLICIES["fifo"](), DeclaredBook(), observe)
    writer.end(sim.now, sim.board.unfinished)
    lines = list(read(tmp_path / "log"))
    told = NASTY.replace("\ud800", "?").replace("\udc80", "?")
    assert next(line for line in lines if isinstance(line, JobLine)).job["user"] == told
    assert [("a", told)] in [line.notes for line in lines if isinstance(line, CycleLine)]
    cluster = ReplayCluster(tmp_path / "log")
    run(cluster, POLICIES["fifo"](), NoEstimates())
    assert cluster.complete
    assert not cluster.differences


def test_the_cpu_that_a_job_uses_is_logged_after_its_row_has_another_number(tmp_path):
    """Row 0 used 1.0 cores. After a compaction row 0 is another job, which uses 1.0 cores from then on."""
    board, place = Board(some_nodes(1, gpus=400)), Placement(((0,),))
    for number in range(100):
        row = board.add(a_job(f"j{number}"), 0.0)
        board.begin(row, State.STARTING, place, 0.0, 1.0)
        board.settle(row, State.RUNNING, place, 0.0)
    board.uses(0, 1.0)
    writer = LogWriter(tmp_path / "run.log", Head("sim", "p", "none", {}, 0, 0.0, ""))
    writer.cycle(board.snapshot(1.0), Plan(()))
    for row in range(99):
        board.settle(row, State.FINISHED, None, 2.0)
    writer.cycle(board.snapshot(2.0), Plan(()))
    board.compact()
    assert board.row(JobId("j99")) == 0
    board.uses(0, 1.0)
    writer.cycle(board.snapshot(3.0), Plan(()))
    writer.close()
    lines = [line for line in read(tmp_path / "run.log") if isinstance(line, CycleLine)]
    assert [line.used_cpu for line in lines] == [[(0, 1.0)], [], [(99, 1.0)]]
