"""The queue of `headway up`, as a user of several terminals meets it: real processes, each command a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.main import get_command

from forked import headway
from headway.cli.app import app_for

pytestmark = pytest.mark.timeout(250)

ROOT = Path(__file__).parents[2]
TRAIN = '''
"""Short where it has no seed; with one it trains until a file `go` is there."""
import sys, time
from pathlib import Path
from headway import progress

file = (progress.checkpoint_dir() or Path(".")) / "step"
first = int(file.read_text()) if file.exists() else 0
print("from", first, flush=True)
with progress.track(total_steps=first + 10_000, save=lambda step: file.write_text(str(step))) as p:
    for step in range(first + 1, first + 10_000):
        p.report(step, loss=1.0 / step)
        time.sleep(0.05)
        if step > first + 5 and ("--seed" not in sys.argv or Path("go").exists()):
            break
    file.write_text(str(step))
print("done", flush=True)
'''


SEVERAL = """
import shlex, sys
from headway.cli import main
for line in sys.argv[1:]:
    sys.argv = ["headway", *shlex.split(line)]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""
"""Several commands, with one start of Python."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name, part in (("HOME", "home"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / part))
        (tmp_path / part).mkdir()
    monkeypatch.setenv("COLUMNS", "80")
    work = tmp_path / "home/project"
    work.mkdir()
    (work / "train.py").write_text(TRAIN)
    monkeypatch.chdir(work)
    yield work
    _say("down")


def _say(*words: str, code: int | None = 0) -> str:
    done = headway(*words)
    assert code is None or done.returncode == code, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def _folder(home: Path) -> Path:
    return home.parents[1] / "state/headway/queue"


def _jobs(home: Path) -> dict[str, str]:
    try:
        return {job["name"]: job["state"] for job in json.loads((_folder(home) / "status.json").read_text())["jobs"]
                if "state" in job}  # fmt: skip
    except FileNotFoundError:
        return {}


def _until(true, seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def _of(home: Path) -> int:
    return int(json.loads((_folder(home) / "run.json").read_text())["pid"])


def _printed(home: Path, job: str) -> str:
    path = _folder(home) / "output" / job / "worker-0.log"
    return path.read_text() if path.exists() else ""


def test_a_day_in_the_life_as_the_page_tells_it(home):
    page = (ROOT / "docs/local.md").read_text().partition("## A day in the life")[2]
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert block is not None
    said, cores = {}, os.sched_getaffinity(0)
    for line in block[1].splitlines():
        command = line.partition("  #")[0].strip()
        if command == "headway wait":
            (home / "go").touch()
        os.sched_setaffinity(0, {min(cores)})  # one core: jobs wait
        try:
            said[command] = _say(*shlex.split(command)[1:])
        finally:
            os.sched_setaffinity(0, cores)
    assert max(map(len, said["headway jobs"].splitlines())) <= 80
    assert "done" in said["headway logs -f train"]
    assert re.search(r"train +finished", said["headway jobs"])
    assert re.search(r"due .* in 2 h", said["headway jobs"])
    assert "due (" in said["headway why due"]
    states = _jobs(home)
    assert set(states.values()) == {"finished"}, states
    assert "sweep-lr0-01-seed1" in states
    assert not list((_folder(home) / "added").glob("*.json")), "jobs that are over have left the queue"


def test_after_kill_9_the_next_up_goes_on_and_what_is_over_stays_so(home):
    _say("up", "--policy", "first-fit")
    assert os.getsid(_of(home)) == _of(home) != os.getsid(0), "it has a session of its own"
    _say("add", "--cpu", "200m", "--name", "long", "--", "python", "train.py", "--seed", "1")
    _say("add", "--cpu", "200m", "--name", "bad", "--", "sh", "-c", "echo no such thing; exit 3")
    _until(lambda: _jobs(home).get("bad") == "failed" and _jobs(home).get("long") == "running")
    os.kill(_of(home), signal.SIGKILL)
    assert "the queue is down" in _say("jobs")
    assert "it counts from `headway up`" in _say("move-up", "long")
    assert "it goes on with 1 job" in _say("up", "--policy", "first-fit")
    _until(lambda: _printed(home, "long").count("from") == 2)
    assert "is up already" in _say("up")
    _say("suspend", "long")
    _until(lambda: _jobs(home)["long"] == "suspended")
    shown = _say("jobs")
    assert re.search(r"bad +failed +.*exit code 3: no such", shown), shown
    assert "it was saved" in shown
    _say("resume", "long")
    _until(lambda: _printed(home, "long").count("from") == 3)
    assert not _printed(home, "long").endswith("from 0\n"), "from its checkpoint"
    assert _printed(home, "bad").count("no such") == 1, "a job that failed does not run again by itself"
    assert "exit code 3: no such thing" in _say("wait", "bad", code=1)
    _say("retry", "bad")
    _until(lambda: _printed(home, "bad").count("no such") == 2 and _jobs(home)["bad"] == "failed")
    said = " ".join(_say("down").split())  # of a job that ends at this moment, something may be said, too
    assert re.search("saved: long; (.*; )?`headway up` goes on", said), said
    assert _jobs(home)["long"] != "finished"


def test_without_a_queue_no_command_speaks_of_kubernetes(home):
    for words in (["jobs"], ["logs", "x"], ["cancel", "x"], ["suspend", "x"], ["resume", "x"], ["retry", "x"],
                  ["wait", "x"], ["move-up", "x"]):  # fmt: skip
        said = _say(*words, code=2)
        assert "there is no queue yet" in said
        assert "kube" not in said
    for words in (["why", "x"], ["eta"], ["eta", "x"]):
        said = _say(*words, code=2)
        assert "there is no run in .headway here" in said
        assert not re.search("kube|cluster| -n ", said)
    assert "the queue is down: `headway up` runs them" in _say("add", "--", "true")
    assert "there is a job 'true' already" in _say("add", "--name", "true", "--", "true", code=2)


def test_kubeconfig_or_an_option_means_the_cluster_and_here_means_this_machine(home, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(home / "none"))
    for words in (["jobs"], ["logs", "x"], ["cancel", "x"], ["why", "x"], ["eta"], ["eta", "--kube"]):
        assert "none: the kubeconfig cannot be read" in _say(*words, code=2)
    assert "there is no queue yet" in _say("jobs", "--here", code=2)


def test_the_systemd_unit_starts_the_queue_in_the_foreground(home):
    said = _say("up", "--systemd", "--policy", "first-fit", "--set", "x=50% $HOME")
    unit = home.parents[1] / "config/systemd/user/headway.service"
    assert str(unit) in said
    assert "systemctl --user enable --now headway" in said
    text = unit.read_text()
    assert 'up --foreground --policy first-fit --set "x=50%% $$HOME"' in text
    assert "KillMode=mixed" in text
    assert f"Environment=XDG_STATE_HOME={home.parents[1] / 'state'}" in text, "the queue of this user's terminals"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "headway.service" not in done.stdout + done.stderr


def test_the_queue_has_the_options_of_a_run_and_files_given_count_from_any_folder(home):
    run, up = (
        {word for option in get_command(app_for([name])).commands[name].params for word in option.opts}
        for name in ("run", "up")
    )
    assert run - up == {"files", "--state", "--fresh", "--dry-run", "--json"}
    for name in ("q=1.yaml", "beliefs.json", "nodes.yaml", "users.yaml", "mine.py"):
        (home / name).touch()
    _say(
        *("up", "--systemd", "--policy", "mine.py:agent", "--env", "headway/Order-v0", "--set", "margin=0.5"),
        *("--set", "user_priority=users.yaml", "--queues", "q=1.yaml", "--cluster", "nodes.yaml", "--no-cgroups"),
        *("--estimates", "progress", "--beliefs", "beliefs.json", "--share", "--gpus", "none", "--save-seconds", "30"),
    )
    command = (home.parents[1] / "config/systemd/user/headway.service").read_text().partition("--foreground ")[2]
    assert command.partition("\n")[0] == (
        f"--policy {home}/mine.py:agent --env headway/Order-v0 --set margin=0.5 "
        f"--set user_priority={home}/users.yaml --queues {home}/q=1.yaml --cluster {home}/nodes.yaml "
        f"--beliefs {home}/beliefs.json --no-cgroups --share --gpus none"
    )


def test_one_line_makes_a_job_of_the_folder_and_environment_where_it_is_said(home, monkeypatch, capsys):
    monkeypatch.setenv("VIRTUAL_ENV", "/opt/venv")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    words = [
        "add",
        "--gpu",
        "1",
        "--deadline",
        "2h",
        "--priority",
        "3",
        "--retries",
        "2",
        "--for",
        "lr=0.10,1e-3",
        "--for",
        "seed=1",
    ]
    words += ["--json", "--", "python", "train.py", "--lr", "{lr}", "{x}"]
    app_for(words)(words, standalone_mode=False)
    names = json.loads(capsys.readouterr().out)["jobs"]
    assert names == ["train-lr0-10-seed0", "train-lr1e-3-seed0"]
    [kept] = [json.loads(path.read_text()) for path in (_folder(home) / "added").glob("train-lr0-10*.json")]
    [role] = kept["job"]["roles"]
    assert role["command"] == [str(Path(sys.executable).parent / "python"), "train.py", "--lr", "0.10", "{x}"]
    assert ["VIRTUAL_ENV", "/opt/venv"] in kept["env"][0]
    assert kept["job"]["directory"] == str(home)
    assert (kept["job"]["deadline"], kept["job"]["priority"], kept["job"]["retries"]) == (7200.0, 3, 2)


def test_a_job_that_cannot_run_is_refused_and_the_others_go_on(home):
    _say("add", "--name", "lost", "--", "python", "train.py")
    _say("add", "--name", "huge", "--cpu", "5000", "--", "true")
    _say("add", "--name", "fine", "--", "true")
    (_folder(home) / "added/bad.json").write_text("{")
    (home / "train.py").unlink()
    _say("up", "--policy", "first-fit")
    _until(lambda: _jobs(home).get("fine") == "finished")
    assert {name: state for name, state in _jobs(home).items() if name != "fine"} == dict.fromkeys(
        ("lost", "huge", "bad"), "refused"
    )
    assert re.search(r"huge +refused .*asks for", _say("jobs"))
    assert "train.py does not exist" in _say("wait", "lost", code=1)
    (home / "train.py").write_text("print(1)")
    _say("retry", "lost")
    _until(lambda: _jobs(home).get("lost") == "finished")
    _say("cancel", "huge")
    _until(lambda: "huge" not in _jobs(home))


def test_before_a_job_is_added_it_can_be_asked_when_it_would_be_done(home):
    (home / "more.yaml").write_text(
        "jobs: [{name: first, cpu: 1, seconds: 600, command: [python, train.py, --seed, 1]},"
        " {name: second, cpu: 1, seconds: 60, command: [python, train.py, --seed, 2]}]"
    )
    assert "there is no queue yet" in _say("add", "--dry-run", "--", "true", code=2)
    _say("up", "--policy", "fifo", "--cluster", "1x1cpu")
    _until(lambda: "cycle" in (_folder(home) / "run.log").read_text())
    dry = ("add", "--dry-run", "--json")
    alone = json.loads(_say(*dry, "--cpu", "1", "--name", "alone", "--", "true"))
    assert alone["jobs"]["alone"]["starts"]["high"] - alone["now"] < 60, "nothing is in its way"
    _say("add", "more.yaml")
    _until(lambda: _jobs(home).get("first") == "running" and _jobs(home).get("second") == "waiting")
    told = json.loads(_say(*dry, "--cpu", "1", "--name", "last", "--", "true"))
    assert list(told["jobs"]) == ["last"]
    assert told["jobs"]["last"]["starts"]["mid"] - told["now"] == pytest.approx(660, rel=0.4), "it waits for both"
    said = _say("add", "--dry-run", "--cpu", "1", "--name", "last", "--", "true")
    assert re.match(r"last \(to add\): starts \d", said)
    assert set(_jobs(home)) == {"first", "second"}
    assert not (_folder(home) / "added/last.json").exists()


def test_what_a_job_counts_as_that_names_nothing_is_said_once(home):
    said = " ".join(_say("add", "--name", "a", "--", "true").split())
    assert "a: names no resources; it counts as one core and a share of memory until it was measured" in said
    assert "no resources" not in _say("add", "--name", "b", "--", "true")
    (home / "jobs.yaml").write_text("jobs: [{name: a, command: ['true']}, {name: b, command: ['true']}]")
    first, again = (" ".join(_say("run", "jobs.yaml", "--json").split()) for _ in range(2))
    assert "a, b: name no resources; each counts as one core" in first
    assert "no resources" not in again


def test_the_queue_is_known_after_its_user_has_logged_out(home, tmp_path, monkeypatch):
    """logind removes the folder of the session when the last one ends."""
    (tmp_path / "session").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "session"))
    _say("up", "--policy", "first-fit")
    shutil.rmtree(tmp_path / "session")
    (home / "jobs.yaml").write_text("jobs: [{name: a, command: ['true']}]")
    assert f"process {_of(home)} ({_folder(home)}) already runs jobs" in " ".join(
        _say("run", "jobs.yaml", code=2).split()
    )


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root can be two users")
def test_two_users_without_rights_have_a_queue_each(home):
    """The capability to read all is for the Python of this test, which may be in root's own folder."""
    caps = "-all,+dac_read_search"
    users = {}
    for user in (12_001, 12_002):
        users[user] = home.parent / str(user)
        users[user].mkdir()
        os.chown(users[user], user, user)

    def say(user: int, *lines: str) -> str:
        own = {"HOME": str(users[user]), "XDG_STATE_HOME": ""}
        become = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", f"--inh-caps={caps}"]
        become += [f"--ambient-caps={caps}", f"--bounding-set={caps}", sys.executable, "-c", SEVERAL, *lines]
        done = subprocess.run(become, env={**os.environ, **own}, cwd=users[user], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        for user in users:
            say(user, "up --policy first-fit", "add --name same -- id -u")
        for user in users:
            assert say(user, "wait", "logs same").endswith(f"{user}\n")
    finally:
        for place in users.values():
            os.kill(json.loads((place / ".local/state/headway/queue/run.json").read_text())["pid"], signal.SIGTERM)


def test_retries_are_counted_over_restarts_of_the_queue(home):
    """The first failure is before kill -9, the second after it: one retry of one is used up."""
    _say("up", "--policy", "first-fit")
    _say("add", "--name", "bad", "--retries", "1", "--", sys.executable, "-c", "exit(3)")
    _until(lambda: "retry 1 of 1" in (_folder(home) / "run.log").read_text())
    os.kill(_of(home), signal.SIGKILL)
    _say("up", "--policy", "first-fit")
    _until(lambda: _jobs(home).get("bad") == "failed")
    assert (_folder(home) / "run.log").read_text().count("retry 1 of 1") == 1, "it does not begin anew"


def test_a_job_that_was_retried_goes_on_after_a_restart_of_the_queue(home):
    """That it failed once, in an earlier life, does not take it out of the queue."""
    retried = f"test -e ok && exec {sys.executable} train.py --seed 1"
    _say("up", "--policy", "first-fit")
    _say("add", "--name", "late", "--", "sh", "-c", retried)
    _until(lambda: _jobs(home).get("late") == "failed")
    (home / "ok").touch()
    _say("retry", "late")
    _until(lambda: "from 0" in _printed(home, "late"))
    _say("down")
    _say("up", "--policy", "first-fit")
    _until(lambda: _printed(home, "late").count("from") == 2)
    assert (_folder(home) / "added/late.json").exists(), "it is still wanted"
    (home / "go").touch()
    assert "late is finished" in " ".join(_say("wait", "late").split())


def test_clean_means_the_queue_where_nothing_ran_in_this_folder(home):
    _say("add", "--name", "c", "--", "python", "train.py")
    _say("up", "--policy", "first-fit")
    _say("wait", "c")
    (home / "c.yaml").write_text("jobs: [{name: c, fresh: true, command: [python, train.py, afresh]}]")
    _say("add", "c.yaml")
    _say("wait", "c")
    assert "from 0" in _printed(home, "c")
    assert "would be removed; add --yes" in _say("clean", code=2)
    assert "removed" in _say("clean", "--yes")
    assert "nothing is set aside" in _say("clean")


def test_other_arguments_of_a_job_that_is_over_go_on_from_its_checkpoint(home, monkeypatch):
    """Longer training in one line, from another terminal, and from a file; another program is refused."""
    _say("up", "--policy", "first-fit")
    _say("add", "--name", "t", "--", "python", "train.py", "--steps", "400")
    _say("wait", "t")
    again = ["add", "--name", "t", "--", "python", "train.py"]
    for words in ([*again, "--steps", "400"], [*again[:-1], "other.py"], [*again[:3], "--", "sh", "train.py"]):
        assert "there is a job 't' already" in _say(*words, code=2)
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/elsewhere")
    assert "goes on from its checkpoint: t" in _say(*again, "--steps", "600")
    _say("wait", "t")
    assert _printed(home, "t").count("from") == 2
    assert _printed(home, "t").count("from 0") == 1
    (home / "f.yaml").write_text("jobs: [{name: f, command: [python, train.py, '1']}]")
    _say("add", "f.yaml")
    _say("wait", "f")
    assert "has finished" in _say("add", "f.yaml", code=2)
    (home / "f.yaml").write_text("jobs: [{name: f, command: [python, train.py, '2']}]")
    assert "goes on from its checkpoint: f" in _say("add", "f.yaml")
    _say("wait", "f")
    assert _printed(home, "f").count("from 0") == 1
    assert _printed(home, "f").count("from") == 2
