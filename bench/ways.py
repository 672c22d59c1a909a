"""How many files does one job pass? Counts the files of headway in which a function runs, on three ways.

    python bench/ways.py                       # this tree
    python bench/ways.py --source ../other     # another checkout, by the same script
    python bench/ways.py --ways report,trace --files
    python bench/ways.py --json

submit   A jobs file becomes a bound pod: all of `headway submit`, and `headway schedule --policy fifo` from idle to
         the binding. A second figure goes on to the end of the job. Starts a lab (docs/lab.md) and ends it.
report   A report becomes a decision: `headway run --policy srtf` with one job that reports five times a second, from
         the third to the sixth plan. A second figure includes the training process, which reports.
trace    A line of a trace becomes a row of a comparison: all of `headway compare` with two policies, in one process.

A file counts when one of its functions is called, in any thread. Module-level code does not count, nor what it calls
while a module is imported. Generated code, such as the `__init__` of a dataclass, has no file and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

RECORDER = Path(__file__).with_name("ways_recorder.py")
IDLE_SECONDS = 2.0


@dataclass
class Way:
    """The files of one way: one list per figure."""

    name: str
    rows: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Tree:
    """The checkout whose files are counted, and a folder for the output of its commands."""

    source: Path
    folder: Path

    def command(self, mode: str, out: str, *arguments: str) -> list[str]:
        return [sys.executable, str(RECORDER), str(self.folder / out), mode, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.source), "XDG_STATE_HOME": str(self.folder / "state")}

    def run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def headway(self, *arguments: str) -> str:
        return self.run([sys.executable, "-m", "headway", *arguments])

    def files(self, out: str, mark: str) -> list[str]:
        found: list[str] = json.loads((self.folder / out).read_text())["files"][mark]
        return found

    def wait_for(self, out: str, mark: str, process: subprocess.Popen[str], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not ((self.folder / out).exists() and mark in json.loads((self.folder / out).read_text())["files"]):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{out}: no {mark!r} after {seconds:.0f} s: {(self.folder / 'schedule.txt').read_text()}")
            time.sleep(0.02)


# ── a line of a trace becomes a row of a comparison ─────────────────────────────────────────────────────────

TRACE = "name,submit,seconds,gpu,replicas\na,0,60,1,1\nb,5,30,1,2\nc,10,90,1,4\n"


def trace_way(tree: Tree) -> Way:
    (tree.folder / "trace.csv").write_text(TRACE)
    tree.run(tree.command("whole", "trace.json", "compare", "trace.csv", "--policies", "fifo,srtf",
                          "--cluster", "2x4", "--jobs", "1"))  # fmt: skip
    return Way("trace line -> row of a comparison", {"compare": tree.files("trace.json", "all")})


# ── a report becomes a decision ─────────────────────────────────────────────────────────────────────────────

SCRIPT = """
import sys, time
from pathlib import Path
sys.path[:0] = [{bench!r}, {source!r}]
from ways_recorder import Recorder
import headway
recorder = Recorder(Path(headway.__path__[0]), Path({out!r}), on=False)
recorder.install()
from headway import progress
with progress.track(total_steps=60) as p:
    for step in range(1, 61):
        recorder.on = step > 3
        p.report(step, loss=1.0 / step)
        time.sleep(0.2)
    recorder.on = False
