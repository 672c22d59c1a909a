"""`headway simulate`: one policy, one file of jobs, virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Cluster, Estimates, Json, Log, PolicyName, Seed, Set
from headway.cli.show import show_result
from headway.cli.wiring import make_book, make_policy, parse_cluster
from headway.core.errors import UserError
from headway.core.node import Nodes
from headway.cycle.loop import run
from headway.cycle.resume import resume
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.record.resume import interrupted
from headway.sim.cluster import Costs, SimCluster, World
from headway.workload.jobsfile import load
from headway.workload.schema import seconds


def simulate(
    file: Annotated[Path, typer.Argument(help="A jobs file (YAML).")],
    policy: PolicyName = "adaptive",
    settings: Set = [],  # noqa: B006  typer copies it
    cluster: Cluster = "",
    estimates: Estimates = "declared",
    seed: Seed = 0,
    log: Log = None,
    json: Json = False,
) -> None:
    """Run jobs in virtual time under one policy. The same file runs for real with `headway run`.

    With --log, a simulation that was cut off goes on where it was: plans already in the log are taken from there.
    """
    workload = load(file)
    nodes = parse_cluster(cluster) if cluster else list(workload.nodes)
    if not nodes:
        raise UserError(f"{file}: field nodes: give nodes in the file, or --cluster such as 2x4cpu,16Gi")
    costs = workload.simulate
    world = World(
        costs=Costs(
            start=seconds(costs.start), save=seconds(costs.save), stop=seconds(costs.stop),
            scale=seconds(costs.scale), resize=seconds(costs.resize),
        ),
        samples=estimates == "progress" or len(workload.jobs) <= 1000,
    )  # fmt: skip
    sim = SimCluster(Nodes.of(nodes), workload.jobs, world)
    head = Head("sim", policy, estimates, {"set": list(settings)}, seed, 0.0, file.name)
    before = interrupted(log, head)
    tally = Tally()
    writer = LogWriter(log, head, tally, fresh=not before.lines, written=before.lines)
    chosen = resume(make_policy(policy, settings), before.plans)
    run(sim, chosen, make_book(estimates, sim.truth), lambda d: writer.cycle(d.snapshot, d.plan, d.refusals))
    writer.end(sim.now, sim.board.unfinished)
    show_result(tally, as_json=json)
