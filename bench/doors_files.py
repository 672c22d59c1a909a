"""Hostile files against every reader: whatever a file holds, it is read or refused with a `UserError` of one line.

    python bench/doors_files.py [CASES [DOOR...]]      10,000 mutated files per reader; prints one line per reader

`python bench/doors_files.py 10000 "published traces"` takes the readers of published traces, one per format.

The files are valid ones, mutated: bytes cut, doubled, swapped and replaced by odd scalars, huge numbers, deep nesting.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headway.beliefs.file import LearnedBeliefs, read_beliefs, write_beliefs
from headway.cli.queue_config import read_rules
from headway.cli.wiring import make_policy, read_queues
from headway.compare.perform import Task, make_cluster
from headway.compare.scenario import read_scenario
from headway.core.board import Board
from headway.core.errors import UserError
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.estimates.history.durations import Durations
from headway.estimates.history.history import History
from headway.local.added import added_jobs, card_of
from headway.local.claims import machine_left, running_folders
from headway.local.machine import check_jobs
from headway.record.metrics import Tally
from headway.record.reading import keep_good, read
from headway.record.replay import snapshots
from headway.record.resume import left_behind
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.open import open_workload
from headway.workload.settings import Settings

LONGEST = 1500
"""Characters of an error; one that lists all fields is long."""
ROOT = Path(__file__).parents[1]
JOBS = """\
nodes:
- {name: a, count: 2, cpu: 8, memory: 32Gi, gpu: 4, resources: {fast: 2}, domain: rack1, accelerator: T4,
   labels: {disk: ssd}, taints: [slow]}
jobs:
- &base
  name: bert
  user: ann
  queue: nlp
  priority: 3
  submit: 5m
  deadline: 2h
  steps: 1000
  seconds: 90s
  model: bert
  checkpoints: true
  can: [size, move]
  target: {metric: accuracy, at_least: 0.9}
  success: {roles: [worker], when: any}
  command: [python, train.py, --steps, 700]
  env: {A: b}
  roles:
    ps: {replicas: 1, cpu: 500m, near: [worker], limit: {cpu: 2}}
    worker: {replicas: 2, min: 1, max: 4, gpu: 1, after: [ps], selector: {disk: ssd}, tolerates: [slow]}
- {name: small, seconds: 1h, cpu: 1, memory: 512Mi, resources: {fast: 1}}
simulate:
  start: 10
  noise: 0.1
  faults: {between: 1h, exits: [{job: small, after: 5, code: 137}], outages: [{node: a-0, at: 5, seconds: 9}]}
  speed: {node_loss: 0.1, accelerators: {T4: 1.0}}
