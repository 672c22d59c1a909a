"""The other end of `headway.progress`: hears training scripts, and asks them to save. Used by the live clusters."""

from headway.progress_server.events import Connected, Done, Event, Gone, Reported, Saved, SaveFailed
from headway.progress_server.server import ListenError, ProgressServer

__all__ = [
    "Connected",
    "Done",
    "Event",
    "Gone",
    "ListenError",
    "ProgressServer",
    "Reported",
    "SaveFailed",
    "Saved",
]
