"""The command line: reads settings, wires objects, prints. Nothing imports it."""

from __future__ import annotations

import sys

EXTRA_OF = {"aiohttp": "kube", "uvloop": "kube", "cryptography": "lab", "matplotlib": "train"}
"""Third-party package to the extra that installs it."""


def main() -> None:
    """Runs a command. A user's mistake ends in one sentence and exit code 2; a traceback is always our bug."""
    from headway.cli.app import app_for
    from headway.core.errors import UserError
    from headway.core.text import clean

    try:
        app_for(sys.argv[1:])()
    except UserError as error:
        print(f"headway: {clean(str(error))}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        extra = EXTRA_OF.get(error.name or "")
        if extra is None:
            raise
        print(f"headway: this needs {error.name}: pip install 'headway[{extra}]'", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
