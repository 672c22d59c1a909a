"""kill -9 at random moments, again and again: no checkpoint may be lost, and the last start must finish every job.

    python bench/kills.py [--rounds 10] [--kills 6] [--seed 1]

Each round is a new queue. Headway is killed at a random moment (or a shim, or it gets one or two Ctrl-C) and started
again. Meanwhile jobs are edited and added. What a job has saved must never go back, every start must go on, and the log
of the whole queue must be decided again alike.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNT = """
import sys, time
from headway import progress

total, file = int(sys.argv[1]), progress.checkpoint_dir() / "count"
first = int(file.read_text()) if file.exists() else 0

def save(step):
    part = file.with_suffix(".part")
    part.write_text(str(step))
    part.replace(file)

with progress.track(total_steps=total, save=save) as p:
    for step in range(first + 1, total + 1):
        time.sleep(0.02)
        if step % 5 == 0:
            save(step)
        p.report(step, loss=1.0 / step)
save(total)
"""
POLICIES = ("headway", "first-fit", "srtf", "elastic")


class Queue:
    """One jobs file, what it should come to, and what its jobs have saved so far."""

    def __init__(self, folder: Path, random_: random.Random) -> None:
        self.folder, self.random = folder, random_
        self.state = folder / ".headway/jobs"
        self.jobs = {f"j{n}": (random_.randint(20, 120), random_.randint(0, 3)) for n in range(random_.randint(2, 5))}
        self.added: set[str] = set()
        self.policy = random_.choice(POLICIES)
        self.saved: dict[str, int] = {}
        (folder / "count.py").write_text(COUNT)
        self.write()

    def write(self) -> None:
        lines = [self._line(name) for name in self.jobs if name not in self.added]
        text = "nodes: [{name: left, cpu: 500m}, {name: right, cpu: 500m}]\njobs:\n" + "".join(lines)
        part = self.folder / "part"
        part.write_text(text)
        part.replace(self.folder / "jobs.yaml")

    def _line(self, name: str) -> str:
        steps, priority = self.jobs[name]
        command = f"[python, count.py, {steps}]"
        return f"  - {{name: {name}, cpu: 250m, priority: {priority}, steps: {steps}, command: {command}}}\n"

    def edit(self) -> None:
        """A new priority, or another job: in the file or by `headway add`."""
        what = self.random.choice(("priority", "file", "add"))
        name = self.random.choice(list(self.jobs))
        if what == "priority":
            self.jobs[name] = (self.jobs[name][0], self.random.randint(0, 9))
            if name in self.added:
                self._add(name)
            self.write()
            return
        name = f"j{len(self.jobs)}"
        self.jobs[name] = (self.random.randint(5, 40), 0)
        if what == "add":
            self.added.add(name)
            self._add(name)
        self.write()

    def _add(self, name: str) -> None:
        (self.folder / "more.yaml").write_text("jobs:\n" + self._line(name))
        self.headway("add", "more.yaml", "--to", "jobs.yaml")

    def headway(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "headway", *words], cwd=self.folder, capture_output=True, text=True, timeout=300,
            check=False, env=self.env,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"headway {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "XDG_RUNTIME_DIR": str(self.folder)}

    def start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "headway", "run", "jobs.yaml", "--json", "--policy", self.policy]
        with (self.folder / "stderr").open("ab") as said:
            return subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=said, env=self.env)

    def look(self) -> None:
        """What was saved never goes back."""
        for name in self.jobs:
            with contextlib.suppress(OSError, ValueError):
                count = int((self.state / "checkpoints" / name / "count").read_text())
                if count < self.saved.get(name, 0):
                    raise AssertionError(f"{name} had saved {self.saved[name]}, now {count}")
                self.saved[name] = count
        lost = [name for name in self.saved if not (self.state / "checkpoints" / name / "count").exists()]
        if lost:
            raise AssertionError(f"the checkpoints of {lost} are gone")

    def disturb(self) -> str:
        run = self.start()
        time.sleep(self.random.uniform(0.2, 5.0))
        if self.random.random() < 0.5:
            self.edit()
        time.sleep(self.random.uniform(0.0, 1.5))
        how = self.random.choice(("kill", "kill", "shim", "once", "twice"))
        if how == "shim":
            for pid in _children(run.pid)[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(self.random.uniform(0.0, 1.0))
        for number in {"once": [signal.SIGINT], "twice": [signal.SIGINT, signal.SIGINT]}.get(how, [signal.SIGKILL]):
            run.send_signal(number)
            time.sleep(self.random.uniform(0.0, 0.2))
        code = run.wait(timeout=120)
        if how in ("once", "twice") and code not in (0, 1, 130, -signal.SIGINT):
            raise AssertionError(f"after {how} Ctrl-C the exit code is {code}")
        self.look()
        return how


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def finish(queue: Queue) -> None:
    """Runs the queue to its end, undisturbed, and looks at what came of it."""
    result = json.loads(queue.headway("run", "jobs.yaml", "--json", "--policy", queue.policy))
    queue.look()
    short = {name: queue.saved[name] for name, (steps, _) in queue.jobs.items() if queue.saved[name] != steps}
    replayed = json.loads(queue.headway("replay", ".headway/jobs/run.log", "--json"))
    if result["finished"] != len(queue.jobs) or result["failed"]:
        raise AssertionError(f"{result['finished']} of {len(queue.jobs)} jobs finished")
    if short:
        raise AssertionError(f"not trained to the end: {short}")
    if replayed["differences"]:
        raise AssertionError(f"{len(replayed['differences'])} plans differ in a replay")


def one_round(number: int, seed: int, kills: int) -> str:
    with tempfile.TemporaryDirectory(prefix="headway-kills-") as place:
        queue = Queue(Path(place), random.Random(seed))
        try:
            how = [queue.disturb() for _ in range(kills)]
            finish(queue)
        except AssertionError as error:
            said = (queue.folder / "stderr").read_text()[-3000:]
            return f"round {number} (seed {seed}, {queue.policy}): FAILED: {error}\n{said}"
        return f"round {number}: {len(queue.jobs)} jobs under {queue.policy}, {', '.join(how)}: all finished"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    failed = 0
    for number in range(given.rounds):
        told = one_round(number, given.seed + number, given.kills)
        failed += "FAILED" in told
        print(told, flush=True)
    print(f"{given.rounds - failed} of {given.rounds} rounds without a loss")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
