"""``xlagraph explain [RUN]``."""

from __future__ import annotations

import json
import sys

import click

from xlagraph.cli.given import OneRun, complete_run, open_run, run_or_newest
from xlagraph.cli.means import means, means_options


@click.command(
    cls=OneRun,
    epilog="Exit code: 0 stable or warm-up only, 1 a problem was found (also between ranks) or "
    "graphs are missing, 2 bad input.",
)
@click.argument("run", type=click.Path(), required=False, shell_complete=complete_run)
@click.option("--full", is_flag=True, help="Show all evidence and all graphs.")
@click.option("--stack", is_flag=True, help="Show the Python stack around each cause's line.")
@means_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
def command(
    run: str | None,
    jobs: int | None,
    scheduler: str,
    *,
    cached: bool,
    full: bool,
    stack: bool,
    as_json: bool,
) -> None:
    """Say why the captured run RUN compiled as often as it did, and whether its ranks agree.

    By default the newest run here.
    """
    from xlagraph.ranks.explain import explain_ranks
    from xlagraph.runs.explain import explain_run
    from xlagraph.runs.neighbours import neighbours_of

    read = open_run(run_or_newest(run))
    with means(jobs, scheduler, cached=cached) as how:
        explained = explain_run(read, how)
        ranks = explain_ranks(explained, how)
        neighbours = neighbours_of(explained, how)
    if as_json:
        from xlagraph.terminal.structured import run_json

        click.echo(json.dumps(run_json(explained, ranks, neighbours), indent=2))
    else:
        from xlagraph.terminal.advice import Shown
        from xlagraph.terminal.ranks import print_ranks
        from xlagraph.terminal.run import print_next, print_run
        from xlagraph.terminal.style import console

        screen = console()
        if ranks:
            print_ranks(screen, ranks, Shown(full, stack))
        print_run(screen, explained, Shown(full, stack), neighbours.notes)
        print_next(screen, explained, neighbours)
    sys.exit(1 if explained.has_problem or (ranks and ranks.has_problem) else 0)
