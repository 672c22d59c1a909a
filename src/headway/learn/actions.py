"""Which actions are legal now: the space that knows it, and the error for the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from headway.core.errors import UserError

MaskArray = npt.NDArray[np.int8]


class IllegalAction(ValueError):  # noqa: N818  it names a fact, like ValueError's other children here
    """The action's mask is 0, or it is no action at all."""


class LegalActions(Discrete[np.int64]):
    """A fixed number of actions, the last of which waits. Without a mask, `sample` draws among those legal now.

    `illegal` says what an illegal action does: `raise`, or `wait` for agents that know no masks.
    """

    def __init__(self, count: int, illegal: str = "raise") -> None:
        super().__init__(count)
        if illegal not in ("raise", "wait"):
            raise UserError(f"illegal {illegal}: choose raise or wait")
        self._waits = illegal == "wait"
        self.legal: MaskArray = np.ones(count, np.int8)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        choices = self.legal.nonzero()[0]
        drawn: np.int64 = choices[int(self.np_random.random() * len(choices))] if len(choices) else np.int64(0)
        return drawn

    def checked(self, action: Any) -> int:
        """The action as a plain number. Raises IllegalAction, or waits; where that is illegal, the first legal one."""
        is_number = isinstance(action, int | np.integer) or (isinstance(action, np.ndarray) and self.contains(action))
        if not is_number or not 0 <= action < len(self.legal):
            raise IllegalAction(f"action {action!r}: there are the actions 0 to {len(self.legal) - 1}")
        number = int(action)
        if not self.legal.item(number):
            if self._waits:
                return len(self.legal) - 1 if self.legal[-1] else int(self.legal.argmax())
            raise IllegalAction(f"action {number}: it is not legal now; see info['action_mask']")
        return number
