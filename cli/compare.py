"""``xlagraph compare OLD NEW``."""

from __future__ import annotations

import json
import sys

import click

from xlagraph.cli.given import complete_run, open_run
from xlagraph.cli.means import means, means_options


@click.command(
    epilog="Exit code: 0 NEW is no worse, 1 it has more compiles beyond warm-up than OLD (or as "
    "many, and a cause that OLD has not), 2 bad input."
)
@click.argument("old", type=click.Path(), shell_complete=complete_run)
@click.argument("new", type=click.Path(), shell_complete=complete_run)
@means_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
def command(
    old: str, new: str, jobs: int | None, scheduler: str, *, cached: bool, as_json: bool
) -> None:
    """Say which causes of the captured run OLD are gone in the run NEW, and which came."""
    from xlagraph.runs.explain import explain_run
    from xlagraph.runs.two_runs import compare_runs
    from xlagraph.terminal.compare import comparison_json, print_comparison

    runs = [open_run(path) for path in (old, new)]
    with means(jobs, scheduler, cached=cached) as how:
        comparison = compare_runs(*(explain_run(run, how) for run in runs))
    if as_json:
        click.echo(json.dumps(comparison_json(comparison), indent=2))
    else:
        from xlagraph.terminal.style import console

        print_comparison(console(), comparison)
    sys.exit(1 if comparison.is_worse else 0)
