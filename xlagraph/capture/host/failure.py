"""Which exception ends a program."""

from __future__ import annotations

import sys
import traceback
from typing import Any

_printed = [""]
"""What ended this child of ``multiprocessing``."""


def name_of(error: BaseException | None) -> str:
    """The class of an exception that is a failure; empty for an orderly exit and Ctrl-C."""
    if error is None or isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return ""
    if isinstance(error, SystemExit):
        return "" if error.code in (None, 0) else f"SystemExit: {error.code}"[:80]
    return type(error).__name__


def uncaught() -> str:
    """What has ended the program, asked as the interpreter exits; empty for nothing.

    Python keeps the exception that it printed last; an interactive one goes on behind it. A
    spawned child of ``multiprocessing`` exits in order after it has printed its own.
    """
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return ""
    return name_of(getattr(sys, "last_value", None)) or _printed[0]


def of_child() -> str:
    """What ends a child of ``multiprocessing``, asked by a function that this calls at its end."""
    return name_of(sys.exc_info()[1]) or _printed[0]


def listen_in_child() -> None:
    """See a child's exception as ``multiprocessing`` prints it.

    Since Python 3.13 what is to be done at the end is called only after that.
    """
    original = traceback.print_exc

    def print_exc(*arguments: Any, **options: Any) -> None:
        if sys._getframe(1).f_code.co_name == "_bootstrap":  # noqa: SLF001 - no public way
            _printed[0] = name_of(sys.exc_info()[1])
        original(*arguments, **options)

    traceback.print_exc = print_exc
