"""Imported by ``xlagraph_autostart.pth`` at interpreter start when ``XLAGRAPH`` is set.

Imports nothing heavy and touches no folder: what follows happens when, and only if, the
program imports torch_xla. A failure is one line on standard error, never an exception.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING

from xlagraph.capture.imports import when_imported

if TYPE_CHECKING:
    from xlagraph.capture.start import Start

_TARGET = "torch_xla"
_OFF = ("", "0", "no", "false", "off")


class _Autostart:
    """The capture that the environment asks for."""

    def __init__(self) -> None:
        self._begin: Start | None = None

    def before(self) -> None:
        """Choose the folder and set the flags that torch_xla is about to read."""
        from xlagraph.capture.start import Start

        self._begin = Start.from_environment()

    def after(self) -> None:
        """Put the hooks in."""
        if self._begin is not None:
            self._begin.finish()


def arm() -> None:
    """Wait for the import of torch_xla."""
    from xlagraph.capture.folder import PROGRAM_VARIABLE, ensure_job

    job = ensure_job()
    if os.environ.get(PROGRAM_VARIABLE) == str(os.getpid()):
        atexit.register(_tell_if_nothing, job)
    autostart = _Autostart()
    when_imported(_TARGET, autostart.after, autostart.before)


def _tell_if_nothing(job: str) -> None:
    """At the end of what ``xlagraph run`` started: neither it nor its children were captured."""
    if _TARGET in sys.modules:
        return
    from xlagraph.capture.folder import has_recorded
    from xlagraph.capture.patches import say
    from xlagraph.run.remote import is_url

    path = os.environ.get("XLAGRAPH_DIR", "")
    if not is_url(path) and not has_recorded(job, path):
        say(f"nothing captured: the program never imported {_TARGET}")


if os.environ.get("XLAGRAPH", "").strip().lower() not in _OFF:
    arm()
