"""The ``xlagraph`` command's entry point; everything else is loaded within it."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main() -> None:
    """Runs the command; Ctrl-C at any moment, imports included, is one line."""
    sys.unraisablehook = _interrupt_again
    try:
        from xlagraph.cli.app import run

        run()
    except (Exception, KeyboardInterrupt) as error:
        if not _interrupted(error):
            raise
        sys.stderr.write("xlagraph: interrupted\n")
        sys.exit(INTERRUPTED)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it; Python 3.11 wraps what is raised as a class is made."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupt_again(ignored: UnraisableHookArgs) -> None:
    """Ctrl-C within a callback, where Python drops it, counts a moment later: imports have them."""
    if ignored.exc_type is KeyboardInterrupt and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    else:
        sys.__unraisablehook__(ignored)
