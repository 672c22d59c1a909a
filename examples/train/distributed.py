"""Trains one model in many processes: parameter servers hold it, workers compute, asynchronously.

The role comes from Headway, or from the command line:

    python examples/train/distributed.py --model mlp --steps 100                       # a chief alone
    python examples/train/distributed.py --model mlp --steps 100 --role ps --port 7000
    python examples/train/distributed.py --model mlp --steps 100 --role worker --servers localhost:7000

A `ps` holds parameters; a `chief` does so and computes as well; a `worker` computes, and may join or leave
at any time. Each ps is one shard; each reports and saves its own part.
"""

import argparse
import contextlib
import os
import socket
import sys
import time
from typing import Any

import _one_thread  # noqa: F401  before jax

from headway import progress

SAVE_EVERY_SECONDS = 5.0
MY_OWN = int.from_bytes(os.urandom(8))  # no two replicas draw the same batches
FIRST_PATIENCE_SECONDS = 15.0  # a server may still be on its way up


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--role", choices=["ps", "chief", "worker"])
    parser.add_argument("--port", type=int, default=progress.port() or 0)
    parser.add_argument("--servers", nargs="*", metavar="HOST:PORT", help="where the ps or the chief listens")
    options = parser.parse_args()
    role = options.role or progress.identity().role or "chief"
    if role == "worker":
        return work(options)
    with listener_on(options.port) as listener:  # before the slow imports, so that workers find an open door
        serve(options, listener, computes=role == "chief")
    return 0


def listener_on(port: int) -> socket.socket:
    """Listens on every interface if workers may be on another machine, otherwise on this machine only."""
    return socket.create_server(("" if progress.port() else "127.0.0.1", port), backlog=128)


def serve(options: argparse.Namespace, listener: socket.socket, *, computes: bool) -> None:
    from checkpoint import Checkpoint
    from shard import Shard

    model = model_named(options.model)
    me, mine = which_shard(role="chief" if computes else "ps")
    own = names_of_shards(model.start_of(options.seed), mine)[me]
    start = {name: array for name, array in model.start_of(options.seed).items() if name in own}
    checkpoint = Checkpoint(progress.checkpoint_dir(), f"shard{me}of{mine}", options.model)
    shard = Shard(start, model.learning_rate, options.steps, checkpoint)
    print(f"{options.model}, shard {me} of {mine}: from step {shard.step} to {shard.steps}", flush=True)
    shard.listen(listener)
    compute = gradient_of(model) if computes and mine == 1 else None
    with progress.track(total_steps=options.steps, save=shard.save) as p:
        p.poll(shard.step)
        saved_at = told_at = time.monotonic()
        while not shard.finished:
            step = shard.step
            if compute is None:
                shard.wait_beyond(step, 0.1)
            else:
                shard.push(*compute(shard.params(), model.batch_of(MY_OWN, step)))
            if shard.step > step:
                p.report(shard.step, loss=shard.loss, workers=shard.workers)
            p.poll(shard.step)
            now = time.monotonic()
            if now - told_at >= 1.0:
                tell(shard)
                told_at = now
            if now - saved_at >= SAVE_EVERY_SECONDS:
                shard.save(shard.step)
                saved_at = now
        shard.save(shard.step)
        if shard.loss is not None:  # otherwise it was done before it began
            p.report(shard.step, loss=shard.loss, workers=shard.workers)
    tell(shard)
    shard.wait_until_told()


def tell(shard: Any) -> None:
    print(f"step {shard.step} loss {shard.loss} workers {shard.workers}", flush=True)


def model_named(name: str) -> Any:
    from models import MODELS

    if name not in MODELS:
        sys.exit(f"--model {name}: there are {', '.join(sorted(MODELS))}")
    return MODELS[name]


def which_shard(role: str) -> tuple[int, int]:
    count = max(1, progress.replicas().get(role, 1))
    return min(progress.identity().index, count - 1), count


def names_of_shards(start: dict[str, Any], count: int) -> list[set[str]]:
    """Assigns the largest array first, each to the smallest shard."""
    names: list[set[str]] = [set() for _ in range(count)]
    sizes = [0] * count
    for name in sorted(start, key=lambda name: (-start[name].size, name)):
        least = sizes.index(min(sizes))
        names[least].add(name)
        sizes[least] += start[name].size
    return names


def gradient_of(model: Any) -> Any:
    import jax
    import numpy as np

    compiled = jax.jit(jax.value_and_grad(model.loss))

    def compute(params: Any, batch: Any) -> tuple[dict[str, Any], float]:
        loss, gradients = compiled(params, batch)
        return {name: np.asarray(gradient) for name, gradient in gradients.items()}, float(loss)

    return compute


def work(options: argparse.Namespace) -> int:
    from servers import Servers, ServersGoneError

    model = model_named(options.model)
    known = progress.hosts()
    addresses = options.servers or known.get("chief") or known.get("ps") or []
    if not addresses:
        sys.exit("a worker needs to know a ps or chief: --servers HOST:PORT")
    compute = gradient_of(model)
    step = 0
    with contextlib.closing(Servers(addresses, FIRST_PATIENCE_SECONDS)) as servers:
        try:
            servers.pull()
            while not servers.finished:
                servers.push(*compute(servers.params, model.batch_of(MY_OWN, step)))
                step += 1
        except ServersGoneError as error:
            print(f"gave up after {step} steps: {error}", file=sys.stderr)
            return 1
    print(f"done after {step} steps of mine", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
