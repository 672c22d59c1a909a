"""Which replica each pod of ours is, by the pod's uid.

The cluster's thread writes it. The progress server's thread reads single entries. Nothing is persisted: a new process
fills it from the list of pods.
"""

from __future__ import annotations

from headway.progress_server import Sender

PodRoster = dict[str, Sender]
