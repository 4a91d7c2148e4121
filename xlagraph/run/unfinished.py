"""What a process was compiling when it was killed: XLA's own dump has it, on that host."""

from __future__ import annotations

import os
import socket
from pathlib import Path

PREFIX = "xlagraph-dump-"
"""Begins the name of every folder that a capture makes for XLA's dump."""
MODULE = "module_*.before_optimizations.*"
"""What XLA calls a module that it was given."""


def unfinished(dump: str, host: str) -> tuple[Path, ...]:
    """The modules in a folder that a record file names, each once; none on another host.

    What stands in record files is not trusted: a folder that capture would not have made, or of
    another user, is not looked into.
    """
    folder = Path(dump)
    if host != socket.gethostname() or not folder.parent.name.startswith(PREFIX):
        return ()
    try:
        if folder.parent.lstat().st_uid != os.getuid():
            return ()
        found = sorted(folder.glob(MODULE))
    except (OSError, AttributeError):  # gone, or a system without users
        return ()
    texts = {path.with_suffix("") for path in found if path.suffix == ".txt"}
    return tuple(path for path in found if path.suffix == ".txt" or _stem(path) not in texts)


def _stem(path: Path) -> Path:
    """What the forms of one module share: ``NAME.before_optimizations``."""
    return path.with_name(path.name.partition(".hlo.pb")[0])