"""
QUEUES = (
    "queues:\n- {name: nlp, quota: {gpu: 4, cpu: 500m}, borrow: {gpu: 2}, weight: 2}\n- {name: cv, lend: {gpu: 1}}\n"
)
LINES = (
    '{"name":"a","gpu":1,"seconds":"5m","true_seconds":7,"deadline":9,"target":{"at_most":0.5}}\n'
    '{"name":"b","roles":{"ps":{"cpu":1},"worker":{"gpu":2,"command":["a",7]}},"success":{"when":"any"}}\n'
)
ROWS = (
    "name,submit,seconds,replicas,min,max,gpu,cpu,memory,deadline,priority\n"
    "a,0,5,2,1,4,1,500m,2Gi,9,1\nb,1,5,1,,,1,,,,\n"
)
LOG = gzip.decompress((ROOT / "tests/golden/sim-adapt.log.gz").read_bytes())

ODD = [
    b"", b"-1", b"0", b"nan", b".inf", b"1e400", b"1e15", b"3000000000", b"9" * 30, b"9" * 5000, b"0.5", b"0x_",
    b"0o9", b"2024-99-99", b"1:99", b"~", b"null", b"yes", b"x", b'"', b"'", b",", b": ", b"\t", b"\n", b"\r",
    b"- ", b"#", b"%", b"@", b"`", b"|", b">", b"!", b"!!int x", b"!!binary x", b"!!set {a}", b"&a ", b"*a",
    b"*base", b"<<: ", b"? ", b"---\n", b"...\n", b"\xff\xfe", b"\0", b"\xc3\xa9", b"\xed\xa0\x80", b"\xe2\x80\xa8",
    b"\x1b[2J", b"[" * 60, b"{a: " * 60, b"[" * 3000, b'{"a":' * 3000, b"]", b"}", b"{", b"[", b"[[[]]]", b"{}",
    b"[]", b"true", b"a" * 300, b'"\\ud800"', b'"\\u0000"', b"-0", b"1_000", b"00",
]  # fmt: skip
mutations = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0, 1), st.floats(0, 1), st.integers(0, 30), st.sampled_from(ODD)),
    min_size=1, max_size=3,
)  # fmt: skip


def mutated(content: bytes, changes: list[tuple[int, float, float, int, bytes]]) -> bytes:
    """Replaces, repeats, swaps or cuts parts, at line ends or anywhere."""
    for kind, at, other, length, put in changes:
        start, second = int(at * len(content)), int(other * len(content))
        if kind == 0:
            content = content[:start] + put + content[start + length :]
        elif kind == 1:
            lines = content.splitlines(keepends=True) or [b""]
            one, two = int(at * (len(lines) - 1)), int(other * (len(lines) - 1))
            lines[one], lines[two] = lines[two], lines[one] if length % 2 else lines[two]
            content = b"".join(lines)
        elif kind == 2:
            content = content[:start] + content[second : second + length] + content[start:]
        else:
            lines = content.splitlines(keepends=True) or [b""]
            del lines[int(at * (len(lines) - 1))]
            content = b"".join(lines)
    return content


def _scalar(content: bytes, changes: list[tuple[int, float, float, int, bytes]]) -> bytes:
    """Puts odd values in the place of whole values, so that the file stays well-formed more often."""
    for _, at, _, _, put in changes:
        start = content.find(b":", int(at * len(content))) + 1
        if start:
            ends = [end for mark in b",}]\n" if (end := content.find(mark, start)) >= 0]
            content = content[:start] + b" " + put + content[min(ends, default=len(content)) :]
    return content


def _read_log(path: Path) -> None:
    tally = Tally(courses=True)
    for line in read(path):
        tally(line)
    tally.close()
    tally.result()


def _good_part(path: Path) -> None:
    keep_good(path)
    for _ in snapshots(path):
        pass
    left_behind(path)


def _settings(path: Path) -> None:
    words = path.read_bytes().decode(errors="replace").split("\n")
    make_policy("adaptive", words[:2])


def _with(policy: str, setting: str) -> None:
    make_policy(policy, [setting])


def _generated(path: Path) -> None:
    text = path.read_bytes().decode(errors="replace")
    generate(Settings(jobs=3, sizes=text), open_cluster("2x4"))


def _added(path: Path) -> None:
    place = path.parent / "added"
    place.mkdir(exist_ok=True)
    path.replace(place / path.name)
    for _, job in added_jobs(path.parent).values():
        check_jobs("added", [job], [LARGE])
        Board(Nodes.of([LARGE])).add(job, 0.0)


def _claim(path: Path) -> None:
    """As a run that lives leaves it: the file is locked."""
    place = path.parent / "headway"
    place.mkdir(mode=0o700, exist_ok=True)
    path.replace(place / path.name)
    here = patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(path.parent)})
    with here, (place / path.name).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        running_folders()
        machine_left(share=True)


LARGE = Node(name="a", capacity=(("cpu", 10**9), ("memory", 10**9)))
ADDED = b"""{"file":"/more.yaml","asked":1794864000000000000,"job":{"id":"m","priority":2,"deadline":60.0,"steps":20,
"directory":"/data","success":{"roles":["worker"]},"target":{"value":0.5},"can":31,"roles":[{"name":"worker","request":
[["cpu",100],["memory",512]],"command":["python","train.py"],"after":["ps"],"least":1,"most":4,"replicas":2},
{"name":"ps","request":[["cpu",100]],"command":["sh"]}]},"env":[[["TOKEN","abc"]],[]]}"""
CARD = b"""{"files":["/jobs.yaml"],"nodes":[{"name":"left","capacity":[["cpu",500]],"labels":[["disk","ssd"]],
"taints":["slow"],"domain":"","accelerator":""}],"settings":["queues=q.yaml"],"pid":77}"""
CLAIM = b'{"pid":77,"state":"/jobs","capacity":{"cpu":500,"memory":64},"cores":[0,1]}'
OWN = b"""from dataclasses import dataclass
from headway.core.plan import Plan

@dataclass
class Mine:
    share: float = 0.5
    def __call__(self, snapshot):
        return Plan(())
