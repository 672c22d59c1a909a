"""The other end of `headway.progress`: receives what training scripts report and asks them to save."""

from headway.progress_server.address import ListenError, raise_descriptor_limit
from headway.progress_server.connections import ServerLimits
from headway.progress_server.identity import Answer, Identify, KnownReplica, as_claimed
from headway.progress_server.messages import (
    Connected,
    Disconnected,
    Done,
    Event,
    Greeting,
    Reported,
    Saved,
    SaveFailed,
    Sender,
)
from headway.progress_server.rates import RateLimit
from headway.progress_server.server import ProgressServer

__all__ = [
    "Answer",
    "Connected",
    "Disconnected",
    "Done",
    "Event",
    "Greeting",
    "Identify",
    "KnownReplica",
    "ListenError",
    "ProgressServer",
    "RateLimit",
    "Reported",
    "SaveFailed",
    "Saved",
    "Sender",
    "ServerLimits",
    "as_claimed",
    "raise_descriptor_limit",
]
