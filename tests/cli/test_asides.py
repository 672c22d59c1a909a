"""What libraries print on C's standard output is no part of a command's JSON."""

from __future__ import annotations

import subprocess
import sys


def test_what_the_solver_prints_is_no_part_of_the_output():
    script = (
        "import ctypes\nfrom headway.cli.screen.asides import asides\nprint('before')\n"
        "with asides():\n    ctypes.CDLL(None).puts(b'tmpSolver.run();')\nprint('after')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "before\nafter\n"
    assert "tmpSolver" in done.stderr
