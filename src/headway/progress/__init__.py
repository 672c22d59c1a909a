"""What a training script imports: it reports progress to Headway and receives requests to save and new sizes.

    from headway import progress

    with progress.track(total_steps=400, save=save) as p:
        for step in range(first, 401):
            loss = train()
            p.report(step, loss=loss)

It uses the standard library only and imports nothing else of Headway, so a container image needs only this package.
It does nothing if Headway did not start the script, and none of its errors reaches the training.
"""

from headway.progress._disk import whole_file
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
    "whole_file",
]
