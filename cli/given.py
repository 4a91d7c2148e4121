"""What commands do alike with what they are given."""

from __future__ import annotations

from pathlib import Path

import click


def run_or_newest(run: str | None) -> str:
    """The run that was named, else the newest in this folder, which is told.

    Raises:
        RunError: there is none.
    """
    if run:
        return run
    from xlagraph.run.recent import newest_run

    found = str(newest_run(Path()))
    click.echo(f"The newest run here: {found}", err=True)
    return found
