"""Small jobs through the queue of `headway up`: how long they take, and how much memory the queue holds meanwhile.

`python bench/many_jobs.py [JOBS]` (default 1000) starts a queue with files of its own, adds a tenth of the jobs at a
time, and prints its resident memory after each tenth. It ends with the ratio of the last to the third: flat is about 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTS = 10


def main(jobs: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        env = {**os.environ, "XDG_STATE_HOME": place, "XDG_RUNTIME_DIR": place}

        def headway(*words: str) -> str:
            command = [sys.executable, "-m", "headway", *words]
            return subprocess.run(command, env=env, cwd=place, check=True, capture_output=True, text=True).stdout

        headway("up", "--policy", "first-fit")
        folder = Path(place) / "headway" / "queue"
        pid = json.loads((folder / "run.json").read_text())["pid"]
        seen, began = [], time.monotonic()
        try:
            for part in range(PARTS):
                sweep = f"n={jobs // PARTS}"
                headway("add", "--cpu", "100m", "--name", f"part{part}", "--for", sweep, "--", "sh", "-c", "echo {n}")
                headway("wait")
                seen.append(_resident(pid))
                took = time.monotonic() - began
                print(f"{(part + 1) * jobs // PARTS:6} jobs  {took:6.1f} s  {seen[-1]:6.1f} MiB", flush=True)
        finally:
            headway("down")
        outputs = len(list((folder / "output").iterdir()))
        print(f"{outputs} outputs; memory at the end / after three tenths: {seen[-1] / seen[2]:.3f}")


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
