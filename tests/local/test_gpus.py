"""GPUs are given out, one job each: real processes, the real nvidia-ml-py, and a stand-in for the driver's library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest_gpus import A100_SLICE

from headway.core.node import Node
from headway.local.claims import claim_machine, devices_left
from headway.local.devices import NVIDIA, Device
from headway.local.shim import descendants

pytestmark = pytest.mark.timeout(120)
PRINT = "env | grep -E 'VISIBLE|LOCAL_RANK|JAX_LOCAL|NPROC' | sort; echo pid=$$; "


def _jobs(gpus, *jobs: dict[str, object], nodes: object = None) -> str:
    entries = [{"cpu": "100m", **job, "command": ["sh", "-c", PRINT + str(job["command"])]} for job in jobs]
    file = gpus.folder / "jobs.yaml"
    file.write_text(json.dumps({"jobs": entries, **({"nodes": nodes} if nodes else {})}))
    return str(file)


def _end(process: subprocess.Popen[str], code: int = 0) -> str:
    told, _ = process.communicate(timeout=90)
    assert process.returncode == code, told
    return told


@pytest.fixture
def running(gpus):
    """Starts `headway run`, and ends what is left of it."""
    started = []

    def start(*words: str) -> subprocess.Popen[str]:
        started.append(gpus.headway("run", *words))
        return started[-1]

    yield start
    for process in started:
        for pid in [*descendants(process.pid), process.pid] if process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_two_jobs_get_two_gpus_and_who_asks_for_none_sees_none(gpus, running):
    gpus.has(0).has(1)
    file = _jobs(
        gpus, {"name": "a", "gpu": 1, "command": "sleep 4"}, {"name": "b", "gpu": 1, "command": "sleep 4"},
        {"name": "c", "gpu": 1, "replicas": 2, "command": "true"}, {"name": "none", "command": "true"},
    )  # fmt: skip
    told = _end(running(file))
    assert "4 of 4 jobs finished" in told
    assert sorted(gpus.visible("a") + gpus.visible("b")) == ["0", "1"]
    assert sorted(gpus.visible("c") + gpus.visible("c", replica="worker-1")) == ["0", "1"]
    assert gpus.visible("none") == [""]
    for job in "abc":  # each sees one device, which is its number 0
        assert "\nLOCAL_RANK=0\n" in gpus.output(job)
        assert "PET_NPROC_PER_NODE=1\n" in gpus.output(job)
    assert "JAX_LOCAL_DEVICE_IDS=0\n" in gpus.output("c")
    log = (gpus.folder / ".headway/jobs/run.log").read_text()
    assert '"accelerator":"a100"' in log
    assert '["gpu-memory","80"]' in log


def test_use_and_memory_are_measured_and_why_tells_them(gpus, running):
    gpus.has(0, busy=80, used=40960)
    process = running(_jobs(gpus, {"name": "a", "gpu": 1, "command": "sleep 60"}))
    log = gpus.folder / ".headway/jobs/run.log"
    gpus.wait_for("the use is in the log", lambda: log.exists() and '"gpus":[[0,["0"],0.8,40960]]' in log.read_text())
    told = _end(gpus.headway("why", "a"))
    assert "gpus      0: 80 %, 40 GiB" in told
    found = json.loads(_end(gpus.headway("why", "a", "--json")))
    assert found["gpus"] == {"devices": ["0"], "busy": 0.8, "memory_mib": 40960}
    process.send_signal(signal.SIGINT)
    _end(process, 130)


def test_after_kill_9_no_job_gets_a_gpu_that_another_still_has(gpus, running):
    gpus.has(0).has(1)
    jobs = {"name": "a", "gpu": 1, "command": "sleep 60"}, {"name": "b", "gpu": 1, "command": "sleep 60"}
    file = _jobs(gpus, *jobs)
    first = running(file, "--no-cgroups")
    gpus.wait_for("both run", lambda: gpus.visible("a") and gpus.visible("b"))
    shim = next(pid for pid in descendants(first.pid) if _holds_gpu(pid, "GPU-0"))
    left = descendants(shim)
    os.kill(shim, signal.SIGSTOP)  # it cannot end what it runs: that job dies slowly
    first.kill()
    first.wait()
    second = running(file, "--no-cgroups")
    log = gpus.folder / ".headway/jobs/run.log"
    sentence = "GPU 0 is left alone: processes of another run have it"
    gpus.wait_for("it is told", lambda: sentence in log.read_text())
    gpus.wait_for("one runs", lambda: len(gpus.visible("a") + gpus.visible("b")) == 3)
    assert (gpus.visible("a") + gpus.visible("b")).count("1") == 2, "the one that goes on has GPU 1"
    for pid in [shim, *left]:
        os.kill(pid, signal.SIGKILL)
    gpus.wait_for("both run", lambda: len(gpus.visible("a") + gpus.visible("b")) == 4)
    assert sorted([gpus.visible("a")[-1], gpus.visible("b")[-1]]) == ["0", "1"]
    second.send_signal(signal.SIGINT)
    assert "GPU 0 can be given out again" in _end(second, 130)


def _holds_gpu(pid: int, name: str) -> bool:
    try:
        return any(name in str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_a_job_on_a_lost_gpu_starts_again_on_another_and_the_gpu_comes_back(gpus, running):
    """One job is ended; the other ends by itself, as CUDA makes it, before anyone has looked at the device."""
    gpus.has(0).has(1).has(2)
    process = running(_jobs(
        gpus, {"name": "hangs", "gpu": 1, "command": "[ $HEADWAY_ATTEMPT = 2 ] || sleep 60"},
        {"name": "fails", "gpu": 1, "command": f"[ $HEADWAY_ATTEMPT = 2 ] || while ! grep -q ' 15 0 ' {gpus.file}; do "
                                               "sleep 0.1; done; [ $HEADWAY_ATTEMPT = 2 ]"},
        {"name": "other", "gpu": 1, "command": "sleep 8"},
    ))  # fmt: skip
    gpus.wait_for("all run", lambda: all(gpus.visible(job) for job in ("hangs", "fails", "other")))
    lost = gpus.visible("hangs") + gpus.visible("fails")
    for number in lost:
        gpus.loses(number)
    log = gpus.folder / ".headway/jobs/run.log"
    gpus.wait_for(
        "both are lost", lambda: log.read_text().count("is lost: NVML says GPU is lost; it starts again") == 2
    )
    assert '["gpu",1]' in log.read_text().replace('["gpu",3]', ""), "the node has one GPU"
    gpus.has(lost[0], lost=0)
    told = _end(process)
    assert "3 of 3 jobs finished" in told
    assert f"GPU {lost[1]} is lost: NVML says GPU is lost" in told
    assert f"GPU {lost[0]} can be given out again" in told
    assert lost[1] not in [gpus.visible("hangs")[1], gpus.visible("fails")[1]]


def test_a_gpu_in_foreign_use_is_left_alone(gpus, running):
    gpus.has(0, pids=os.getpid()).has(1)
    told = _end(running(_jobs(gpus, {"name": "a", "gpu": 1, "command": "true"})))
    assert f"GPU 0 is left alone: process {os.getpid()} (" in told
    assert gpus.visible("a") == ["1"]


def test_a_job_that_names_nothing_and_uses_a_gpu_is_told_to_ask_for_it(gpus, running):
    gpus.has(0).has(1)
    file = _jobs(gpus, {"name": "bare", "cpu": None, "command": "sleep 60"})
    process = running(file)
    gpus.wait_for("it runs", lambda: "pid=" in gpus.output("bare"))
    assert gpus.visible("bare") == ["0,1"], "those that nobody has"
    gpus.has(1, pids=gpus.output("bare").split("pid=")[1].strip())
    log = gpus.folder / ".headway/jobs/run.log"
    gpus.wait_for("it is told", lambda: "GPU 1 is left alone: job bare uses it" in log.read_text())
    assert "it uses GPU 1 and did not ask for it: write gpu: 1 into its job" in log.read_text()
    process.send_signal(signal.SIGINT)
    _end(process, 130)


def test_slices_a_choice_of_gpus_nodes_by_hand_and_busy_ones(gpus, running):
    """GPU 1 is not chosen; GPU 2 is used by a process of others, and given out because that is asked for."""
    gpus.has(0, mig=1).has("0:0", name=A100_SLICE).has("0:1", name=A100_SLICE).has(1).has(2, pids=os.getpid())
    nodes = [{"name": "left", "cpu": 1, "gpu": 2}, {"name": "right", "cpu": 1, "gpu": 1}]
    jobs = (
        {"name": "a", "gpu": 1, "replicas": 2, "command": "true", "accelerator": "a100-mig-1g.10gb"},
        {"name": "b", "gpu": 1, "command": "true", "accelerator": "A100"},
    )
    _end(running(_jobs(gpus, *jobs, nodes=nodes), "--gpus", "0,2", "--busy-gpus"))
    assert sorted(gpus.visible("a") + gpus.visible("a", replica="worker-1")) == ["MIG-0-0-aaaa", "MIG-0-1-aaaa"]
    assert gpus.visible("b") == ["2"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--gpus", "7"], "--gpus: there is no GPU '7'; this machine has 0"),
        (["--gpus", "none"], "field gpu: asks for 1 gpu, but the largest node has 0 gpu; name GPUs"),
        (["--cluster", "2x1cpu,1gpu"], "all together have 2 gpu, but this machine has 1 gpu"),
    ],
)
def test_mistakes_are_one_sentence(gpus, running, words, told):
    gpus.has(0)
    said = _end(running(_jobs(gpus, {"name": "a", "gpu": 1, "command": "true"}), *words), 2)
    assert told in " ".join(said.split())


def test_two_runs_that_share_the_machine_share_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    devices = [Device(f"GPU-{number}", str(number), NVIDIA, str(number)) for number in range(2)]
    node = Node(name="n", capacity=(("cpu", 100), ("gpu", 1)))
    script = (
        "import sys, time; from pathlib import Path; from headway.core.node import Node\n"
        "from headway.local.claims import claim_machine; from headway.local.devices import Device\n"
        "held = claim_machine(Path('/theirs'), [Node(name='n', capacity=(('cpu', 100), ('gpu', 1)))],\n"
        "    [Device('GPU-0', '0', 'nvidia', '0')], share=False)\n"
        "print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([os.sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    try:
        assert devices_left(devices, share=True) == devices[1:]
        claim_machine(tmp_path, [node], devices[1:], share=True).close()
        with pytest.raises(Exception, match="has just taken"):
            claim_machine(tmp_path, [node], devices[:1], share=True)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
