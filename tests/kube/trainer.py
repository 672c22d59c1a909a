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
parser.add_argument("--until-attempt", type=int, default=0, help="earlier attempts stay at the last step but one")
parser.add_argument("--until-told", action="store_true", help="stays at the last step but one until it is told a size")
parser.add_argument("--deaf", action="store_true", help="answers a request to save too late")
parser.add_argument("--full", action="store_true", help="cannot save, and says so at once")
parser.add_argument("--parallel", action="store_true", help="n replicas are n times as fast")
parser.add_argument("--loss", choices=["slower", "soon", "steadily"], default="slower", help="how its loss falls")
parser.add_argument("--burn", action="store_true", help="a step is so much work, not so much time")
options = parser.parse_args()

me = progress.identity()
sizes = []
folder = progress.checkpoint_dir()
folder.mkdir(parents=True, exist_ok=True)
checkpoint = folder / f"{me.role}-{me.index}.step"
first = int(checkpoint.read_text()) if checkpoint.exists() else 0


def note(words):
    with (folder / "story").open("a") as story:
        story.write(f"{me.role} {me.index} {me.attempt} {words}\n")


LOSSES = {
    "slower": lambda step: 1.0 / step,
    "soon": lambda step: 1.0 / (1 + step) ** 3,
    "steadily": lambda step: 2.0 - step / options.steps,
}


def seconds():
    """Of one step."""
    replicas = sum((sizes[-1].replicas if sizes else progress.replicas()).values())
    return options.pace / replicas if options.parallel else options.pace


def work():
    if not options.burn:
        time.sleep(seconds())
        return
    until = time.thread_time() + options.pace
    while time.thread_time() < until:
        pass


def told(size):
    sizes.append(size)
    note(f"size {sum(size.replicas.values())} cpu {size.cpu}")


def must_go_on():
    """What is to happen to this job has not happened yet: on a busy machine it would end before."""
    return me.attempt < options.until_attempt or (options.until_told and not sizes)


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
    p.on_resize(told)
    step = first
    while step < options.steps:
        work()
        step += step + 1 < options.steps or not must_go_on()
        if step == options.fail_at:
            sys.exit(3)
        p.report(step, loss=LOSSES[options.loss](step))
        if options.save_every and step % options.save_every == 0:
            save(step)
    if me.role != "helper" and not (options.deaf or options.full):
        save(step)
note(f"done {step}")
