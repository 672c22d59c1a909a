"""The command line: reads settings, wires objects, prints. Nothing imports it."""

from __future__ import annotations

import sys


def main() -> None:
    """A user's mistake ends in one sentence and exit code 2; a traceback is always a bug of ours."""
    from headway.cli.app import app
    from headway.core.errors import UserError

    try:
        app()
    except UserError as error:
        print(f"headway: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
