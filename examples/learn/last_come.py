"""An agent of headway/Order-v0 in a few lines: of the jobs that may start now, the one that came last.

    headway simulate examples/learned.yaml --policy examples/learn/last_come.py:agent --env headway/Order-v0

It is no good policy. It shows what an agent is: a function from an observation to the number of a slot, or of the
action that waits, which is the last one. `ppo.py` beside it trains one.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def agent(seen: dict[str, Any]) -> int:
    legal = np.flatnonzero(seen["action_mask"])
    starts = legal[legal < len(seen["action_mask"]) - 1]
    return int(starts[-1] if len(starts) else legal[-1])
