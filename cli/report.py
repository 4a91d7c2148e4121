"""``xlagraph report``: a run, or a pair of modules, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xlagraph.report.model import Report, ReportOptions


@click.command("report")
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
    help="Size up to which pair views of a run are put on the page; the page says what was cut.",
)
@click.option(
    "--redact", is_flag=True, help="Replace paths, source and names by stable pseudonyms."
)
def command(inputs: tuple[str, ...], output: Path, max_mb: float, redact: bool) -> None:  # noqa: FBT001
    """Writes a captured run, or two modules side by side, as one self-contained HTML page.

    RUN is a run folder. A and B name modules: FILE, FILE:3, FOLDER:11, RUN:4f9b97 (see
    `xlagraph diff --help`).
    """
    if len(inputs) > 2:
        raise click.UsageError("expected a run folder, or two modules")
    from xlagraph.report.model import ReportOptions
    from xlagraph.report.render import render
    from xlagraph.report.write import write_whole

    report = _report(inputs, ReportOptions(redact=redact, max_bytes=int(max_mb * 1_000_000)))
    text = render(report)
    write_whole(output, text)
    click.echo(f"{report.verdict}\n{output}: {len(text.encode()) / 1e6:.1f} MB")
    for cut in report.cuts:
        click.echo(f"left out for size: {cut} (raise --max-mb)")


def _report(inputs: tuple[str, ...], options: ReportOptions) -> Report:
    from xlagraph.report.build import pair_report, run_report

    if len(inputs) == 2:
        from xlagraph.cause import explain_modules
        from xlagraph.hlo import load

        a, b = inputs
        return pair_report(explain_modules(load(a), load(b)), (a, b), options)
    from xlagraph.cause.run_explain import explain_run
    from xlagraph.run.reader import read_run

    return run_report(explain_run(read_run(inputs[0])), options)
