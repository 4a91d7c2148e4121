"""Run folders behind fsspec URLs: written through a local spool, records read through a copy.

Object stores cannot append, and a training step must not wait for a network: a process
writes to a local folder, and a background thread puts the files that grew. What was spooled
when a process is killed stays on its host, less than ``PERIOD_SECONDS`` ahead of the URL.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from xlagraph.errors import XlagraphError

PERIOD_SECONDS = 30.0
RECORDS, LINES = "records-", ".jsonl"
"""How the name of a record file begins and ends."""
_JOIN_SECONDS = 60.0
PAUSES_SECONDS = (0.5, 1.0, 2.0)
"""About so long is waited before what could not be put at the end is tried again."""


class RemoteError(XlagraphError):
    """A URL that cannot be reached, or fsspec is not installed."""


def is_url(path: str) -> bool:
    """Whether ``path`` is to be opened by fsspec."""
    return "://" in path


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec filesystem of a URL, and the path within it.

    Raises:
        RemoteError: there is none, or fsspec is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteError(f"{url}: needs fsspec: pip install fsspec") from error
    try:
        # Not cached: a listing made before another process has put its files would be kept.
        files, path = url_to_fs(url, use_listings_cache=False)
    except Exception as error:  # stores raise their own kinds
        raise RemoteError(told(url, error)) from error
    return files, str(path).rstrip("/")


def told(url: str, error: BaseException) -> str:
    """A failure in one line; the first cause of it, which stores wrap, where that says more."""
    while error.__cause__ is not None and not str(error):
        error = error.__cause__
    words = " ".join(str(error).split())
    return f"{url}: {type(error).__name__}" + (f": {words}" if words else "")


@cache
def fetch(url: str) -> Path:
    """Copy the record files at ``url`` to a temporary folder, deleted when the process ends.

    Raises:
        RemoteError: there is no such folder, or it cannot be reached.
    """
    files, path = filesystem(url)
    from xlagraph.run.scratch import scratch_folder  # it has no place on Windows

    folder = scratch_folder()
    try:
        is_there = files.isdir(path)
        found = files.ls(path, detail=False) if is_there else []
        names = [str(one).rstrip("/").rpartition("/")[2] for one in found]
        records = [name for name in names if name.startswith(RECORDS) and name.endswith(LINES)]
        if records:
            files.get([f"{path}/{name}" for name in records], [str(folder / n) for n in records])
    except Exception as error:  # stores raise their own kinds
        raise RemoteError(told(url, error)) from error
    if not is_there:
        raise RemoteError(f"{url}: no such run folder")
    return folder


def before_threads_end(action: Callable[[], None]) -> None:
    """Have something done as the program ends, while threads can still start others.

    What ``atexit`` runs comes too late for s3fs and gcsfs: they look names up in a thread pool.
    """
    import concurrent.futures.thread  # noqa: F401 - what registers last is run first

    threading._register_atexit(action)  # type: ignore[attr-defined]  # noqa: SLF001 - no public way


class Spool:
    """Copies a local folder's files to a URL in the background.

    Raises:
        RemoteError: from the constructor, when the URL cannot be used at all.
    """

    def __init__(self, folder: Path, url: str, tell: Callable[[str], None]) -> None:
        self.folder = folder
        self._url = url
        self._tell = tell
        self._filesystem, self._path = filesystem(url)
        self._sizes: dict[Path, int] = {}
        self._failed = False
        self._pid = os.getpid()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="xlagraph-upload", daemon=True)
        self._thread.start()

    @property
    def place(self) -> str:
        """Where the records are: the URL, or the local folder if they could not be put."""
        return str(self.folder) if self._failed else self._url

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            self._note(self._push())
        for pause in PAUSES_SECONDS:
            why = self._push()
            if not why:
                break
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - all ranks end together
        else:
            why = self._push()
        self._note(why)

    def _push(self) -> str:
        """Put every file that has grown since it was put; why that failed, if it did."""
        for file in sorted(self.folder.rglob("*")):
            name = file.relative_to(self.folder).as_posix()
            if any(part.startswith(".") for part in name.split("/")) or not file.is_file():
                continue
            size = file.stat().st_size
            if self._sizes.get(file) == size:
                continue
            target = f"{self._path}/{name}"
            try:
                if not self._has_graph(target, size):
                    self._filesystem.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
                    self._filesystem.put_file(str(file), target)
            except Exception as error:  # noqa: BLE001 - stores raise their own kinds
                return told(self._url, error)
            self._sizes[file] = size
        return ""

    def _note(self, why: str) -> None:
        if why:
            self._fail(why)
        else:
            self._failed = False

    def _has_graph(self, target: str, size: int) -> bool:
        """Whether another process has put this graph, whole: its name says what is in it."""
        if RECORDS in target.rpartition("/")[2]:
            return False
        try:
            return bool(self._filesystem.info(target)["size"] == size)
        except FileNotFoundError:
            return False

    def _fail(self, why: str) -> None:
        if not self._failed:
            self._tell(f"{why}; the records are in {self.folder}")
        self._failed = True

    def close(self) -> None:
        """Put what is left and delete the spool, unless something could not be put.

        A forked child leaves it to its parent, which puts the child's files as well.
        """
        if os.getpid() != self._pid:
            return
        self._stop.set()
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            self._fail(f"{self._url}: does not answer")
        elif not self._failed:
            shutil.rmtree(self.folder, ignore_errors=True)
