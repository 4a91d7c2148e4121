"""How far long work has come, on standard error, for who watches: a bar after the first second."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Told = Callable[[str, int, int], None]
    """Is told what is being done, how many are done, and how many there are."""

PATIENCE_SECONDS = 1.0
"""Work that is done by then shows no bar."""


@contextmanager
def progress() -> Iterator[Told]:
    """What is told within the block is shown, if standard error is a terminal; gone behind it."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    began = time.monotonic()
    task = bar.add_task("", total=None)

    def told(what: str, done: int, total: int) -> None:
        bar.update(task, description=what, completed=done, total=total)
        if not bar.live.is_started and time.monotonic() - began >= PATIENCE_SECONDS:
            bar.start()

    try:
        yield told
    finally:
        bar.stop()
