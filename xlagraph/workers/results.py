"""One function applied to many items, by whatever executor there is."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from xlagraph.errors import XlagraphError
from xlagraph.limits import max_input, set_max_input
from xlagraph.version import tool_version

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Executor, Future

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 3
"""Items that are handed out for each worker: one in work, two on the way."""


class WorkerError(XlagraphError):
    """Work that was handed to others and did not come back."""


@dataclass(frozen=True, slots=True)
class Job(Generic[Item, Result]):
    """A function as a worker runs it: as here, or not at all."""

    function: Callable[[Item], Result]
    max_input: int
    version: str

    def __call__(self, item: Item) -> Result:
        """The function's result.

        Raises:
            WorkerError: the worker has another xlagraph.
        """
        if self.version != tool_version():
            raise WorkerError(f"a worker has xlagraph {tool_version()}, here is {self.version}")
        set_max_input(self.max_input)
        return self.function(item)


def job(function: Callable[[Item], Result]) -> Job[Item, Result]:
    """A function to be run with the limits and the version of this process."""
    return Job(function, max_input(), tool_version())


def results(
    executor: Executor, count: int, function: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[tuple[int, Result], None, None]:
    """Each item's number and result, in the order in which they are done.

    Items are made, and results kept, no faster than `count` workers take them. On any error what
    is still waiting is cancelled.
    """
    waiting: dict[Future[Result], int] = {}
    numbered = enumerate(items)
    done_all = False
    try:
        while waiting or not done_all:
            while not done_all and len(waiting) < count * AHEAD:
                number, item = next(numbered, (-1, None))
                if item is None:
                    done_all = True
                    break
                waiting[executor.submit(job(function), item)] = number
            done = wait(waiting, return_when=FIRST_COMPLETED).done
            for future in sorted(done, key=waiting.__getitem__):
                yield waiting.pop(future), future.result()
    except BrokenExecutor:
        waiting.clear()  # they fail by themselves, just now
        raise
    finally:
        for future in waiting:
            future.cancel()
