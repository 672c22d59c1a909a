"""The `simulate` section of a file, as users write it. An unknown field is an error."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headway.jobspec import Number

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class OutageFields(msgspec.Struct, forbid_unknown_fields=True):
    """A node that fails at time `at` for `seconds`."""

    node: str
    at: Number
    seconds: Number


class ExitFields(msgspec.Struct, forbid_unknown_fields=True):
    """A replica that ends with an exit code, some time after its gang has come up."""

    job: str
    after: Number
    code: int
    """128 + N for signal N, as in a shell."""
    role: str = "worker"
    index: int = 0
    attempt: int = 0
    """Only in this start of the gang, counted from 1; 0: in every one."""
    out_of_memory: bool = False


class FaultFields(msgspec.Struct, forbid_unknown_fields=True):
    """Faults in virtual time. By default there are none."""

    between: Number = 0
    """Mean time between the repair and the next failure of a node; 0: never."""
    repair: Number = "1h"
    """Mean time of a repair."""
    outages: list[OutageFields] = []
    exits: list[ExitFields] = []
    refused_starts: Share = 0.0
    stragglers: Share = 0.0
    straggler_speed: Share = 0.5


class SpeedFields(msgspec.Struct, forbid_unknown_fields=True):
    """How the speed of a job depends on its placement and its neighbours."""

    profiles: str = ""
    """`built-in`, or a folder of published measurements. Empty: durations do not depend on the placement."""
    accelerators: dict[str, float] = {}
    """Relative speed of each accelerator type."""
    node_loss: Share = 0.0
    domain_loss: Share = 0.0
    neighbour_loss: Share = 0.0
    share_cpu: bool = True


class SimulateFields(msgspec.Struct, forbid_unknown_fields=True):
    """The costs of actions in virtual time, and how the simulated world behaves."""

    start: Number = 0
    save: Number = 0
    stop: Number = 0
    scale: Number = 0
    resize: Number = 0
    checkpoint: Number | None = None
    """Jobs save a checkpoint after this much training, whatever their `save_every` says; 0: only on request."""
    report: Number = 0
    """Minimum time between two progress reports of a job."""
    noise: Share = 0.0
    """Standard deviation of a reported loss, as a share of the loss."""
    faults: FaultFields = msgspec.field(default_factory=FaultFields)
    speed: SpeedFields = msgspec.field(default_factory=SpeedFields)
