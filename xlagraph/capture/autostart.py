"""Imported by ``xlagraph_autostart.pth`` at interpreter start when ``XLAGRAPH`` is set.

Imports nothing that the interpreter has not loaded by itself and touches no folder: what follows
happens when, and only if, the program imports torch_xla. A failure is one line on standard error,
never an exception.
"""

from __future__ import annotations

import atexit
import os
import sys

from xlagraph.capture.host.imports import when_imported
from xlagraph.capture.host.inherited import OFF, PROGRAM_VARIABLE, drop_dump, ensure_job

TYPE_CHECKING = False  # typing's own costs its import
if TYPE_CHECKING:
    from xlagraph.capture.start import Start

_TARGET = "torch_xla"


class _Autostart:
    """The capture that the environment asks for."""

    def __init__(self) -> None:
        self._start: Start | None = None
        self._was_told = False
        """Whether it was begun, or why not was said."""

    def before(self) -> None:
        """Choose the folder."""
        self._was_told = True
        from xlagraph.capture.start import Start

        self._start = Start.from_environment()

    def after(self) -> None:
        """Put the hooks in."""
        if self._start is not None:
            self._start.finish()

    def at_exit(self) -> None:
        """Say so if nothing was captured, where something might have been."""
        if self._was_told:
            return
        if _TARGET in sys.modules:
            from xlagraph.capture.host.say import say

            say(
                f"nothing captured: {_TARGET} was imported past the import hook, by a finder that "
                "stands before it in sys.meta_path; import it at the program's start"
            )
        elif os.environ.get(PROGRAM_VARIABLE) == str(os.getpid()):
            from xlagraph.capture.host.folder import tell_if_nothing

            tell_if_nothing(_TARGET)


def arm() -> None:
    """Wait for the import of torch_xla."""
    ensure_job()
    autostart = _Autostart()
    atexit.register(autostart.at_exit)
    when_imported(_TARGET, autostart.after, autostart.before)


drop_dump()
if os.environ.get("XLAGRAPH", "").strip().lower() not in OFF:
    arm()
