"""The command line: reads settings, wires objects, prints. Nothing imports it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

EXTRA_OF = {"aiohttp": "kube", "uvloop": "kube", "cryptography": "lab", "matplotlib": "train"}
"""Third-party package to the extra that installs it."""


def main() -> None:
    """Runs a command."""
    from headway.cli.app import app_for
    from headway.cli.screen.completion import typed

    with ended_well():
        app_for(typed("headway", sys.argv[1:]))(prog_name="headway")


@contextmanager
def ended_well() -> Iterator[None]:
    """A user's mistake ends in one sentence and exit code 2; a traceback is always our bug."""
    from headway.cli.screen.say import say
    from headway.core.errors import UserError

    try:
        yield
    except UserError as error:
        say(f"headway: {error}", error=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        extra = EXTRA_OF.get(error.name or "")
        if extra is None:
            raise
        say(f"headway: this needs {error.name}: pip install 'headway[{extra}]'", error=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
