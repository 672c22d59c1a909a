"""The other end of `headway.progress`: hears training scripts, and asks them to save. Used by the live clusters."""

from headway.listen.events import Connected, Done, Event, Gone, Reported, Saved, SaveFailed
from headway.listen.server import ListenError, ProgressServer

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
