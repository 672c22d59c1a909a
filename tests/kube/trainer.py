"""A training that is nothing but progress: counts steps, saves on request, goes on from its checkpoint.

Runs in pods of the lab. Leaves one line per start in its checkpoint folder, so that a test can see from which step
each attempt went on.
"""

import argparse
import sys
import time

from headway import progress

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--pace", type=float, default=0.05, help="seconds per step")
parser.add_argument("--save-every", type=int, default=0, help="steps")
parser.add_argument("--fail-at", type=int, default=-1)
parser.add_argument("--deaf", action="store_true", help="answers a request to save too late")
parser.add_argument("--full", action="store_true", help="cannot save, and says so at once")
options = parser.parse_args()

me = progress.identity()
folder = progress.checkpoint_dir()
folder.mkdir(parents=True, exist_ok=True)
checkpoint = folder / f"{me.role}-{me.index}.step"
first = int(checkpoint.read_text()) if checkpoint.exists() else 0


def note(words):
    with (folder / "story").open("a") as story:
        story.write(f"{me.role} {me.index} {me.attempt} {words}\n")


def save(step):
    if options.full:
        raise OSError("disk full")
    if options.deaf:
        time.sleep(5)
    part = checkpoint.with_suffix(".part")
    part.write_text(str(step))
    part.replace(checkpoint)
    note(f"saved {step}")


note(f"from {first} hosts {sum(map(len, progress.hosts().values()))} of {sum(progress.replicas().values())}")
with progress.track(total_steps=options.steps, save=None if me.role == "helper" else save) as p:
    p.on_resize(lambda size: note(f"size {sum(size.replicas.values())} cpu {size.cpu}"))
    step = first
    while step < options.steps:
        time.sleep(options.pace)
        step += 1
        if step == options.fail_at:
            sys.exit(3)
        p.report(step, loss=1.0 / step)
        if options.save_every and step % options.save_every == 0:
            save(step)
    if me.role != "helper" and not (options.deaf or options.full):
        save(step)
note(f"done {step}")
