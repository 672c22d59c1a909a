"""The core works without any extra; a command that needs one says which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = ["aiohttp", "uvloop", "cryptography", "jax", "matplotlib", "scipy"]
BARE = f"import sys\nfor name in {EXTRAS}: sys.modules[name] = None\n"
CALL = BARE + "from headway.cli import main\nsys.argv = ['headway', *sys.argv[1:]]\nmain()\n"


def _bare(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CALL, *words], capture_output=True, text=True, timeout=200, check=False
    )


def test_virtual_time_needs_no_extra():
    done = _bare("simulate", str(ROOT / "examples/quickstart.yaml"), "--json")
    assert done.returncode == 0, done.stderr


def test_help_lists_every_command_all_the_same():
    done = _bare("--help")
    assert done.returncode == 0, done.stderr
    assert "lab" in done.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["lab", "status"], "lab"),
        (["schedule"], "kube"),
        (["submit", str(ROOT / "examples/adapt.yaml")], "kube"),
        (["simulate", str(ROOT / "examples/quickstart.yaml"), "--policy", "sia"], "solver"),
        (["up", "--page"], "page"),
        (["run", str(ROOT / "examples/quickstart.yaml"), "--page"], "page"),
    ],
)
def test_a_command_that_needs_an_extra_says_which(words, extra):
    done = _bare(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert f"headway[{extra}]" in done.stderr


def test_only_the_called_command_is_imported():
    code = "import sys\nfrom headway.cli.app import app_for\napp_for(['simulate'])\nprint('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.strip() == "False"
