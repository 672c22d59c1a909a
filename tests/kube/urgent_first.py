"""A policy for tests: jobs of the queue `urgent` come before all others. Pure."""

import numpy as np

from headway.core.draft import Draft
from headway.policies.steps.start import start_in_order


def urgent_first(snapshot):
    draft, waiting = Draft(snapshot), snapshot.jobs.waiting()
    others = [snapshot.jobs.job(row).queue != "urgent" for row in waiting.tolist()]
    start_in_order(draft, waiting[np.argsort(others, kind="stable")])
    return draft.plan()
