"""``xlagraph stats RUN``."""

from __future__ import annotations

import json

import click


@click.command(epilog="Exit code: 0, or 2 when RUN cannot be read.")
@click.argument("run", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(run: str, *, as_json: bool) -> None:
    """Count the steps, compiles, graphs and seconds lost of the captured run RUN, by rank."""
    from xlagraph.run.reader import read_run
    from xlagraph.run.stats import count_run

    counted = count_run(read_run(run))
    if as_json:
        click.echo(json.dumps(counted.as_json(), indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    from xlagraph.terminal.style import printable

    table = Table("rank", "host", "pid", "steps", "compiles", "graphs", "compile s", "unread lines")
    for row in counted.processes:
        table.add_row(*(printable(str(cell)) for cell in row.cells()))
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print(
        f"{counted.steps} steps, {counted.compiles} compiles, {counted.graphs} distinct graphs, "
        f"{counted.compile_seconds:.1f} s compiling over all processes"
    )
    for note in counted.notes:
        console.print(printable(f"note: {note}"))
