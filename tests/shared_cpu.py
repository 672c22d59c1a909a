"""Jobs that share the cpu of nodes, as a book of progress sees them: for tests of moves and neighbours."""

from __future__ import annotations

import numpy as np

from headway.core.estimates import Basis, Beliefs, Estimates, Growth
from headway.estimates.models.scaling import plain_speed
from make import a_board, a_job, a_role, amounts, running, some_nodes

NOW = 1000.0
SLOW, FAST = Growth.CONVERGING, Growth.PROGRESSING


def shared(name, *, limit=8.0, **more):
    """One replica that is promised a tenth of a core and uses what there is."""
    role = a_role(cpu=0.1, memory=256, limit=amounts(cpu=limit))
    return a_job(name, roles=[role], **more)


def up(name, node, **columns):
    more = {key: columns.pop(key) for key in ("limit", "can", "checkpoints") if key in columns}
    return running(shared(name, **more), [node], **({"since": 0.0, "touched": 0.0} | columns))


def seen(*entries, left, nodes=2, growth=(), basis=(), used=()):
    """Left: seconds at present by name; all are believed and slow unless it is said."""
    table = some_nodes(nodes, gpus=0, cpu=8, memory=65536)
    board = a_board(entries, table, NOW)
    for row, cores in dict(used).items():
        board.uses(row, cores)
    snapshot = board.snapshot(NOW)
    jobs = snapshot.jobs
    names = [jobs.job(row).id for row in range(jobs.count)]
    kinds, bases = dict(growth), dict(basis)
    beliefs = Beliefs(
        np.array([dict(left).get(name, np.nan) for name in names], float), np.full(jobs.count, NOW), jobs.training(),
        np.full(jobs.count, 0.1), np.array([kinds.get(name, SLOW) for name in names], np.uint8),
        np.zeros(jobs.count), np.array([bases.get(name, Basis.STEPS) for name in names], np.uint8),
    )  # fmt: skip
    return snapshot.with_estimates(Estimates(lambda: beliefs, lambda row, counts: plain_speed(jobs.job(row), counts)))
