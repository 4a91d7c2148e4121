"""``xlagraph streams LOG``, or a profile."""

from __future__ import annotations

import sys

import click


@click.command(
    epilog="Exit code: 0 none found in what was seen (warnings included), 1 found, 2 bad input, "
    "3 order unknown. XLAGRAPH_STREAMS=3-5 python train.py records a log (docs/streams.md)."
)
@click.argument("log", type=click.Path(), metavar="LOG")
@click.option("--full", is_flag=True, help="Show all accesses, and what the same fix removes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
@click.option(
    "--execution-trace",
    default="",
    type=click.Path(),
    help="LOG is a Kineto trace; this is the ExecutionTrace that was taken with it.",
)
@click.option(
    "--memory", default="", type=click.Path(), help="The memory snapshot that was taken with them."
)
def command(log: str, execution_trace: str, memory: str, *, full: bool, as_json: bool) -> None:
    """Say which accesses to CUDA memory nothing orders in the stream log LOG."""
    from xlagraph.streams.analyze import analyze
    from xlagraph.streams.drift import drift_of
    from xlagraph.streams.inputs import open_log

    opened = open_log(log, execution_trace, memory)
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
