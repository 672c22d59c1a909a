"""Finding and building the lab's programs, with a pretended Go so that no test compiles Kubernetes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.lab import LabError, Unavailable, build, programs

GO = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
  version) echo "go version go1.26.8 linux/amd64" ;;
  list) printf 'one\\ntwo\\n' ;;
  build)
    while [ "$1" != -o ]; do shift; done
    printf half > "$2"; echo one >&2
    {during}
    printf whole > "$2"; chmod +x "$2"; echo two >&2 ;;
esac
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with an empty cache and nothing but a pretended Go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(programs, "_own_copies", lambda name: [])
    give_go(tmp_path, during="")
    return tmp_path


def give_go(folder: Path, during: str) -> None:
    executable(folder / "bin" / "go", GO.format(log=folder / "go.log", during=during))


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def builds(folder: Path) -> int:
    log = folder / "go.log"
    return sum(line.startswith("build") for line in log.read_text().splitlines()) if log.exists() else 0


def test_versions_are_pinned_in_go_mod_with_sums():
    for program in programs.PROGRAMS.values():
        assert program.version.startswith("v"), program
        assert (program.folder / "go.sum").stat().st_size > 1000, f"{program.module} has no checksums"
    assert programs.PROGRAMS["kube-apiserver"].version == "v1.36.3"


def test_a_build_is_kept_and_not_repeated(machine, capsys):
    build.ensure(["kubectl"])
    build.ensure(["kubectl"])
    assert programs.find("kubectl").read_text() == "whole"
    assert builds(machine) == 1
    told = capsys.readouterr().err
    assert "building kubectl v1.36.3 (1 of 1): 2 packages to compile" in told
    assert "built kubectl v1.36.3" in told


def test_the_linker_is_told_the_version(machine):
    build.ensure(["kubelet"])
    line = next(line for line in (machine / "go.log").read_text().splitlines() if line.startswith("build"))
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in line
    assert "-X k8s.io/component-base/version.gitMinor=36" in line


def test_a_half_built_program_is_not_taken_for_one(machine):
    target = programs.PROGRAMS["kubectl"].built
    target.parent.mkdir(parents=True)
    (target.parent / "kubectl.partial-1").write_text("half")
    assert programs.locate("kubectl") is None
    build.ensure(["kubectl"])
    assert sorted(path.name for path in target.parent.iterdir()) == ["kubectl"]


def test_a_failed_build_says_why_and_leaves_nothing(machine):
    give_go(machine, during="echo 'main.go:1: out of luck' >&2; exit 1")
    with pytest.raises(LabError, match=r"kubectl v1.36.3 could not be built: main.go:1: out of luck"):
        build.ensure(["kubectl"])
    assert list(programs.PROGRAMS["kubectl"].built.parent.iterdir()) == []


def start_build(machine: Path) -> subprocess.Popen[str]:
    code = "from headway.lab import build, programs\nprograms._own_copies = lambda name: []\n"
    code += "build.ensure(['kubectl', 'kubelet'])"
    environment = {**os.environ, "PYTHONPATH": str(Path(build.__file__).parents[2])}
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=environment)


def test_two_labs_that_start_together_build_once(machine):
    give_go(machine, during="sleep 0.5")
    both = [start_build(machine) for _ in range(2)]
    told = [process.communicate(timeout=30)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    waits = "another `headway lab` builds the lab's programs; this one goes on when that is done\n"
    assert [waits in one for one in told].count(True) == 1, "the second says what it waits for"
    assert builds(machine) == 2, "two programs, each built once"


def test_ctrl_c_leaves_no_half_program_and_the_next_build_works(machine):
    give_go(machine, during="sleep 30")
    interrupted = start_build(machine)
    folder = programs.PROGRAMS["kubectl"].built.parent
    deadline = time.monotonic() + 60
    while not list(folder.glob("*.partial-*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    interrupted.send_signal(signal.SIGINT)
    assert interrupted.wait(20) != 0
    interrupted.stderr.close()
    assert list(folder.iterdir()) == []
    give_go(machine, during="")
    build.ensure(["kubectl", "kubelet"])
    assert programs.find("kubectl").read_text() == "whole"


def test_too_little_disk_is_told_before_building(machine, monkeypatch):
    monkeypatch.setattr(build, "DISK_BYTES_EACH", 10**18)
    with pytest.raises(Unavailable, match="building 1 programs of the lab needs about 1000000000 GB of disk"):
        build.ensure(["kubectl"])
    assert builds(machine) == 0


def test_an_old_go_is_not_used(machine, monkeypatch):
    executable(machine / "bin" / "go", "#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    fetched = []
    monkeypatch.setattr(build, "_fetch", fetched.append)
    with pytest.raises(Unavailable, match=r"install Go 1\.26 or newer"):
        build.toolchain()
    assert len(fetched) == 1


@pytest.mark.parametrize(
    ("says", "fits"),
    [("Kubernetes v1.36.9", True), ("Kubernetes v1.32.4-dispatcher", False), ("no idea", False)],
)
def test_the_users_own_program_is_used_only_at_our_release(tmp_path, monkeypatch, says, fits):
    own = executable(tmp_path / "assets" / "kube-apiserver", f"#!/bin/sh\necho '{says}'\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(own.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert programs.locate("kube-apiserver") == (own if fits else None)


def test_kubectl_may_be_one_release_off(tmp_path, monkeypatch):
    own = executable(tmp_path / "assets" / "kubectl", "#!/bin/sh\necho 'Client Version: v1.35.1'\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(own.parent))
    assert programs.locate("kubectl") == own
