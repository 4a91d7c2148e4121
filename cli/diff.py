"""``xlagraph diff A B``."""

from __future__ import annotations

import sys

import click

SPEC_HELP = (
    "A and B each name one module: a file (HLO text or protobuf, also .gz or .zst, or - for "
    "standard input), "
    "FILE:3 or FILE:NAME or FILE:HASH for one of several in a file, DIR:11 for module 11 of an "
    "--xla_dump_to folder, RUN:C for graph C of a captured run."
)


@click.command(epilog=SPEC_HELP + " Exit code: 0 same computation, 1 different, 2 bad input.")
@click.argument("a")
@click.argument("b")
@click.option("--full", is_flag=True, help="Show all evidence and all unexplained instructions.")
@click.option("--stack", is_flag=True, help="Show the Python stack around each cause's line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
def command(a: str, b: str, *, full: bool, stack: bool, as_json: bool) -> None:
    """Say what differs between the modules A and B, and why."""
    from xlagraph.explain import explain_modules
    from xlagraph.inputs import open_module

    first, second = open_module(a), open_module(b)
    explanation = explain_modules(first.module, second.module, first.context, second.context)
    if as_json:
        import json

        from xlagraph.terminal.structured import explanation_json

        click.echo(json.dumps(explanation_json(explanation, a, b), indent=2))
    else:
        from xlagraph.terminal.advice import Shown
        from xlagraph.terminal.explanation import print_explanation
        from xlagraph.terminal.style import console

        print_explanation(console(), explanation, a, b, Shown(full, stack))
    sys.exit(0 if explanation.same else 1)
