"""Several episodes at once, for trainers that step them together: `gymnasium.make_vec("headway/Order-v0", num_envs=8)`.

They run one after the other in this process. `vectorization_mode="async"` is Gymnasium's own, with a process for each.
An episode that is over begins anew with the next step (`metadata["autoreset_mode"]`); that step's action is ignored.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class MaskedEnvs(SyncVectorEnv):
    """Gymnasium's, with the masks of all episodes."""

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """(episodes, actions): which actions are legal now, as MaskablePPO asks for it."""
        return np.stack(self.call("action_masks"))


def _envs(
    name: str, num_envs: int = 1, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, **given: Any
) -> MaskedEnvs:
    make = partial(gymnasium.make, name, **{"disable_env_checker": True, **given})
    return MaskedEnvs([make] * num_envs, autoreset_mode=autoreset_mode)


order_envs = partial(_envs, "headway/Order-v0")
size_envs = partial(_envs, "headway/Size-v0")
knobs_envs = partial(_envs, "headway/Knobs-v0")
