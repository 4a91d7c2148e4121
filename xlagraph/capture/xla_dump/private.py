"""The private folder that XLA dumps into: this process's alone, and nobody else's."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from xlagraph.capture.host.inherited import MARK
from xlagraph.run.unfinished import MODULE, PREFIX

MIN_FREE = 64 << 20
"""Bytes that are to be free where XLA dumps; a large model's compile writes some 10 MB."""
_KEPT = 8
"""Folders of killed processes that show what was compiling; older ones are deleted."""
_MIN_AGE_SECONDS = 60.0
"""A folder as young as this may not have been locked yet."""
_MAX_DESCRIPTOR = 700
_ASIDE = "children"
"""A folder for what forked children compile before capture sees them."""


class PrivateFolder:
    """A new folder for temporary files, locked while its process runs.

    What is told to XLA is no path to it but the name of a descriptor
    (``/proc/self/fd/700/xlagraph-dump``): another process that inherits the variable cannot
    write into it, a forked child gets a folder of its own under the same name, and so does this
    process when the disk is full.

    Raises:
        OSError: there is no room for temporary files.
    """

    def __init__(self) -> None:
        self._parents = _parents()
        self.path, descriptor = self._make()
        self._descriptor = _high(descriptor)
        own = Path(f"/proc/self/fd/{self._descriptor}")
        self.visible = own if own.is_dir() else self.path
        """The folder as XLA and torch_xla are told."""

    @property
    def modules(self) -> Path:
        """Where XLA writes; made by it when it first does."""
        return self.path / MARK.strip("/")

    def is_usable(self) -> bool:
        """Whether it is still there, and more can be written."""
        with suppress(OSError):
            return os.fstat(self._descriptor).st_nlink > 0 and _free(self.path) >= MIN_FREE
        return False

    def leave_full_disk(self) -> None:
        """Take a new folder if there is no more room in this one, and there is elsewhere.

        Raises:
            OSError: the new folder cannot be made.
        """
        if not self.is_usable() and self._roomy():
            self.move()

    def move(self, *, keep: bool = False) -> None:
        """Take a new folder, on another disk if this one is full; XLA's path leads there now.

        ``keep``: the old one is not this process's to delete.

        Raises:
            OSError: there is room nowhere.
        """
        old = self.path
        self.path, descriptor = self._make()
        self._point_to(descriptor)
        if not keep:
            shutil.rmtree(old, ignore_errors=True)

    def step_aside(self) -> None:
        """In a forked child: leave the folder to the parent, at the cost of two system calls.

        Most children compile nothing. What one does all the same goes where nobody reads it,
        and the parent deletes it.

        Raises:
            OSError: the parent's folder is gone.
        """
        self._point_to(_open_folder(self.path / _ASIDE))

    def _point_to(self, descriptor: int) -> None:
        os.dup2(descriptor, self._descriptor, inheritable=False)
        os.close(descriptor)

    def remove(self) -> None:
        """Delete it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _roomy(self) -> list[Path]:
        """The folders for temporary files on whose disks there is room."""
        return [one for one in self._parents if _free(one) >= MIN_FREE]

    def _make(self) -> tuple[Path, int]:
        """A new folder where there is room, locked, and its descriptor."""
        parent = (self._roomy() or self._parents)[0]
        _delete_left_over(parent)
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        (path / _ASIDE).mkdir()
        descriptor = _open_folder(path)
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # systemd's cleaner of /tmp honours it, too
        return path, descriptor


def _parents() -> list[Path]:
    places = [tempfile.gettempdir(), "/var/tmp", "/dev/shm"]  # noqa: S108 - mkdtemp is safe there
    return [Path(one) for one in dict.fromkeys(places) if os.access(one, os.W_OK | os.X_OK)]


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _free(path: Path) -> int:
    with suppress(OSError):
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize
    return 0


def _high(descriptor: int) -> int:
    """The same under a number that no other code comes upon by opening files."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    least = min(_MAX_DESCRIPTOR, limit * 3 // 4) if limit > 0 else _MAX_DESCRIPTOR
    try:
        number = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:
        return descriptor
    os.close(descriptor)
    return number


def _delete_left_over(parent: Path) -> None:
    """Delete what killed processes left, but for the newest that were compiling."""
    compiling = []
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone by now, or another user's
            descriptor = _open_folder(path)
            try:
                made = os.fstat(descriptor).st_mtime
                if time.time() - made < _MIN_AGE_SECONDS:
                    continue
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(descriptor)
            if any(path.glob(f"{MARK.strip('/')}/{MODULE}")):
                compiling.append((made, path))
            else:
                shutil.rmtree(path, ignore_errors=True)
    for _, path in sorted(compiling)[:-_KEPT]:
        shutil.rmtree(path, ignore_errors=True)
