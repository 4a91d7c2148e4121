"""Who does the work of one command: found when there is enough of it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, TypeVar

from xlagraph.workers.local import Here, processes
from xlagraph.workers.results import results

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Executor
    from types import TracebackType

Item = TypeVar("Item")
Result = TypeVar("Result")
WORTH_IT = 4_000_000
"""Bytes of HLO text below which no processes are started: these take half a second."""


class Crew:
    """This process, as many others as asked for, or a cluster.

    Args:
        jobs: worker processes on this machine.
        scheduler: address of a Dask scheduler, ``""`` for this machine.
    """

    def __init__(self, jobs: int = 1, scheduler: str = "") -> None:
        self._jobs = jobs
        self._scheduler = scheduler
        self._stack = ExitStack()
        self._after = ExitStack()
        self._started: tuple[Executor, int] | None = None

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._after:
            self._stack.__exit__(kind, error, trace)

    def release(self) -> None:
        """Lets the workers go, with their memory; for more work others are started."""
        self._started = None
        self._stack.close()

    def afterwards(self, action: Callable[[], None]) -> None:
        """Has something done when the workers are gone, however they ended."""
        self._after.callback(action)

    def results(
        self, function: Callable[[Item], Result], items: Iterable[Item], size: int
    ) -> Generator[tuple[int, Result], None, None]:
        """Each item's number and result, as they are done; `size`: bytes of HLO text in all."""
        executor, count = self._workers(size)
        with closing(results(executor, count, function, items)) as found:
            yield from found

    def _workers(self, size: int) -> tuple[Executor, int]:
        if self._started is not None:
            return self._started
        if self._scheduler:
            from xlagraph.workers.cluster import cluster

            self._started = self._stack.enter_context(cluster(self._scheduler))
        elif self._jobs > 1 and size >= WORTH_IT:
            self._started = self._stack.enter_context(processes(self._jobs)), self._jobs
        return self._started or (Here(), 1)
