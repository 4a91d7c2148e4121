"""Run folders behind fsspec URLs: written through a local spool, read through a local copy.

Object stores cannot append, and a training step must not wait for a network: a process
writes to a local folder, and a background thread puts the files that grew. What was spooled
when a process is killed stays on its host, less than ``PERIOD_SECONDS`` ahead of the URL.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xlagraph.errors import XlagraphError

PERIOD_SECONDS = 30.0
_JOIN_SECONDS = 60.0


class RemoteError(XlagraphError):
    """A URL that cannot be reached, or fsspec is not installed."""


def is_url(path: str) -> bool:
    """Whether ``path`` is to be opened by fsspec."""
    return "://" in path


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteError(f"{url}: needs fsspec: pip install 'xlagraph[remote]'") from error
    try:
        filesystem, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise RemoteError(f"{url}: {error}") from error
    return filesystem, str(path)


def fetch(url: str) -> Path:
    """Copy the folder at ``url`` to a temporary one, deleted when the process ends.

    Raises:
        RemoteError: there is no such folder, or it cannot be reached.
    """
    filesystem, path = _filesystem(url)
    from xlagraph.run.scratch import scratch_folder  # it has no place on Windows

    folder = scratch_folder()
    try:
        if not filesystem.isdir(path):
            raise RemoteError(f"{url}: no such run folder")
        filesystem.get(path.rstrip("/") + "/", str(folder), recursive=True)
    except OSError as error:
        raise RemoteError(f"{url}: {error}") from error
    return folder


class Spool:
    """Copies a local folder's files to a URL in the background.

    Raises:
        RemoteError: from the constructor, when the URL cannot be used at all.
    """

    def __init__(self, folder: Path, url: str, tell: Callable[[str], None]) -> None:
        self.folder = folder
        self._url = url
        self._tell = tell
        self._filesystem, self._path = _filesystem(url)
        self._sizes: dict[Path, int] = {}
        self._failed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="xlagraph-upload", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            self._push()

    def _push(self) -> None:
        """Put every file that has grown since it was put."""
        for file in sorted(self.folder.rglob("*")):
            name = file.relative_to(self.folder).as_posix()
            if any(part.startswith(".") for part in name.split("/")) or not file.is_file():
                continue
            size = file.stat().st_size
            if self._sizes.get(file) == size:
                continue
            target = f"{self._path.rstrip('/')}/{name}"
            try:
                self._filesystem.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
                self._filesystem.put_file(str(file), target)
            except Exception as error:  # noqa: BLE001 - stores raise their own kinds
                self._fail(error)
                return
            self._sizes[file] = size
        self._failed = False

    def _fail(self, error: Exception) -> None:
        if not self._failed:
            self._tell(f"{self._url}: {error}; records stay in {self.folder}")
        self._failed = True

    def close(self) -> None:
        """Put what is left and delete the spool, unless something could not be put."""
        self._stop.set()
        self._thread.join(_JOIN_SECONDS)
        self._push()
        if not self._failed:
            shutil.rmtree(self.folder, ignore_errors=True)
