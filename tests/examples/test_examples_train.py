"""The example trainings, as real processes: they learn, go on where they were, outlive a worker."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "examples" / "train"
pytestmark = pytest.mark.train


@pytest.fixture(autouse=True)
def processes():
    """What a test started and did not wait for is gone when it ends."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def start(processes, script, *arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    process = subprocess.Popen(
        [sys.executable, SCRIPTS / script, "--model", "mlp", *map(str, arguments)],
        env=clean | {f"HEADWAY_{name}": str(value) for name, value in environment.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    processes.append(process)
    return process


def output_of(process, code=0):
    out, err = process.communicate(timeout=200)
    assert process.returncode == code, out + err
    return out


def losses(out):
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", out)]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def line_with(process, text):
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was never said")


def test_a_single_run_alone_learns_and_needs_no_headway(processes):
    out = output_of(start(processes, "single.py", "--steps", 500))
    assert losses(out)[-1] < 2.3  # guessing costs ln 16 = 2.77


def test_a_run_that_was_saved_on_request_and_killed_goes_on_from_there(processes, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        listener.settimeout(200)
        common = {"CHECKPOINT": tmp_path / "kept", "PROGRESS": f"unix:{tmp_path}/s"}
        first = start(processes, "single.py", "--steps", 100_000, "--save-every", 1000, **common)
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            connection.sendall(b'{"save":"before the move"}\n')
            saved = next(m for m in map(json.loads, lines) if "saved" in m)
            first.kill()
            first.communicate()
    steps = saved["step"] + 20
    out = output_of(start(processes, "single.py", "--steps", steps, CHECKPOINT=tmp_path / "kept"))
    assert f"from step {saved['step']} to {steps}" in out
    out = output_of(start(processes, "single.py", "--steps", steps, CHECKPOINT=tmp_path / "kept"))
    assert f"from step {steps} to {steps}" in out
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["single.npz"]


def test_a_resumed_run_ends_where_an_unbroken_one_does(processes, tmp_path):
    for steps in (6, 12):
        broken = output_of(start(processes, "single.py", "--steps", steps, CHECKPOINT=tmp_path))
    whole = output_of(start(processes, "single.py", "--steps", 12))
    assert losses(broken)[-1] == losses(whole)[-1]


def test_a_parameter_server_outlives_a_killed_worker_and_all_finish(processes, tmp_path):
    port, steps = free_port(), 250
    server = start(processes, "distributed.py", "--steps", steps, ROLE="ps", PORT=port, CHECKPOINT=tmp_path, JOB="j")
    as_worker = {"ROLE": "worker", "HOSTS": json.dumps({"ps": [f"127.0.0.1:{port}"]})}
    workers = [start(processes, "distributed.py", "--steps", steps, INDEX=i, **as_worker) for i in range(2)]
    line_with(server, "workers 2")
    time.sleep(0.5)
    workers[0].send_signal(signal.SIGKILL)
    assert f"step {steps} " in output_of(server)
    output_of(workers[1])
    resumed = start(processes, "distributed.py", "--steps", steps, ROLE="ps", PORT=port, CHECKPOINT=tmp_path, JOB="j")
    assert f"from step {steps} to {steps}" in output_of(resumed)


def test_a_worker_without_its_server_gives_up(processes):
    port = free_port()
    server = start(processes, "distributed.py", "--steps", 100_000, ROLE="chief", PORT=port)
    worker = start(
        processes, "distributed.py", "--steps", 100_000, "--role", "worker", "--servers", f"localhost:{port}"
    )
    line_with(server, "workers 1")
    server.kill()
    output_of(worker, code=1)


def test_two_shards_and_one_worker(processes):
    ports, steps = (free_port(), free_port()), 60
    common = {"ROLE": "ps", "REPLICAS": json.dumps({"ps": 2, "worker": 1})}
    servers = [
        start(processes, "distributed.py", "--steps", steps, PORT=port, INDEX=i, **common)
        for i, port in enumerate(ports)
    ]
    hosts = json.dumps({"ps": [f"127.0.0.1:{port}" for port in ports]})
    worker = start(processes, "distributed.py", "--steps", steps, ROLE="worker", HOSTS=hosts)
    for process in (*servers, worker):
        output_of(process)


def test_a_model_nobody_knows_is_one_sentence(processes):
    process = start(processes, "distributed.py", "--model", "gpt", "--steps", 1)
    _, err = process.communicate(timeout=200)
    assert process.returncode != 0
    assert "--model gpt" in err
    assert "Traceback" not in err
