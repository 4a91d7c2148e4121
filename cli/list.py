"""``xlagraph list PATH``."""

from __future__ import annotations

import json

import click

HEAD = ("spec", "form", "module", "graph hash", "stage")


@click.command(epilog="Exit code: 0, or 2 when PATH holds no module.")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
def command(path: str, *, as_json: bool) -> None:
    """List the modules that a file or folder holds, with the spec that opens each."""
    from xlagraph.errors import SpecError
    from xlagraph.inputs import is_run
    from xlagraph.terminal.style import printable
    from xlagraph.terminal.table import print_table

    rows, dropped = _run_rows(path) if path != "-" and is_run(path) else _rows(path)
    if all(row[HEAD.index("form")] == "unknown" for row in rows):
        raise SpecError("; ".join([f"{path}: holds no module", *dropped]))
    if as_json:
        names = [name.replace(" ", "_") for name in HEAD]
        modules = [dict(zip(names, row, strict=True)) for row in rows]
        click.echo(json.dumps({"modules": modules, "dropped": dropped}, indent=2))
        return
    print_table(HEAD, rows, cut=("graph hash",))
    for note in dropped:
        click.echo(printable(f"dropped: {note}"), err=True)


def _rows(path: str) -> tuple[list[tuple[str, ...]], list[str]]:
    from xlagraph.hlo.containers import open_entries

    listing = open_entries(path)
    rows: list[tuple[str, ...]] = [
        (
            f"-:{entry.ordinal}" if path == "-" else entry.spec,
            entry.form,
            entry.module,
            entry.graph_hash,
            entry.stage,
        )
        for entry in listing.entries
    ]
    return rows, [str(dropped) for dropped in listing.dropped]


def _run_rows(path: str) -> tuple[list[tuple[str, ...]], list[str]]:
    from xlagraph.run.reader import read_run
    from xlagraph.runs.explain import graph_order

    rows: list[tuple[str, ...]] = [
        (f"{path}:{letter}", "hlo", record.module, record.digest, "")
        for letter, record, _ in graph_order(read_run(path))
    ]
    return rows, []
