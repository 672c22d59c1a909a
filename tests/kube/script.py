"""A policy for tests: each job's name says what is to be done to it, once it has trained for a while. Pure."""

import numpy as np

from headway.core.draft import Draft
from headway.core.placement import Placement
from headway.core.plan import Because, Move, Plan, Resize, Scale, Start, Stop
from headway.policies.steps.start import start_in_order

AFTER_SECONDS = 3.0


def scripted(snapshot):
    jobs = snapshot.jobs
    draft = Draft(snapshot)
    start_in_order(draft, jobs.waiting())
    decisions = [d for d in draft.plan().decisions if isinstance(d, Start)]
    left = snapshot.estimates.left(snapshot.now)
    until = float("inf")
    for row in jobs.running():
        decision = _for(snapshot, int(row))
        due = float(jobs.first_start[row]) + AFTER_SECONDS
        if decision is None or np.isnan(left[row]):
            continue  # nothing to do, or no progress seen yet
        if snapshot.now >= due:
            decisions.append(decision)
        else:
            until = min(until, due)
    return Plan(tuple(decisions), until)


def _for(snapshot, row):  # noqa: PLR0911  one for each name
    jobs, placement = snapshot.jobs, snapshot.placements[row]
    job = jobs.job(row)
    what = job.id.rpartition("/")[2].partition("-")[0]
    here = placement.nodes[0][0]
    other = (here + 1) % len(snapshot.nodes)
    fresh = jobs.stops[row] == 0  # it was never stopped or moved
    helpers = next((placement.nodes[n] for n, role in enumerate(job.roles) if role.name == "helper"), ())
    match what:
        case "move" if fresh:
            return Move(job.id, Placement(tuple(tuple(other for _ in role) for role in placement.nodes)))
        case "stop" if fresh:
            return Stop(job.id, Because.PREEMPTED)
        case "deaf" if jobs.touched[row] < jobs.first_start[row]:
            return Stop(job.id, Because.PREEMPTED)
        case "unwilling":
            return Stop(job.id, Because.PREEMPTED)
        case "grow" if len(helpers) < 2:
            return Scale(job.id, "helper", (*helpers, other))
        case "shrink" if len(helpers) > 1:
            return Scale(job.id, "helper", helpers[:-1])
        case "resize" if placement.requests is None:
            return Resize(job.id, job.roles[0].name, 300, 96)
    return None
