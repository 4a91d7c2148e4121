"""``xlagraph cause [KIND]``."""

from __future__ import annotations

import click

from xlagraph.cli.given import complete_kind


@click.command(epilog="Exit code: 0, or 2 when there is no such kind.")
@click.argument("kind", required=False, shell_complete=complete_kind)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
def command(kind: str | None, *, as_json: bool) -> None:
    """Explain a KIND of cause, such as bucket-carry; without one list all kinds."""
    from xlagraph.catalogue import by_section, find_kind

    if as_json:
        import json

        from xlagraph.terminal.structured import kind_json

        shown = [find_kind(kind)] if kind else [k for found in by_section().values() for k in found]
        click.echo(json.dumps([kind_json(one) for one in shown], indent=2))
        return
    from xlagraph.terminal.causes import print_kind, print_kinds
    from xlagraph.terminal.style import console

    if kind:
        print_kind(console(), find_kind(kind))
    else:
        print_kinds(console(), by_section())
