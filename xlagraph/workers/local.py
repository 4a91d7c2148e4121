"""Worker processes on this machine, and this process as the only worker."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xlagraph
from xlagraph.workers.results import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess

PRELOADED = "xlagraph.runs.pairs.tasks"
"""Imported once, by the process that the workers are forked from."""

COLLECT_EVERY = 16
"""Items after which what cycles hold is given back."""


def cores() -> int:
    """The processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


class Here(Executor):
    """Does what it is given at once, in this thread."""

    def __init__(self) -> None:
        self._done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The result, which is there."""
        self._done += 1
        if self._done % COLLECT_EVERY == 0 and not gc.isenabled():
            gc.collect()  # commands run without; a large pair leaves 2 MB in cycles
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised again by result()
            future.set_exception(error)
        return future


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """So many worker processes; however the block ends, none of them is left.

    Raises:
        WorkerError: one of them was killed.
    """
    before = set(multiprocessing.active_children())
    root = str(Path(xlagraph.__file__).resolve().parents[1])
    sys.path.insert(0, root)  # workers look where this process does, and find this package first
    pool = ProcessPoolExecutor(count, mp_context=_context(), initializer=_begin)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise WorkerError(
            "a worker process was killed, perhaps for want of memory: use fewer (-j)"
        ) from error
    except BaseException:
        # Its thread has to forget what is cancelled before it learns that workers are gone, or it
        # fails; and it forgets only as long as the pool is there.
        thread = getattr(pool, "_executor_manager_thread", None)
        pool.shutdown(wait=False, cancel_futures=True)
        _kill(set(multiprocessing.active_children()) - before)
        if thread:
            thread.join()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        sys.path.remove(root)


def _context() -> multiprocessing.context.BaseContext:
    """Workers begin as a clean process: this one may have threads, which no fork survives."""
    methods = multiprocessing.get_all_start_methods()
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED] if _is_found_here() else [])
    return context


def _is_found_here() -> bool:
    """Whether the server that workers are forked from would import this very package.

    Until Python 3.13 it looks into the current folder first, where another one may stand, as in
    a checkout; workers themselves look where this process does.
    """
    here = Path(xlagraph.__name__)
    return not here.exists() or here.samefile(Path(xlagraph.__file__).parent)


def _kill(children: set[BaseProcess]) -> None:
    for child in children:
        child.kill()


def _begin() -> None:
    """In a worker: Ctrl-C is the parent's to answer, and a parent that is gone ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, name="xlagraph-parent", daemon=True).start()
