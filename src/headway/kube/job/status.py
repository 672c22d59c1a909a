"""What people read: a TrainingJob's status with its conditions and progress, and the events about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headway.core.states import OVER, State
from headway.kube.api.objects import API_VERSION, KIND, SCHEDULER, Meta, timestamp
from headway.kube.job.intent import Intent, pack

_BAD = frozenset({"Interrupted", "Refused", "ProgramFailed", "SaveTimedOut", "SaveFailed", "InvalidSpec",
                  "ScaleRefused", "ScaleTimedOut", "ResizeRefused", "ResizeTimedOut"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Progress:
    """How far training is, as it last said."""

    step: int = 0
    total: int | None = None
    loss: float | None = None
    first_step: int = 0
    """Where this attempt began, and when: speed is measured from there."""
    first_at: float = 0.0
    at: float = 0.0

    def eta(self) -> float | None:
        """When it will be done at the speed so far; None before there is any."""
        steps, seconds = self.step - self.first_step, self.at - self.first_at
        if self.total is None or steps <= 0 or seconds <= 0:
            return None
        return self.at + max(0, self.total - self.step) * seconds / steps

    def pack(self) -> dict[str, Any]:
        eta = self.eta()
        return {
            "step": self.step, "total": self.total, "loss": self.loss,
            "eta": None if eta is None else timestamp(eta),
            "text": f"{self.step}/{self.total}" if self.total else str(self.step),
        }  # fmt: skip


def status_of(
    intent: Intent, history: dict[str, float], progress: Progress | None, savers: Iterable[tuple[str, int]] = ()
) -> dict[str, Any]:
    """The whole status, to be sent as a merge patch."""
    return {
        **pack(intent),
        "savers": [list(saver) for saver in sorted(savers)],
        "history": history,
        "progress": None if progress is None else progress.pack(),
        "replicas": sum(len(share.nodes) for share in intent.allocation or ()),
        "conditions": conditions(intent),
    }


def conditions(intent: Intent) -> list[dict[str, Any]]:
    up = intent.state in (State.RUNNING, State.SCALING, State.RESIZING)
    reason = intent.reason or intent.state.name.capitalize()
    return [
        _condition("Running", up, reason, intent),
        _condition("Finished", intent.state in OVER, reason, intent),
    ]


def _condition(kind: str, holds: bool, reason: str, intent: Intent) -> dict[str, Any]:
    return {
        "type": kind, "status": "True" if holds else "False", "reason": reason, "message": intent.message,
        "lastTransitionTime": timestamp(intent.since)[:19] + "Z",
    }  # fmt: skip


def event_of(meta: Meta, old: Intent, new: Intent) -> dict[str, Any]:
    """One event for the whole gang: what became of it and why."""
    if new.state in (State.RUNNING, State.WAITING, *OVER):
        reason = new.reason or new.state.name.capitalize()
    else:
        reason = new.reason if new.draining else new.state.name.capitalize()
    where = new.allocation or new.target or ()
    places = "; ".join(f"{s.role}: {', '.join(s.nodes)}" for s in where if s.nodes)
    words = f"{old.state.name.lower()} to {new.state.name.lower()}"
    message = ". ".join(part for part in (words, new.message, places) if part)
    now = timestamp(new.since)
    return {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"generateName": f"{meta.name[:40]}.", "namespace": meta.namespace},
        "involvedObject": {"apiVersion": API_VERSION, "kind": KIND, "name": meta.name,
                           "namespace": meta.namespace, "uid": meta.uid},
        "reason": reason, "message": message[:1000], "type": "Warning" if reason in _BAD else "Normal",
        "source": {"component": SCHEDULER}, "reportingComponent": SCHEDULER,
        "firstTimestamp": now[:19] + "Z", "lastTimestamp": now[:19] + "Z", "count": 1,
    }  # fmt: skip
