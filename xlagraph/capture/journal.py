"""The journal of a process: made with its record file, deleted when that is complete."""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
from contextlib import suppress
from pathlib import Path

from xlagraph.run.journal import CELL_BYTES, CELLS, FOLDER, MAGIC, PREFIX, journal_path

_MOUNTS = Path("/proc/self/mounts")
_KEPT = 512
"""Journals of killed processes that are left for readers, 6 kB each; older ones are deleted."""


class Journal:
    """Shared memory for stable steps that are not yet in the record file.

    Raises:
        OSError: there is no shared memory, or it is full.
    """

    def __init__(self) -> None:
        if not _is_tmpfs(FOLDER):
            raise OSError(f"{FOLDER} is not a tmpfs")
        _delete_left_over()
        self.token = secrets.token_hex(16)
        self._path = journal_path(self.token)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            # All of it is there from now on: later stores cannot fail for want of room.
            os.posix_fallocate(self._descriptor, 0, CELLS * CELL_BYTES)
            mapped = mmap.mmap(self._descriptor, CELLS * CELL_BYTES)
        except OSError:
            self.close()
            raise
        self.cells = memoryview(mapped).cast("q")
        """To be filled in as ``xlagraph.run.journal`` says; zero where nothing waits."""
        self.cells[0] = MAGIC

    def close(self) -> None:
        """Delete it: what it held was written. Whoever holds ``cells`` may still store there."""
        self._path.unlink(missing_ok=True)
        self.abandon()

    def abandon(self) -> None:
        """In a forked child: it is the parent's."""
        os.close(self._descriptor)


def _is_tmpfs(folder: Path) -> bool:
    mounts = _MOUNTS.read_text().splitlines()
    types = [fs_type for _, where, fs_type, *_ in map(str.split, mounts) if where == str(folder)]
    return types[-1:] == ["tmpfs"]


def _delete_left_over() -> None:
    """Delete all but the newest journals that no process holds any more."""
    dead = []
    for path in FOLDER.glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone by now, or another user's
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                dead.append((os.fstat(descriptor).st_mtime, path))
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)
    for _, path in sorted(dead)[:-_KEPT]:
        with suppress(OSError):
            path.unlink(missing_ok=True)
