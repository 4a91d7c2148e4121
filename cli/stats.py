"""``xlagraph stats RUN``."""

from __future__ import annotations

import json

import click

from xlagraph.cli.given import OneRun, complete_run, open_run, run_or_newest

HEAD = ("rank", "host", "pid", "steps", "compiles", "graphs", "compiling")
UNREAD = "unread lines"


@click.command(cls=OneRun, epilog="Exit code: 0, or 2 when RUN cannot be read.")
@click.argument("run", type=click.Path(), required=False, shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(run: str | None, *, as_json: bool) -> None:
    """Count the steps, compiles, graphs and seconds of compiling of the captured run RUN, by rank.

    By default the newest run here. `xlagraph explain` says which of the seconds were lost.
    """
    from xlagraph.run.stats import count_run

    counted = count_run(open_run(run_or_newest(run)))
    if as_json:
        click.echo(json.dumps(counted.as_json(), indent=2))
        return
    from xlagraph.message import count, duration
    from xlagraph.terminal.style import printable
    from xlagraph.terminal.table import print_table

    is_damaged = any(row.unread_lines for row in counted.processes)
    rows = [
        (
            *(str(n) for n in (row.rank, row.host, row.pid, row.steps, row.compiles, row.graphs)),
            duration(row.compile_seconds),
            *((str(row.unread_lines),) if is_damaged else ()),
        )
        for row in counted.processes
    ]
    head = (*HEAD, UNREAD) if is_damaged else HEAD
    print_table(head, rows, right=head[2:])
    click.echo(
        f"{count(counted.steps, 'step')}, {count(counted.compiles, 'compile')}, "
        f"{count(counted.graphs, 'distinct graph')}, {duration(counted.compile_seconds)} "
        "compiling in all"
    )
    for note in counted.notes:
        click.echo(printable(f"note: {note}"))