"""


def report_way(tree: Tree) -> Way:
    script = tree.folder / "script.py"
    script.write_text(
        SCRIPT.format(bench=str(Path(__file__).parent), source=str(tree.source), out=str(tree.folder / "script.json"))
    )
    job = {"name": "one", "cpu": "100m", "memory": "200Mi", "steps": 60, "command": [sys.executable, str(script)]}
    (tree.folder / "one.yaml").write_text(json.dumps({"jobs": [job]}))
    tree.run(tree.command("window", "run.json", "run", "one.yaml", "--policy", "srtf", "--json", "--state", "run"))
    deciding, reporting = tree.files("run.json", "window"), tree.files("script.json", "all")
    return Way("report -> decision", {"headway run": deciding, "and the training process": _union(deciding, reporting)})


# ── a jobs file becomes a bound pod ─────────────────────────────────────────────────────────────────────────

LAB = "ways"
POD = {
    "metadata": {"annotations": {"headway.dev/lab-run-for": "3s"}},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}
SHOWN = '{.spec.nodeName}{"|"}{.status.phase}{"\\n"}'


def submit_way(tree: Tree) -> Way:
    with _lab(tree) as kubeconfig:
        tree.headway("schedule", "--install", "--kubeconfig", kubeconfig)
        with _scheduler(tree, kubeconfig) as scheduler, _pods(tree, kubeconfig) as pods:
            tree.wait_for("schedule.json", "first", scheduler)
            time.sleep(IDLE_SECONDS)
            _tell(scheduler, "on")
            job = {"name": "one", "cpu": 1, "memory": "1Gi", "gpu": 1, "command": ["train"]}
            (tree.folder / "one-pod.yaml").write_text(json.dumps({"jobs": [job]}))
            tree.run(tree.command("whole", "submit.json", "submit", "one-pod.yaml", "--kubeconfig", kubeconfig))
            _until(pods, lambda node, _: bool(node))
            _tell(scheduler, "bound")
            tree.wait_for("schedule.json", "bound", scheduler)
            _until(pods, lambda _, phase: phase == "Succeeded")
            over = "--for=jsonpath={.status.phase}=Succeeded"
            tree.headway("lab", "kubectl", "-n", LAB, "--", "wait", over, "--timeout=60s", "trainingjob/one")
            _tell(scheduler, "finished")
            tree.wait_for("schedule.json", "finished", scheduler)
    submitted = tree.files("submit.json", "all")
    bound, finished = tree.files("schedule.json", "bound"), tree.files("schedule.json", "finished")
    rows = {"submit": submitted, "schedule": bound, "both": _union(submitted, bound)}
    return Way("YAML -> bound pod", {**rows, "both, to the end of the job": _union(submitted, finished)})


@contextmanager
def _lab(tree: Tree) -> Iterator[str]:
    """A lab with one simulated node; yields its kubeconfig."""
    try:
        printed = tree.headway("lab", "up", "--name", LAB, "--nodes", "1", "--shape", "4xA100,16cpu,64Gi")
        yield next(line.split("=", 1)[1] for line in printed.splitlines() if "KUBECONFIG=" in line)
    finally:
        tree.headway("lab", "down", "--all")  # of this state folder, which has no other


@contextmanager
def _scheduler(tree: Tree, kubeconfig: str) -> Iterator[subprocess.Popen[str]]:
    with socket.create_server(("", 0)) as probe:
        port = probe.getsockname()[1]
    (tree.folder / "template.yaml").write_text(json.dumps(POD))
    command = tree.command("asked", "schedule.json", "schedule", "--policy", "fifo", "--kubeconfig", kubeconfig,
                           "--template", "template.yaml", "--progress-listen", f"127.0.0.1:{port}")  # fmt: skip
    with (tree.folder / "schedule.txt").open("w") as out:
        process = subprocess.Popen(
            command, cwd=tree.folder, env=tree.environment, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True
        )
    yield from _ended(process)


@contextmanager
def _pods(tree: Tree, kubeconfig: str) -> Iterator[subprocess.Popen[str]]:
    """A line per change of a pod: its node and its phase."""
    kubectl = tree.headway("lab", "build", "kubectl").split()[-1]  # prints where it is
    process = subprocess.Popen(
        [kubectl, "--kubeconfig", kubeconfig, "get", "pods", "-w", "-o", f"jsonpath={SHOWN}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    yield from _ended(process)


def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _until(pods: subprocess.Popen[str], wanted: Callable[[str, str], bool]) -> None:
    assert pods.stdout is not None
    given_up = threading.Timer(60, pods.terminate)
    given_up.start()
    for line in pods.stdout:
        node, _, phase = line.strip().partition("|")
        if wanted(node, phase):
            given_up.cancel()
            return
    sys.exit("the pod was not bound, or did not end, within 60 s")


def _tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _union(*lists: list[str]) -> list[str]:
    return sorted(set().union(*lists))


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────

WAYS = {"submit": submit_way, "report": report_way, "trace": trace_way}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--source", type=Path, default=Path(__file__).parents[1], help="Count the files of this checkout."
    )
    parser.add_argument("--ways", default=",".join(WAYS), help="Follow only these ways, separated by commas.")
    parser.add_argument("--files", action="store_true", help="List the files, too.")
    parser.add_argument("--json", action="store_true", help="Print the counts and the files as JSON.")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the lab is ended however this ends
    source = given.source.resolve()
    source = source / "src" if (source / "src").is_dir() else source
    with tempfile.TemporaryDirectory(prefix="headway-ways-") as folder:
        found = [WAYS[name](Tree(source, Path(folder))) for name in given.ways.split(",")]
    if given.json:
        print(
            json.dumps({way.name: {row: {"count": len(f), "files": f} for row, f in way.rows.items()} for way in found})
        )
        return
    print("| way | counted in | files |\n|---|---|---|")
    for way in found:
        for row, files in way.rows.items():
            print(f"| {way.name} | {row} | {len(files)} |")
    for way in found if given.files else ():
        for row, files in way.rows.items():
            print(f"\n{way.name}, {row}:", *files, sep="\n  ")


if __name__ == "__main__":
    main()
