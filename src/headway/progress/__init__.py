"""What a training script imports: tells Headway how far it is, hears "save now" and "resized".

    from headway import progress

    with progress.track(total_steps=400, save=save) as p:
        for step in range(first, 401):
            loss = train()
            p.report(step, loss=loss)

Standard library only; imports nothing else of Headway: a container image needs no more than this.
Silent when Headway did not start the script, and no fault in here ever reaches the training.
"""

from headway.progress._environment import (
    Identity,
    checkpoint_dir,
    hosts,
    identity,
    port,
    replicas,
)
from headway.progress._tracker import Size, Tracker, track

__all__ = [
    "Identity",
    "Size",
    "Tracker",
    "checkpoint_dir",
    "hosts",
    "identity",
    "port",
    "replicas",
    "track",
]
