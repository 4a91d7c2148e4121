"""Progress on standard error, for whatever takes longer than a second."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.progress import Progress

    from xlagraph.progress import Track

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds before anything is shown."""


class _Shown:
    """A `xlagraph.progress.Track` that draws a bar."""

    def __init__(self, progress: Progress):
        self._progress = progress

    def __call__(self, items: Sequence[T], what: str) -> Iterable[T]:
        task = self._progress.add_task(what, total=len(items))
        for item in items:
            yield item
            self._progress.advance(task)
        self._progress.remove_task(task)


@contextmanager
def shown(what: str) -> Iterator[Track]:
    """Shows how far the block is, once it takes long and if somebody watches standard error.

    `what`: what is done as long as nothing more specific is tracked.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    progress = Progress(*columns, TimeElapsedColumn(), console=screen, transient=True)
    progress.disable = not screen.is_terminal
    progress.add_task(what, total=None)
    timer = Timer(PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield _Shown(progress)
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