"""


def _beliefs() -> bytes:
    durations = Durations()
    for number in range(3):
        job = Job(id=JobId(f"j{number}"), roles=(Role(name="worker"),), user="ann", model="bert")
        durations = durations.add(job, 60.0 + number)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beliefs.json"
        write_beliefs(path, LearnedBeliefs(history=History(durations=durations)))
        return path.read_bytes()


Door = tuple[str, bytes, Callable[[Path], object]]
"""The name of the file, its content before it is mutated, and its reader."""
DOORS: dict[str, Door] = {
    "jobs file": ("a.yaml", JOBS.encode(), open_workload),
    "cluster file": ("a.yaml", JOBS.encode(), open_cluster),
    "simulate section": (
        "a.yaml",
        JOBS.encode(),
        lambda path: make_cluster(
            read_scenario(path), Task(policy="fifo", make=lambda: make_policy("fifo"))
        ).next_snapshot(),
    ),
    "JSON lines": ("a.jsonl", LINES.encode(), open_workload),
    "csv": ("a.csv", ROWS.encode(), lambda path: open_workload(path, "csv")),
    "queues file": ("q.yaml", QUEUES.encode(), read_queues),
    "queue rules": ("q.yaml", QUEUES.encode(), read_rules),
    "names and numbers": ("n.yaml", b"ann: 8\nbob: 0.5\n", lambda path: _with("headway", f"user_priority={path}")),
    "own policy": ("mine.py", OWN, lambda path: make_policy(f"{path}:Mine", ["share=0.2"])),
    "added job": ("m.json", ADDED, _added),
    "card of a run": ("run.json", CARD, lambda path: card_of(path.parent)),
    "claim of a run": ("a.run", CLAIM, _claim),
    "beliefs": ("beliefs.json", _beliefs(), read_beliefs),
    "policy settings": ("set", b"cool_down=5\nround=60\n", _settings),
    "generator settings": ("set", b"1:0.5,4:0.3,8:0.2", _generated),
    "cluster text": (
        "text",
        b"4x8cpu,32Gi,2gpu",
        lambda path: open_cluster(path.read_bytes().decode(errors="replace")),
    ),
    "log": ("run.log", LOG, _read_log),
    "log, replayed": ("run.log", LOG, lambda path: list(snapshots(path))),
    "log, good part": ("run.log", LOG, _good_part),
    "compressed log": ("run.log.gz", gzip.compress(LOG, mtime=0), _read_log),
}


_TINY = runpy.run_path(str(ROOT / "tests/workload/tiny_traces.py"))
TRACES: dict[str, Door] = {
    f"trace {name}": (file, content.encode(), partial(open_workload, format=name))
    for name, (file, content) in {**_TINY["TINY"], "philly-log": ("cluster_job_log", _TINY["PHILLY_LOG"])}.items()
}
"""Beside `tests/workload/test_workload_fuzz.py`, which looks at what was read as well."""


def knock(door: str, folder: Path, cases: int) -> tuple[int, int]:
    """Sends mutated files to a reader. Returns how many it read and how many it refused; anything else raises."""
    name, content, reader = (DOORS | TRACES)[door]
    counts = [0, 0]

    @settings(
        max_examples=cases, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(mutations, st.booleans())
    def one(changes: list[tuple[int, float, float, int, bytes]], whole_values: bool) -> None:
        path = folder / name
        path.write_bytes((_scalar if whole_values else mutated)(content, changes))
        refusal = ""
        try:
            reader(path)
        except UserError as error:
            refusal = str(error) or "\n"
        counts[bool(refusal)] += 1
        if "\n" in refusal or len(refusal) > LONGEST:
            raise ValueError(f"not one sentence: {refusal[:LONGEST]!r}")
        for aside in folder.glob("*.damaged*"):
            aside.unlink()

    one()
    return counts[0], counts[1]


def main(cases: int, wanted: list[str]) -> None:
    named = [door for one in wanted for door in (TRACES if one == "published traces" else [one])]
    unknown = [door for door in named if door not in DOORS | TRACES]
    if unknown:
        sys.exit(f"there is no door {unknown[0]!r}; choose of: {', '.join([*DOORS, 'published traces'])}")
    for door in named or DOORS | TRACES:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            taken, refused = knock(door, Path(folder), cases)
        print(f"{door:20} {taken:6} read  {refused:6} refused  {time.perf_counter() - began:6.1f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, sys.argv[2:])
