"""Warnings that a hooked call gives rise to, shown at the program's line as without a capture.

A hook's frame stands between the program and what it calls, so Python takes it for the place of a
warning. Nothing is looked at until one is shown.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from xlagraph.capture.host.patches import Patches

_HERE = str(Path(__file__).parents[1])


def install_warned(patches: Patches) -> None:
    """Let warnings at a hook's line be issued anew at the line that called the hook.

    ``warnings._showwarnmsg`` is what both of Python's ways to warn call by name, in 3.10 to 3.13;
    where it is missing, nothing is changed.
    """
    patches.replace(warnings, "_showwarnmsg", _at_the_caller)


def _at_the_caller(show: Callable[[Any], None]) -> Callable[[Any], None]:
    def shown(message: Any) -> None:
        caller = _caller(message.filename) if message.filename.startswith(_HERE) else None
        if caller is None:
            show(message)
            return
        hook, frame = caller
        # Python remembers for each line what was shown there: the hook's has many callers.
        hook.f_globals.pop("__warningregistry__", None)
        names = frame.f_globals
        warnings.warn_explicit(
            message.message,
            message.category,
            frame.f_code.co_filename,
            frame.f_lineno,
            names.get("__name__") or "<unknown>",
            names.setdefault("__warningregistry__", {}),
            source=message.source,
        )

    return shown


def _caller(file: str) -> tuple[FrameType, FrameType] | None:
    """The innermost frame of this file, and the first around it that is no hook's."""
    hook: FrameType | None = sys._getframe(2)  # noqa: SLF001 - no public way
    while hook is not None and hook.f_code.co_filename != file:
        hook = hook.f_back
    frame = hook
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return None if hook is None or frame is None else (hook, frame)
