"""``xlagraph report``: a run, or a pair of modules, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xlagraph.report.model import Report, ReportOptions


@click.command(
    epilog="A and B name modules as for `xlagraph diff`. Exit code: 0 written, 2 bad input."
)
@click.argument("inputs", nargs=-1, required=True, metavar="RUN | A B")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--max-mb",
    type=click.FloatRange(min=0.5),
    default=10.0,
    show_default=True,
    help="Size up to which a run's pair views go on the page; the page says what was left out.",
)
@click.option("--redact", is_flag=True, help="Replace paths and names by stable pseudonyms.")
def command(inputs: tuple[str, ...], *, output: Path, max_mb: float, redact: bool) -> None:
    """Write a captured run, or two modules side by side, as one HTML page."""
    if len(inputs) > 2:
        raise click.UsageError("expected a run folder, or two modules")
    from xlagraph.output import write_whole
    from xlagraph.report.model import ReportOptions
    from xlagraph.report.render import plain, render

    report = _report(inputs, ReportOptions(redact=redact, max_bytes=int(max_mb * 1_000_000)))
    text = render(report)
    write_whole(output, text)
    click.echo(f"{plain(report.verdict)}\n{output}: {len(text.encode()) / 1e6:.1f} MB")
    for cut in report.cuts:
        click.echo(f"left out for size: {cut} (raise --max-mb)")


def _report(inputs: tuple[str, ...], options: ReportOptions) -> Report:
    from xlagraph.report.build import pair_report, run_report

    if len(inputs) == 2:
        from xlagraph.explain import explain_modules
        from xlagraph.inputs import open_module

        a, b = open_module(inputs[0]), open_module(inputs[1])
        explanation = explain_modules(a.module, b.module, a.context, b.context)
        return pair_report(explanation, (a.spec, b.spec), (a.context, b.context), options)
    from xlagraph.run.reader import read_run
    from xlagraph.runs.explain import explain_run

    return run_report(explain_run(read_run(inputs[0])), options)
