"""``xlagraph list PATH``."""

from __future__ import annotations

import click


@click.command()
@click.argument("path")
def command(path: str) -> None:
    """List the modules that a file or folder holds, with the spec that opens each."""
    from rich.table import Table

    from xlagraph.hlo.containers import open_entries
    from xlagraph.terminal.style import console, paragraph, printable

    listing = open_entries(path)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("spec", "kind", "module", "graph hash", "stage"):
        table.add_column(name, overflow="fold")
    for entry in listing.entries:
        table.add_row(
            printable(entry.spec),
            entry.kind,
            printable(entry.module),
            printable(entry.graph_hash),
            entry.stage,
        )
    screen = console()
    screen.print(table)
    for dropped in listing.dropped:
        screen.print(paragraph(f"dropped: {dropped}", style="yellow"))
