"""What a job asks for, as a setting: its size in the best place."""

from __future__ import annotations

from headway.core.job import Job, computes
from headway.core.node import Nodes
from headway.core.scaling import workers_per_node
from headway.estimates.job.track import Track
from headway.estimates.speed.accelerators import type_wanted
from headway.estimates.speed.model import Setting, gang_setting


def requested_setting(job: Job, nodes: Nodes) -> Setting:
    """The requested size in the best place."""
    on = type_wanted(job, nodes)
    if len(job.roles) == 1 and job.roles[0].replicas and computes(job.roles[0].name):
        role = job.roles[0]
        known: Setting | None = nodes.memo.get((requested_setting, role.replicas, role.request, on))
        if known is None:
            setting = gang_setting(role.replicas, workers_per_node(job, nodes)).on_type(on)
            known = nodes.keep((requested_setting, role.replicas, role.request, on), setting)
        return known
    sized = Setting.sized(job, tuple(role.replicas for role in job.roles), workers_per_node(job, nodes))
    return sized.on_type(on)


def requested_by(job: Job, track: Track | None, nodes: Nodes) -> Setting:
    """The same, on the type of accelerators from which the job reports, where it does."""
    asked = requested_setting(job, nodes)
    return asked if track is None or not track.setting.on else asked.on_type(track.setting.on)
