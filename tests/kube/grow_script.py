"""A policy for tests of stock scripts: starts all jobs, and grows each to its max once a file says so."""

import os
from pathlib import Path

from headway.core.draft import Draft
from headway.core.plan import Plan, Scale, Start
from headway.policies.steps.start import start_in_order


def grown(snapshot):
    jobs, draft = snapshot.jobs, Draft(snapshot)
    start_in_order(draft, jobs.waiting())
    decisions = [decision for decision in draft.plan().decisions if isinstance(decision, Start)]
    told = Path(os.environ["HEADWAY_TEST_GROW"])
    for row in jobs.running():
        job, nodes = jobs.job(int(row)), snapshot.placements[int(row)].nodes
        role, here = job.roles[-1], nodes[-1]
        if len(here) < role.max and (told / job.id.rpartition("/")[2]).exists():
            elsewhere = (here[0] + 1) % len(snapshot.nodes)
            decisions.append(Scale(job.id, role.name, (*here, elsewhere)))
    return Plan(tuple(decisions), snapshot.now + 0.5)
