"""``xlagraph streams LOG``."""

from __future__ import annotations

import sys

import click


@click.command(
    epilog="Exit code: 0 none found in what was seen (warnings included), 1 found, 2 bad input, "
    "3 order unknown. docs/streams.md says how to record a log."
)
@click.argument("log", type=click.Path())
@click.option("--full", is_flag=True, help="Show all accesses, and what the same fix removes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
def command(log: str, *, full: bool, as_json: bool) -> None:
    """Say which accesses to CUDA memory nothing orders in the stream log LOG."""
    from xlagraph.streams.analyze import analyze
    from xlagraph.streams.drift import drift_of
    from xlagraph.streams.log import Log

    opened = Log.open(log)
    analysis, drift = analyze(opened), drift_of(opened)
    if as_json:
        import json

        from xlagraph.streams.data import analysis_json

        click.echo(json.dumps(analysis_json(analysis, drift), indent=2))
    else:
        from xlagraph.streams.text import print_analysis
        from xlagraph.terminal.style import console

        print_analysis(console(), analysis, drift, full=full)
    sys.exit(analysis.exit_code)
