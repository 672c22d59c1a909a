"""When a job may be asked again for what it has just refused: it could not save, a new replica did not come up.

Asking costs, and a policy, which sees the job run on, would ask again at once: each refusal in a row doubles a pause.
"""

from __future__ import annotations

from headway.core.plan import Because, Deed, Stop

LONGEST_PAUSE_SECONDS = 30.0


def ask_again_at(decision: Deed, refused: int, last: float, now: float) -> float:
    """When this may be begun: now, unless the job refused, so often in a row and `last` at that time."""
    cancelled = isinstance(decision, Stop) and decision.because is Because.CANCELLED
    if not refused or cancelled or now < last:  # the last: the clock was set back
        return now
    return max(now, last + min(2.0 ** (refused - 1), LONGEST_PAUSE_SECONDS))
