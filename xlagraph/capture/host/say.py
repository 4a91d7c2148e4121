"""One line to the user, which may never hurt the program that is captured."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable


def say(line: str) -> None:
    """A line on standard error; nothing happens where it cannot be written."""
    try:
        stream = sys.stderr
        text = f"xlagraph: {line}".replace("\n", " ") + "\n"
        if type(stream) is io.TextIOWrapper:
            # Past its buffer: what a full disk does not take would make the last flush fail,
            # and with it the program's exit status.
            stream.flush()
            os.write(stream.fileno(), text.encode(stream.encoding, "backslashreplace"))
        elif stream is not None:
            stream.write(text)
            stream.flush()
    except Exception:  # noqa: BLE001 - a full disk, a closed pipe, half a stream: whom to tell?
        return


def harmless(what: str, action: Callable[[], None]) -> None:
    """Do something at the border to the program: of an exception one line is said."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
        say(f"{what}: {type(error).__name__}: {error}")
