"""``xlagraph report``: a run, or a pair of modules, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xlagraph.cli.given import complete_run, open_run, run_or_newest
from xlagraph.cli.means import means, means_options

if TYPE_CHECKING:
    from xlagraph.report.model import Report, ReportOptions
    from xlagraph.report.stream_model import StreamReport
    from xlagraph.runs.pairs.work import Means


@click.command(
    epilog="A and B name modules as for `xlagraph diff`, LOG and the files with it as for "
    "`xlagraph streams`. Exit code: 0 written, 2 bad input."
)
@click.argument(
    "inputs", nargs=-1, metavar="[RUN | OLD NEW | A B | LOG]", shell_complete=complete_run
)
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
    default=1.5,
    show_default=True,
    help="Size up to which a run's pair views, or a log's operators, go on the page; the page "
    "says what was left out.",
)
@click.option("--redact", is_flag=True, help="Replace paths and names by stable pseudonyms.")
@means_options
@click.option("--execution-trace", default="", type=click.Path(), help="As for `xlagraph streams`.")
@click.option("--memory", default="", type=click.Path(), help="As for `xlagraph streams`.")
def command(
    inputs: tuple[str, ...],
    execution_trace: str,
    memory: str,
    jobs: int | None,
    scheduler: str,
    *,
    cached: bool,
    output: Path,
    max_mb: float,
    redact: bool,
) -> None:
    """Write a captured run, two of them, two modules, or a stream log as one HTML page.

    Without argument: the newest run here. OLD and NEW: the page of NEW, and what changed.
    """
    if len(inputs) > 2:
        raise click.UsageError("expected a run folder, two of them, two modules, or a stream log")
    from xlagraph.output import write_whole
    from xlagraph.report.model import ReportOptions
    from xlagraph.report.render import plain, render, render_streams
    from xlagraph.streams.inputs import is_log
    from xlagraph.terminal.style import console, paragraph

    options = ReportOptions(redact=redact, max_bytes=int(max_mb * 1_000_000))
    inputs = inputs or (run_or_newest(None),)
    report: Report | StreamReport
    if execution_trace or memory or (len(inputs) == 1 and is_log(inputs[0])):
        if len(inputs) != 1:
            raise click.UsageError("--execution-trace and --memory go with one trace")
        report = _stream_report(inputs[0], execution_trace, memory, options)
        text = render_streams(report)
    else:
        with means(jobs, scheduler, cached=cached) as how:
            report = _report(inputs, options, how)
            how.progress("writing the page", 0, 1)
            text = render(report)
    write_whole(output, text)
    shown = console()
    for line in report.headline:
        shown.print(paragraph(plain(line)))
    click.echo(f"{output}: {len(text.encode()) / 1e6:.1f} MB, to be opened in a browser")
    for cut in report.cuts:
        click.echo(f"left out for size: {cut} (raise --max-mb)")


def _stream_report(
    path: str, execution_trace: str, memory: str, options: ReportOptions
) -> StreamReport:
    from xlagraph.report.stream_page import stream_report
    from xlagraph.streams.analyze import analyze
    from xlagraph.streams.drift import drift_of
    from xlagraph.streams.inputs import open_log
    from xlagraph.streams.lanes import lanes_of

    log = open_log(path, execution_trace, memory)
    analysis = analyze(log)
    return stream_report(analysis, lanes_of(log, analysis.findings), drift_of(log), options)


def _report(inputs: tuple[str, ...], options: ReportOptions, how: Means) -> Report:
    from xlagraph.inputs import is_run
    from xlagraph.report.build import pair_report, run_report
    from xlagraph.runs.explain import explain_run
    from xlagraph.runs.neighbours import neighbours_of
    from xlagraph.runs.two_runs import compare_runs

    if len(inputs) == 2 and not all(map(is_run, inputs)):
        from xlagraph.explain import explain_modules
        from xlagraph.inputs import open_module

        a, b = open_module(inputs[0]), open_module(inputs[1])
        explanation = explain_modules(a.module, b.module, a.context, b.context)
        return pair_report(explanation, (a.spec, b.spec), (a.context, b.context), options)
    from xlagraph.ranks.explain import explain_ranks

    runs = [explain_run(run, how) for run in [open_run(path) for path in inputs]]
    ranks = explain_ranks(runs[-1], how)
    notes = neighbours_of(runs[0], how).notes if len(runs) == 1 else ()
    how.crew.release()  # the page is made here
    comparison = compare_runs(*runs) if len(runs) == 2 else None
    return run_report(runs[-1], options, ranks, notes, comparison)
