"""What jobs really use, by a real metrics API: what Headway writes to a job's status against what the job does.

    python bench/usage.py [--cores 0.3] [--mebibytes 60]

A lab with one real kubelet and metrics-server, which is built when it is first asked for (about three minutes on two
free cores). A job may use 0.3 cores, tries to use a whole one, and holds 60 MiB.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from schedule_process import JOBS, phases, prepared, started

from headway.lab import Lab

BURN = "import sys\nheld = b'x' * (int(sys.argv[1]) << 20)\nwhile True: pass"


def measure(lab: Lab, options: argparse.Namespace, folder: Path) -> None:
    lab.create_namespace("usage")
    process, said = started(lab, "usage", folder, lab.pod_template(), "--progress-seconds", "5")
    words = ["python", "-c", BURN, str(options.mebibytes)]
    role = {"cpu": f"{round(1000 * options.cores)}m", "memory": "256Mi", "command": words}
    body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "burn"}}
    began = time.monotonic()
    lab.api.post(JOBS.format("usage"), {**body, "spec": {"roles": {"worker": role}}})
    shown: list[tuple[float, dict[str, str]]] = []
    while len(shown) < options.looks and time.monotonic() - began < options.seconds and process.poll() is None:
        usage = phases(lab, "usage")["burn"].get("usage")
        if usage and (not shown or shown[-1][1] != usage):
            shown.append((time.monotonic() - began, usage))
        time.sleep(0.5)
    process.terminate()
    process.wait()
    if not shown:
        raise SystemExit(f"nothing was measured\n{said.read_text()}")
    print(
        f"a job with {role['cpu']} of cpu that tries to use a whole core, and holds {options.mebibytes} MiB and Python"
    )
    for at, usage in shown:
        print(f"after {at:.0f} s its status says: cpu {usage['cpu']}, memory {usage['memory']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=float, default=0.3)
    parser.add_argument("--mebibytes", type=int, default=60)
    parser.add_argument("--looks", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=180.0, help="end after this, whatever was seen")
    options = parser.parse_args()
    with prepared("usage", kubelets=1, metrics=True) as (lab, folder):
        measure(lab, options, folder)


if __name__ == "__main__":
    main()
