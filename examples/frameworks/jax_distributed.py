"""Trains a linear model on several processes with jax.distributed, no import of Headway.

Each process has its part of the batch; gradients are summed over all. Process 0 saves; all go on from there, also with
another number of processes. SIGTERM asks all to save at the same step and to end.
"""

import argparse
import sys
import time
from pathlib import Path

import jax
import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--checkpoint", type=Path, required=True, help="a folder")
parser.add_argument("--save-every", type=int, default=10, help="steps")
parser.add_argument("--pause", type=float, default=0.0, help="seconds per step, for demonstrations")
options = parser.parse_args()

jax.distributed.initialize()  # reads the cluster from its environment

from jax.experimental import multihost_utils  # noqa: E402  after initialize
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

SIZE, BATCH = 32, 16
mesh = Mesh(np.array(jax.devices()), ("data",))
split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
truth = np.random.default_rng(7).normal(size=SIZE)


@jax.jit
def train(weights, inputs):
    def loss(weights):
        return ((inputs @ weights - inputs @ truth) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.05 * gradient, value


file = options.checkpoint / "model.npz"
saved = np.load(file) if file.exists() else {"step": 0, "weights": np.zeros(SIZE)}
start, weights = int(saved["step"]), jax.device_put(np.asarray(saved["weights"]), whole)
me, count = jax.process_index(), jax.process_count()
print(f"process {me} of {count}: from step {start}", flush=True)


def save(step):
    if me == 0:
        options.checkpoint.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, step=step, weights=np.asarray(weights.addressable_data(0)))
        part.replace(file)


for step in range(start + 1, options.steps + 1):
    mine = np.random.default_rng(step * 1000 + me).normal(size=(BATCH, SIZE))
    inputs = multihost_utils.host_local_array_to_global_array(mine, mesh, PartitionSpec("data"))
    weights, value = train(weights, inputs)
    if step % options.save_every == 0 or step == options.steps:
        save(step)
    if multihost_utils.reached_preemption_sync_point(step):
        save(step)
        print(f"process {me}: saved at step {step}, and ends", flush=True)
        sys.exit(128 + 15)  # as if the signal had ended it: it is not done
    time.sleep(options.pause)
if start < options.steps:
    print(f"process {me}: done at step {options.steps}, loss {float(value):.4f}", flush=True)
