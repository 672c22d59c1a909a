"""Whether what a job has shown is borne out by what was seen of it. Otherwise it is told to nobody.

Example: a script hurries to 90 % of its steps in the first minutes and counts the last ones slowly. Each of those seems
to take eleven times as long as it does, and so would each step of jobs like it. But then all its steps together would
have taken eleven times as long as it has trained.
"""

from __future__ import annotations

from headway.estimates.fit.prior import Prior
from headway.estimates.fit.speed import Form, Setting
from headway.estimates.fit.track import Track
from headway.estimates.models.profiles import Layout

OVERSTATED = 1.5
"""How many times the work that its workers had time for."""


def borne_out(track: Track, trained: float) -> bool:
    """Whether its end agrees with its reports. It does not where the job took longer than it had promised, or was done
    far sooner although it was at its last steps by its own count: it has crept there.
    """
    pledge = track.pledge
    if track.doubt.strikes or track.impossible():
        return False
    return pledge is None or (pledge.kept(trained) and not (track.at_last_steps() and pledge.hasty(trained)))


def overstated(track: Track, prior: Prior, service: float) -> bool:
    """Whether its steps, each as slow as it has shown, are more work than its workers had time for. No gang does more
    in a worker's second than one worker alone.

    Gangs only: with parameter servers, how much a worker does depends on them. `service`: worker-seconds. A job that
    began in the middle, with a checkpoint from elsewhere, may count as such, too.
    """
    seen = track.observations()
    if prior.form is not Form.GANG or not seen:
        return False
    cpu, accelerator = (max(getattr(one.setting, name) for one in seen) for name in ("cpu", "accelerator"))
    alone = track.fitted(prior).seconds(Setting(Layout(1, 0, 1, 1.0), cpu, accelerator))
    return track.step * alone > OVERSTATED * service
