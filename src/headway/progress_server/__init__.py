"""The other end of `headway.progress`: receives what training scripts report and asks them to save."""

from headway.progress_server.address import ListenError
from headway.progress_server.messages import Connected, Disconnected, Done, Event, Reported, Saved, SaveFailed, Sender
from headway.progress_server.server import ProgressServer

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
    "Sender",
]
