"""Environments for agents that learn to schedule. Importing this registers them with Gymnasium:

    import gymnasium, headway.learn
    env = gymnasium.make("headway/Order-v0")

`headway/Order-v0`: which job next. `headway/Size-v0`: how large. `headway/Knobs-v0`: the default policy's settings.
"""

from __future__ import annotations

import gymnasium

ENVIRONMENTS = {
    "headway/Order-v0": "headway.learn.order.env:make_order",
    "headway/Size-v0": "headway.learn.size.env:make_size",
    "headway/Knobs-v0": "headway.learn.knobs.env:KnobsEnv",
}
"""Id to what makes it."""
SEVERAL = {
    "headway/Order-v0": "headway.learn.vector:order_envs",
    "headway/Size-v0": "headway.learn.vector:size_envs",
    "headway/Knobs-v0": "headway.learn.vector:knobs_envs",
}
"""Id to what makes several at once, for `gymnasium.make_vec`."""

for _id, _entry in ENVIRONMENTS.items():
    if _id not in gymnasium.registry:
        # They say themselves that they must be reset first.
        gymnasium.register(_id, _entry, order_enforce=False, vector_entry_point=SEVERAL[_id])
