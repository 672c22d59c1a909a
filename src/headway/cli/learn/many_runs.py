"""For commands that make many runs of windows or tasks and keep the finished ones: `headway tune`, `learn train`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.cli.screen.live import Bars
from headway.cli.screen.say import say
from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.compare.scenario import Scenario
    from headway.learn.tuning.runs import RunFigures, Runs


class ManyRuns(NamedTuple):
    """`executor` and `processes`: where runs are made. `kept`: the file of finished ones. `total`: for the bar."""

    name: str
    executor: str
    processes: int
    kept: Path
    total: int
    quiet: bool

    @contextmanager
    def made_by(self, run: Callable[[Scenario, Any], RunFigures]) -> Iterator[Runs]:
        """Shows a bar. Says that a second start goes on, if it is ended by Ctrl-C."""
        from headway.compare.executors import make_executor, running
        from headway.learn.tuning.runs import Runs

        pool = make_executor(self.executor, self.processes or len(os.sched_getaffinity(0)))
        try:
            with running(pool), Bars([self.name], quiet=self.quiet) as bars:
                yield Runs(pool, self.kept, run, tell=lambda made: bars.set(0, min(1.0, made / self.total)))
        except KeyboardInterrupt:
            say(f"ended; finished runs are kept in {self.kept}: the same command goes on", error=True)
            raise


def check_budget(budget: int, least: int) -> None:
    """A budget below one generation would try nothing at all."""
    if budget < least:
        raise UserError(f"--budget {budget}: nothing would be tried; here one generation takes {least} runs in all")
