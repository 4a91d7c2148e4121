"""Workers of an existing Dask cluster, as an executor."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xlagraph.version import tool_version
from xlagraph.workers.results import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

CONNECT_SECONDS = 10.0
RETRIES = 3
"""How often a task is given to another worker when the one that had it is lost."""


@contextmanager
def cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """The workers of the scheduler at an address, and how many tasks they do at once.

    Whatever was asked of them and is not done when the block ends is cancelled.

    Raises:
        WorkerError: no scheduler answers, it has no worker, a worker has another xlagraph, or
            tasks were lost again and again.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise WorkerError(f"{address}: needs Dask: pip install distributed") from error
    connect: Any = Client  # untyped
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise WorkerError(f"{address}: no Dask scheduler answers: {error}") from error
    with client:
        _compare_versions(client, address)
        executor = client.get_executor(retries=RETRIES, pure=False)
        try:
            yield executor, sum(client.nthreads().values())
        except KilledWorker as error:
            raise WorkerError(f"{address}: workers were lost again and again: {error}") from error
        finally:
            executor.shutdown(wait=False)


def _compare_versions(client: Any, address: str) -> None:
    """Refuses workers that would explain otherwise, or cannot explain at all."""
    told = client.run(_version, on_error="return")
    if not told:
        raise WorkerError(f"{address}: the scheduler has no workers")
    mine = tool_version()
    others = Counter(
        one if isinstance(one, str) else f"none ({one})" for one in told.values() if one != mine
    )
    if others:
        listed = ", ".join(f"{number} with {version}" for version, number in others.items())
        raise WorkerError(f"{address}: workers have another xlagraph than {mine}: {listed}")


def _version() -> str:
    return tool_version()
