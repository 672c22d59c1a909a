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

for _id, _entry in ENVIRONMENTS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(_id, _entry, order_enforce=False)  # they say themselves that they must be reset first
