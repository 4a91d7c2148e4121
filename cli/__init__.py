"""The ``xlagraph`` command's entry point; everything else is loaded within it."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main() -> None:
    """Runs the command; Ctrl-C at any moment, imports included, is one line."""
    try:
        from xlagraph.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("xlagraph: interrupted\n")
        sys.exit(INTERRUPTED)
