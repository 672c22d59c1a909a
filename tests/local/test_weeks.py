"""A queue to which jobs are added for weeks: what a run keeps in memory depends on what is wanted, not on what was."""

from __future__ import annotations

import gc
import types
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest_local import Run

from headway.cli.screen.live import Live
from headway.core.job import Job, JobId, Role
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.progress import ProgressBook
from headway.local.editing import Wish, Wishes
from headway.local.replica import LocalReplica
from headway.policies.baselines.fifo import first_fit
from headway.record.lines import Head
from headway.record.log import LogWriter

TOGETHER, WANTED = 40, 80
"""Jobs that come at once; jobs that the user keeps in the file."""


class Ended:
    """A process that has ended well."""

    pid, returncode = 1 << 30, 0

    def poll(self) -> int:
        return 0


@pytest.fixture
def ends_at_once(monkeypatch):
    def launch(_job, spec, now):
        replica = LocalReplica(spec.role, spec.index, spec.node, spec.limits, spec.group, Ended(), 0, now, spec.grant)
        replica.up = True
        return replica

    monkeypatch.setattr("headway.local.gang.launch", launch)


def a_tiny_job(number: int, folder: Path) -> Job:
    """With a user, a queue and a shape of its own, as a script that writes jobs files makes them."""
    role = Role(name="worker", request=(("cpu", 1), ("memory", 1 + number % 1900)), command=("train", str(number)))
    return Job(id=JobId(f"j{number}"), roles=(role,), directory=str(folder), user=f"u{number}", queue=f"q{number}")


def reached(*roots: object) -> int:
    """How many objects are kept alive by these, without code."""
    code = (types.FunctionType, types.ModuleType, type, types.CodeType, types.FrameType, types.GeneratorType)
    seen, todo = set(), deque(roots)
    while todo:
        one = todo.popleft()
        if id(one) not in seen and not isinstance(one, code):
            seen.add(id(one))
            todo.extend(gc.get_referents(one))
    return len(seen)


class Weeks(Run):
    """Each time that all jobs are over, `TOGETHER` more are wanted; the user keeps the newest in the file."""

    def __init__(self, folder: Path, count: int, *, more: Callable[[Weeks], Wish | None] = lambda _: None) -> None:
        self.number, self.count, self.kept = 0, count, deque[Job](maxlen=WANTED)
        self.at, self.more = folder, more
        self.sizes: list[int] = []
        self.aside: list[str] = []
        super().__init__(folder, [], wishes=Wishes((), self._newer, self.aside.append), cgroups=False)
        self.live = Live()
        self.writer = LogWriter(folder / "run.log", Head("local", "fifo", "progress", {}, 0, 0.0, "x"))

    def _newer(self, _at_once: bool) -> Wish | None:
        if self.cluster.board.unfinished or self.cluster.roster.arrivals:
            return None
        if self.number >= self.count:
            return self.more(self)
        for _ in range(TOGETHER):
            self.number += 1
            self.kept.append(a_tiny_job(self.number, self.at))
        return Wish(tuple(self.kept))

    def through(self) -> Weeks:
        def watch(decided) -> None:
            self.writer.cycle(decided.snapshot, decided.plan)
            self.live.show(decided)
            if self.number >= TOGETHER * (len(self.sizes) + 1):
                self.sizes.append(reached(self.cluster, self.live, self.writer))

        try:
            run(self.cluster, first_fit, ProgressBook(), observe=watch)
        finally:
            self.cluster.close()
            self.writer.close()
        return self


@pytest.mark.usefixtures("ends_at_once")
def test_thousands_of_jobs_leave_nothing_behind(tmp_path, monkeypatch, capsys):
    for bound in ("cli.screen.live.MOST_OVER", "local.editing.MOST_GONE", "record.log.MOST_STALE"):
        monkeypatch.setattr(f"headway.{bound}", 60)
    weeks = Weeks(tmp_path, 1400).through()
    early, late = max(weeks.sizes[3:12]), max(weeks.sizes[-12:])
    assert late < early + 900, "not one object more for each of 1,000 jobs"
    assert weeks.cluster.board.table.generation > 7
    assert max(len(weeks.live._states), len(weeks.cluster.roster.attempts), len(weeks.cluster._editing._ended)) <= 160
    assert (weeks.live._earlier + Counter(weeks.live._states.values()))[State.FINISHED] == 1400
    assert "j1400 is finished" in capsys.readouterr().err


@pytest.mark.usefixtures("ends_at_once")
def test_a_job_that_has_left_the_board_is_known_for_as_long_as_it_is_wanted(tmp_path):
    """One of its name that is the same does not run again; one that runs something else starts afresh."""

    def more(weeks: Weeks) -> Wish | None:
        first, second, *others = weeks.kept
        if first.priority:
            return None
        assert weeks.cluster.board.row(first.id) is weeks.cluster.board.row(second.id) is None
        other = replace(second, roles=(replace(second.roles[0], command=("other",)),))
        weeks.kept = deque([replace(first, priority=5), other, *others])
        return Wish(tuple(weeks.kept), {first.id})

    weeks = Weeks(tmp_path, 200, more=more).through()
    first, second = weeks.kept[0].id, weeks.kept[1].id
    assert weeks.aside == [second]
    assert weeks.cluster.board.row(first) is None, "it was finished, and is kept"
    row = weeks.cluster.board.row(second)
    assert weeks.cluster.board.job(row).roles[0].command == ("other",)
    assert weeks.cluster.board.state(row) is State.FINISHED
