"""Temporary folders that do not outlive their process for long, even if it is killed.

All those of a process are in one folder that it keeps locked. The next process that wants one
deletes those that nobody holds any more.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO

PREFIX = "xlagraph-scratch-"
_LOCK = ".lock"
_MIN_AGE_SECONDS = 60.0
"""A folder as young as this may not have been locked yet."""
_roots: dict[int, tuple[Path, IO[bytes]]] = {}
"""By pid, for a forked child has its own: the folder and the lock, held by being open."""


def scratch_folder() -> Path:
    """A new temporary folder; deleted when this process ends, or later if it is killed.

    Raises:
        OSError: it cannot be made.
    """
    pid = os.getpid()
    if pid not in _roots:
        _delete_left_over(Path(tempfile.gettempdir()))
        root = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = (root / _LOCK).open("wb")
        fcntl.flock(lock, fcntl.LOCK_SH)
        _roots[pid] = root, lock
        atexit.register(_delete, pid)
    return Path(tempfile.mkdtemp(dir=_roots[pid][0]))


def _delete(pid: int) -> None:
    if pid == os.getpid():  # a forked child has its parent's exit functions
        root, lock = _roots.pop(pid)
        shutil.rmtree(root, ignore_errors=True)
        lock.close()


def _delete_left_over(parent: Path) -> None:
    for root in parent.glob(f"{PREFIX}*"):
        try:
            if time.time() - root.stat().st_mtime < _MIN_AGE_SECONDS:
                continue
            with (root / _LOCK).open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # held, or not ours to delete
            continue
        shutil.rmtree(root, ignore_errors=True)
