"""The experiments by name. A plain dict: nothing registers itself."""

from __future__ import annotations

from collections.abc import Mapping

from headway.experiment.case import Experiment
from headway.experiment.combined import COMBINED_PRIORITY
from headway.experiment.deadline import AMPLE, SCARCE
from headway.experiment.elastic import ELASTIC
from headway.experiment.elastic_published import ELASTIC_PUBLISHED
from headway.experiment.everything import EVERYTHING
from headway.experiment.idle_cpu import IDLE_CPU
from headway.experiment.migration import MIGRATION
from headway.experiment.published import PEER
from headway.experiment.unlike import UNLIKE

EXPERIMENTS: Mapping[str, Experiment] = {
    one.name: one
    for one in (
        COMBINED_PRIORITY,
        SCARCE,
        AMPLE,
        IDLE_CPU,
        PEER,
        ELASTIC,
        ELASTIC_PUBLISHED,
        MIGRATION,
        UNLIKE,
        EVERYTHING,
    )
}
