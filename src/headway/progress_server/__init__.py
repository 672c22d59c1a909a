"""The other end of `headway.progress`: hears training scripts, and asks them to save. Used by the live clusters."""

from headway.progress_server.events import Connected, Disconnected, Done, Event, Reported, Saved, SaveFailed
from headway.progress_server.server import ListenError, ProgressServer

__all__ = [
    "Connected",
    "Disconnected",
    "Done",
    "Event",
    "ListenError",
    "ProgressServer",
    "Reported",
    "SaveFailed",
    "Saved",
]
