"""The plugin of kubectl as it is installed, its krew manifest, and the scripts by which shells complete."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from headway import __version__
from headway.cli.cluster import kubectl
from scheduling import SOURCE

ROOT = Path(__file__).parents[2]
KREW = ROOT / "deploy/krew"
COMPLETED = """
source <({program} --completion bash)
COMP_WORDS=({line}) COMP_CWORD={at}
_{function}_completion {program}
echo "${{COMPREPLY[@]}}"
"""


def test_the_programs_that_are_installed_are_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"headway", "kubectl-headway", "kubectl_complete-headway"} <= scripts.keys()
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("words", [(), *((one.__name__,) for one in kubectl.COMMANDS)], ids=" ".join)
def test_help_fits_and_knows_kubectls_own_options(words):
    shown = CliRunner().invoke(
        kubectl.app(), [*words, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}, prog_name="kubectl headway"
    )
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    assert "Usage: kubectl headway" in shown.output
    if words:
        options = {name for one in get_command(kubectl.app()).commands[words[0]].params for name in one.opts}
        assert {"--namespace", "-n", "--context", "--kubeconfig"} <= options


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bin")
    for name, code in (("headway", "headway.cli"), ("kubectl-headway", "headway.cli.cluster.kubectl")):
        run = f"{sys.executable} -c 'from {code} import main; main()'"
        (folder / name).write_text(f'#!/bin/sh\nexec {run} "$@"\n')
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)}


@pytest.mark.parametrize(
    ("program", "line", "found"),
    [
        ("headway", "headway sus", "suspend"),
        ("headway", "headway suspend --names", "--namespace"),
        ("kubectl-headway", "kubectl-headway re", "resume"),
        ("kubectl-headway", "kubectl-headway jobs --all", "--all-namespaces"),
    ],
)
def test_bash_completes_commands_and_options(programs, program, line, found):
    function = program.replace("-", "_")
    script = COMPLETED.format(program=program, function=function, line=line, at=len(line.split()) - 1)
    done = subprocess.run(["bash", "-c", script], env=programs, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (found, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("program", ["headway", "kubectl-headway"])
def test_other_shells_get_a_script_of_the_program(programs, program, shell):
    done = subprocess.run([program, "--completion", shell], env=programs, capture_output=True, text=True, check=False)
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE=complete_{shell}"
    assert done.returncode == 0, done.stderr
    assert variable in done.stdout
    assert program in done.stdout


@pytest.fixture(scope="module")
def krew(tmp_path_factory):
    folder = tmp_path_factory.mktemp("krew")
    subprocess.run([sys.executable, str(KREW / "make.py"), str(folder)], check=True, capture_output=True)
    return folder


def test_the_krew_manifest_has_what_krew_asks_for_and_is_of_this_version(krew):
    text = (krew / "headway.yaml").read_text()
    assert text == (KREW / "headway.yaml").read_text(), "run python deploy/krew/make.py"
    assert "@" not in text.replace("[kube]", "")
    found = yaml.safe_load(text)
    assert (found["apiVersion"], found["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[a-z0-9-]+", found["metadata"]["name"])
    spec = found["spec"]
    assert spec["version"] == f"v{__version__}"
    assert spec["homepage"].startswith("https://")
    assert 0 < len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    assert spec["description"]
    for platform in spec["platforms"]:
        assert platform["uri"].startswith("https://")
        assert platform["uri"].endswith("/kubectl-headway.zip")
        assert f"/v{__version__}/" in platform["uri"]
        (expression,) = platform["selector"]["matchExpressions"]
        assert (expression["key"], set(expression["values"])) == ("os", {"linux", "darwin"})
        with zipfile.ZipFile(krew / "kubectl-headway.zip") as archive:
            assert {one["from"] for one in platform["files"]} == set(archive.namelist())
        assert platform["bin"] in {one["from"] for one in platform["files"]}
        assert platform["sha256"] == hashlib.sha256((krew / "kubectl-headway.zip").read_bytes()).hexdigest()


def test_the_program_that_krew_installs_finds_the_package_or_says_how_to_get_it(krew, tmp_path):
    program = tmp_path / "kubectl-headway"
    with zipfile.ZipFile(krew / "kubectl-headway.zip") as archive:
        info = archive.getinfo("kubectl-headway")
        assert (info.external_attr >> 16) & 0o777 == 0o755
        program.write_bytes(archive.read(info))
    program.chmod(0o755)
    found = {**os.environ, "HEADWAY_PYTHON": sys.executable, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([program, "--version"], env=found, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"kubectl-headway {__version__}\n"), done.stderr
    none = {"PATH": str(tmp_path), "HEADWAY_PYTHON": ""}
    done = subprocess.run(["/bin/sh", program, "jobs"], env=none, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'headway[kube]'" in done.stderr
