"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from xlagraph.errors import XlagraphError


class WriteError(XlagraphError):
    """The file cannot be written where the user wants it."""


def write_whole(path: Path, text: str) -> None:
    """Writes a file beside its place and moves it there; a failure leaves nothing behind.

    Raises:
        WriteError: the folder is missing or not writable, or the disk is full.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
