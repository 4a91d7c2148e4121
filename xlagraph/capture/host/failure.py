"""Which exception ends a program."""

from __future__ import annotations

import sys


def name_of(error: BaseException | None) -> str:
    """The class of an exception that is a failure; empty for an orderly exit and Ctrl-C."""
    if error is None or isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return ""
    if isinstance(error, SystemExit):
        return "" if error.code in (None, 0) else f"SystemExit: {error.code}"[:80]
    return type(error).__name__


def uncaught() -> str:
    """What has ended the main program, asked as the interpreter exits; empty for nothing.

    Python keeps the exception that it printed last; an interactive one goes on behind it.
    """
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return ""
    return name_of(getattr(sys, "last_value", None))
