"""One node of eight is powered off: how long until the gang trains again, and how many steps are lost?

    python bench/power_off.py [--kubelets 8] [--workers 5] [--lost-node-seconds 60] [--resets]

Eight real kubelets; a gang of five replicas, each on a node of its own, trains in step. The node of one replica is
switched off: kubelet, containers and network at once, so its peers hear nothing more of it. With `--resets` their
connections are closed, as when only the processes die, and the peers end with exit code 1 at once.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from schedule_process import JOBS, phases, prepared, started

from headway.lab import Lab

HERE = Path(__file__).parent
NAMESPACE, JOB = "power", "gang"


def switch_off(lab: Lab, node: str, *, silent: bool) -> float:
    """Returns when it was switched off."""
    at = time.time()
    lab.kill(node, silent=silent)
    return at


def pods(lab: Lab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lab.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def submit(lab: Lab, workers: int) -> None:
    words = ["python", str(HERE / "power_off_train.py"), "--steps", "1000000"]
    role = {"replicas": workers, "min": workers, "max": workers, "cpu": "600m", "memory": "128Mi", "command": words}
    body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": JOB}}
    lab.api.post(JOBS.format(NAMESPACE), {**body, "spec": {"roles": {"worker": role}}})


def wait_for(what: str, found: Any, seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while not found():
        if time.monotonic() > give_up:
            raise SystemExit(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)


def not_ready(lab: Lab, node: str) -> bool:
    conditions = lab.api.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] != "True" for one in conditions)


def measure(lab: Lab, options: argparse.Namespace, folder: Path) -> None:
    lab.create_namespace(NAMESPACE)
    kept = lab.shared / "kept"
    process, said = started(
        lab, NAMESPACE, folder, lab.pod_template(paths=[HERE, HERE.parent / "src"]), "--policy", "first-fit",
        "--checkpoints", str(kept), "--progress-seconds", "1", "--lost-node-seconds", str(options.lost_node_seconds),
    )  # fmt: skip
    submit(lab, options.workers)
    wait_for("the gang runs", lambda: phases(lab, NAMESPACE)[JOB].get("phase") == "Running", 180)
    places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods(lab)}
    (home,) = (kept / NAMESPACE).glob(f"{JOB}-*")
    wait_for("the first checkpoint", (home / "model.npz").exists, 120)
    time.sleep(options.train_seconds)
    # Never node-1, which has the lab's API address; and the last replica does not save.
    victim = next(node for name, node in sorted(places.items(), reverse=True) if node != "node-1")
    before = int((home / "step").read_text())
    off = switch_off(lab, victim, silent=not options.resets)
    wait_for("the node is not ready", lambda: not_ready(lab, victim), 120)
    noticed = time.time() - off

    def starts() -> list[dict[str, Any]]:
        return [json.loads(line) for line in (home / "starts").read_text().splitlines()]

    wait_for(
        "training again", lambda: len(starts()) > 1 and int((home / "step").read_text()) > starts()[-1]["step"], 400
    )
    again = starts()[-1]
    wait_for("the gang is whole", lambda: phases(lab, NAMESPACE)[JOB].get("phase") == "Running", 60)
    status = phases(lab, NAMESPACE)[JOB]
    now = sorted(pod["spec"]["nodeName"] for pod in pods(lab) if pod["status"].get("phase") == "Running")
    process.terminate()
    process.wait()
    print(
        f"{options.kubelets} kubelets, {options.workers} replicas on {len(set(places.values()))} nodes; off: {victim}"
    )
    how = "their peers' connections are closed" if options.resets else "their peers hear nothing"
    print(f"{how}; --lost-node-seconds {options.lost_node_seconds:g}")
    print(f"the API server shows the node as not ready after {noticed:.0f} s")
    print(f"all replicas train again {again['at'] - off:.0f} s after the node was switched off, on {', '.join(now)}")
    print(f"at step {before} when it was switched off, from step {again['step']}: {before - again['step']} steps lost")
    print(f"attempt {status['attempt']}, phase {status['phase']}, losses counted: {len(status['losses']['times'])}")
    if victim in now or len(now) != options.workers or again["step"] == 0:
        print(said.read_text())
        raise SystemExit("training did not go on from its checkpoint on other nodes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubelets", type=int, default=8)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--lost-node-seconds", type=float, default=60.0)
    parser.add_argument("--train-seconds", type=float, default=10.0, help="before the node is switched off")
    parser.add_argument("--resets", action="store_true", help="the peers notice at once, and fail")
    options = parser.parse_args()
    with prepared("power", kubelets=options.kubelets, kubelet_cpus=1.0) as (lab, folder):
        measure(lab, options, folder)


if __name__ == "__main__":
    main()
