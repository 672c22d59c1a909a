"""The states of a job and the legal changes between them: one table, with the reason for each change.

             ┌────────────── refused, interrupted, suspended ──────────────┐
             ▼                                                             │
  ──add──► WAITING ──start──► STARTING ──up──► RUNNING ◄──done──► SCALING, RESIZING, MOVING
                                                  │  └───stop──► STOPPING ──► WAITING or CANCELLED
                                                  └──► FINISHED, FAILED

A job is *in flight* in STARTING, SCALING, RESIZING, MOVING and STOPPING: a change was begun, and a later snapshot shows
its end. Policies do not touch such jobs.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class State(enum.IntEnum):
    WAITING = 0
    STARTING = 1
    RUNNING = 2
    SCALING = 3
    RESIZING = 4
    MOVING = 5
    STOPPING = 6
    FINISHED = 7
    FAILED = 8
    CANCELLED = 9


STATES = tuple(State)
"""By number: indexing a tuple is faster than calling the enumeration."""
IN_FLIGHT = frozenset({State.STARTING, State.SCALING, State.RESIZING, State.MOVING, State.STOPPING})
TRAINING = frozenset({State.RUNNING, State.SCALING, State.RESIZING})
"""States in which the job trains. A moving or stopping job saves and is down."""
OVER = frozenset({State.FINISHED, State.FAILED, State.CANCELLED})

TRANSITIONS: Mapping[tuple[State, State], str] = {
    (State.WAITING, State.STARTING): "a plan started it",
    (State.WAITING, State.CANCELLED): "its user withdrew it",
    (State.WAITING, State.FAILED): "it can never run here",
    (State.STARTING, State.RUNNING): "every replica of the gang is up",
    (State.STARTING, State.WAITING): "a replica was refused or a node went away: the gang is released whole",
    (State.STARTING, State.FAILED): "its program ended with an error",
    (State.STARTING, State.FINISHED): "its program was done before the last replica was seen up",
    (State.STARTING, State.STOPPING): "it was withdrawn while it started",
    (State.RUNNING, State.SCALING): "a plan added or removed replicas",
    (State.RUNNING, State.RESIZING): "a plan changed cpu or memory in place",
    (State.RUNNING, State.MOVING): "a plan moved it",
    (State.RUNNING, State.STOPPING): "a plan stopped it, or its user withdrew it",
    (State.RUNNING, State.WAITING): "a node or replica was lost: it starts again from its checkpoint",
    (State.RUNNING, State.FINISHED): "its program ended well",
    (State.RUNNING, State.FAILED): "its program ended with an error",
    (State.SCALING, State.RUNNING): "the new size is up, or the change was given up",
    (State.SCALING, State.WAITING): "a node or replica was lost",
    (State.SCALING, State.FINISHED): "it was done meanwhile",
    (State.SCALING, State.FAILED): "its program ended with an error",
    (State.SCALING, State.STOPPING): "it was withdrawn meanwhile",
    (State.RESIZING, State.RUNNING): "the new amounts hold, or were refused",
    (State.RESIZING, State.WAITING): "a node or replica was lost",
    (State.RESIZING, State.FINISHED): "it was done meanwhile",
    (State.RESIZING, State.FAILED): "its program ended with an error",
    (State.RESIZING, State.STOPPING): "it was withdrawn meanwhile",
    (State.MOVING, State.RUNNING): "it is up elsewhere, or it did not save and stays",
    (State.MOVING, State.WAITING): "it was saved and stopped, but could not start elsewhere",
    (State.MOVING, State.FINISHED): "it was done before it stopped",
    (State.MOVING, State.FAILED): "its program ended with an error",
    (State.MOVING, State.STOPPING): "it was withdrawn meanwhile",
    (State.STOPPING, State.WAITING): "it is suspended and may start again",
    (State.STOPPING, State.RUNNING): "it did not save in time and goes on",
    (State.STOPPING, State.CANCELLED): "its user withdrew it",
    (State.STOPPING, State.FINISHED): "it was done before it stopped",
    (State.STOPPING, State.FAILED): "its program ended with an error",
}
