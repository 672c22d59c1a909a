"""From a step of reconciliation to work for the API server: the status first where it changed, then the actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.core.board import Board
from headway.kube.job.pods import PodDefaults, pod_of, resources
from headway.kube.job.status import status_of
from headway.kube.mirror import history
from headway.kube.reconcile.model import Create, NextStep, PodAction, ResizePod
from headway.kube.tracked import Tracked
from headway.kube.worker import ApiWork, Request


def work_of(record: Tracked, step: NextStep, making: PodDefaults, status: dict[str, Any] | None) -> ApiWork | None:
    """None where there is nothing to send."""
    requests = tuple(
        Request(action, body) for action in step.actions if (body := _body(action, record, making)) is not None
    )
    if status is None and not requests:
        return None
    meta = record.meta
    return ApiWork(meta.uid, meta.namespace, meta.name, status, requests, (record.intent, record.progress))


def _body(action: PodAction, record: Tracked, making: PodDefaults) -> dict[str, Any] | None:
    """What is sent with an action; None for one that does not go to the API server."""
    match action:
        case Create():
            return pod_of(action, record.job, record.meta, record.template, making)
        case ResizePod():
            return resources(action.amounts, making.gpu)
    return {} if hasattr(action, "name") else None


def status_for(record: Tracked, board: Board, began: float) -> dict[str, Any]:
    """All that another process would need to go on, and all that a person wants to see."""
    row = board.row(record.job.id) if record.on_board else None
    kept = {} if row is None else history(board, row, began)
    return status_of(record.intent, kept, record.progress, record.savers)


def named(making: PodDefaults, gpu: str) -> PodDefaults:
    """With the name that a GPU has on these nodes."""
    return replace(making, gpu=gpu)
