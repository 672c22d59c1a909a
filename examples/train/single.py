"""Trains one model in one process; continues from its last checkpoint.

python examples/train/single.py --model mlp --steps 100
"""

import argparse
import time
from typing import Any

import _one_thread  # noqa: F401  before jax
import jax
import optax
from checkpoint import Checkpoint
from models import MODELS, Model

from headway import progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--batch-wait", type=float, default=0.0, metavar="SECONDS", help="as for a slow disk")
    train(parser.parse_args())


def train(options: argparse.Namespace) -> None:
    model = MODELS[options.model]
    start, advance = compiled(model)
    checkpoint = Checkpoint(progress.checkpoint_dir(), "single", options.model)
    first, state = checkpoint.load(start(model.start_of(options.seed)))
    print(f"{options.model}: from step {first} to {options.steps}", flush=True)

    def save(step: int) -> None:
        checkpoint.save(step, state)

    saved_at = told_at = time.monotonic()
    with progress.track(total_steps=options.steps, save=save) as p:
        p.poll(first)  # so that Headway hears the right step even if none is left to do
        for step in range(first + 1, options.steps + 1):
            time.sleep(options.batch_wait)
            state, loss = advance(state, model.batch_of(options.seed, step))
            p.report(step, loss=loss)
            now = time.monotonic()
            if now - told_at >= 1.0 or step == options.steps:
                print(f"step {step} loss {loss:.4f}", flush=True)
                told_at = now
            if now - saved_at >= options.save_every:
                save(step)
                saved_at = time.monotonic()
        save(options.steps)


def compiled(model: Model) -> tuple[Any, Any]:
    """Two functions: one makes the first state of parameters, one returns state and loss after a batch."""
    optimiser = optax.flatten(optax.adam(model.learning_rate))  # one array: half the compilation

    def advance(state: Any, batch: Any) -> tuple[Any, jax.Array]:
        params, memory = state
        loss, gradients = jax.value_and_grad(model.loss)(params, batch)
        updates, memory = optimiser.update(gradients, memory, params)
        return (optax.apply_updates(params, updates), memory), loss

    return jax.jit(lambda params: (params, optimiser.init(params))), jax.jit(advance, donate_argnums=0)


if __name__ == "__main__":
    main()
