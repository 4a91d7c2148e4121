"""The options by which a run is explained faster, shared by the commands that explain one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xlagraph.runs.pairs.work import Means


def means_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``-j``, ``--scheduler`` and ``--no-cache`` to a command."""
    jobs = click.option(
        "-j", "--jobs", type=click.IntRange(min=1), help="Worker processes (default: one a core)."
    )
    scheduler = click.option(
        "--scheduler",
        default="",
        metavar="URL",
        help="Dask scheduler whose workers explain instead, such as tcp://host:8786; RUN must be "
        "where they can read it (docs/scale.md).",
    )
    cache = click.option(
        "--cache/--no-cache",
        "cached",
        default=True,
        help="Keep what was worked out in the run folder, and take it from there (default: yes).",
    )
    return jobs(scheduler(cache(command)))


@contextmanager
def means(jobs: int | None, scheduler: str, *, cached: bool) -> Iterator[Means]:
    """What these options ask for; meanwhile progress is shown, and workers stay."""
    from xlagraph.runs.pairs.work import Means
    from xlagraph.terminal.progress import progress
    from xlagraph.workers.crew import Crew
    from xlagraph.workers.local import cores

    with progress() as told, Crew(jobs or cores(), scheduler) as crew:
        yield Means(crew, cached, told)
