"""`headway simulate`: one policy, one trace, virtual time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from headway.cli.options import (
    AgentEnv,
    BeliefsFile,
    Cluster,
    Estimates,
    Format,
    From,
    Head,
    Json,
    Log,
    PolicyName,
    Queues,
    Report,
    Seed,
    Set,
    TraceFile,
    World,
)
from headway.cli.screen.asides import asides
from headway.cli.screen.live import Bars
from headway.cli.screen.say import say
from headway.cli.screen.show import show_result
from headway.cli.trained_policy import trained_name
from headway.cli.wiring import (
    beliefs_for,
    check_estimates,
    command_line,
    cut,
    env_setting,
    make_policy,
    no_sharing,
    queue_setting,
    warn,
    warn_of_claims,
    writable,
)
from headway.compare.assumptions import contention
from headway.compare.bounds import needs_of
from headway.compare.perform import Task
from headway.compare.perform import simulate as run_simulation
from headway.compare.scenario import Scenario, read_scenario
from headway.compare.table import compared
from headway.compare.trained_coverage import kept_out
from headway.record.metrics import Tally
from headway.record.results import outcome


def simulate(
    file: TraceFile,
    policy: PolicyName = "headway",
    env: AgentEnv = "",
    settings: Set = [],  # noqa: B006  typer copies it
    queues: Queues = None,
    cluster: Cluster = "",
    format_: Format = "",
    from_: From = "",
    head: Head = 0,
    estimates: Estimates = "declared",
    beliefs: BeliefsFile = None,
    seed: Seed = 0,
    world: World = None,
    log: Log = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Run jobs in virtual time under one policy. `headway run` runs the same jobs file for real.

    With --log, an interrupted simulation continues from its log: recorded plans are not made again.
    Under a policy that remembers (Gavel's, sia) it begins anew.
    """
    check_estimates(estimates)
    known = beliefs_for(estimates, beliefs)
    settings = [*settings, *queue_setting(queues), *env_setting(env, policy)]
    make = partial(make_policy, policy, tuple(settings))
    make()  # a mistake in the settings is told before anything is read
    writable(report, "--report", [file, world, beliefs, queues])
    scenario = replace(cut(read_scenario(file, format_, cluster, world, estimates), from_, head), beliefs=known)
    warn_of_claims(settings, scenario.trace.jobs)
    warn(no_sharing(policy, scenario.trace.jobs))
    task = Task(
        policy=policy, make=make, settings=tuple(settings), trained=trained_name(policy, settings), seed=seed,
        picture=report is not None,
        samples=log is not None and len(scenario.trace.jobs) <= 1000,
    )  # fmt: skip
    with asides(), Bars([policy], quiet=json) as bars:
        tally = run_simulation(scenario, task, lambda share: bars.set(0, share), log, lambda sentence: warn([sentence]))
    if report is not None:
        from headway.compare.report import write
        from headway.compare.report_text import subject_of

        done = outcome(tally, scenario.trace.jobs, name=policy, seed=seed)
        found = compared([task], [done], policy, needs_of(scenario, seed), scenario)
        write(report, subject_of(scenario, found, command_line()))
    show_result(tally, as_json=json)
    if not json:
        _note(policy, scenario, tally)


def _note(policy: str, scenario: Scenario, tally: Tally) -> None:
    """What the figures do not show: that jobs hardly compete, and that a trained policy never decided."""
    trained = [tally.trained] if tally.trained else []
    for sentence in filter(None, [contention(scenario, [tally.result()]), kept_out(policy, trained)]):
        say(f"note: {sentence}")
