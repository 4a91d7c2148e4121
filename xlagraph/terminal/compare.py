"""Two runs beside one another, for the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from xlagraph.runs.two_runs import changes, in_common
from xlagraph.terminal.advice import LABEL, print_verdict
from xlagraph.terminal.structured import SCHEMA_VERSION, group_json, spent_json, verdict_json
from xlagraph.terminal.style import labelled, paragraph, printable

if TYPE_CHECKING:
    from rich.console import Console

    from xlagraph.runs.model import RunExplanation
    from xlagraph.runs.two_runs import Comparison
    from xlagraph.terminal.structured import Json


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Prints the verdict, the causes that went, came and stayed, and the figures."""
    print_verdict(console, comparison.verdict)
    rows = list(changes(comparison))
    for label, said in rows:
        console.print(labelled(label, said, width=LABEL))
    if rows:
        console.print()
    console.print(_figures(comparison))
    console.print(paragraph(in_common(comparison, comparison.new.run.title)))


def _figures(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("run", "steps", "compiles", "beyond warm-up", "lost", "graphs"):
        table.add_column(name, justify="left" if name == "run" else "right", no_wrap=True)
    for run in (comparison.old, comparison.new):
        extra = sum(group.compiles for group in run.problems)
        figures = (run.steps, run.compiles, extra, run.lost, len(run.graphs))
        table.add_row(printable(run.run.title), *map(str, figures))
    return table


def comparison_json(comparison: Comparison) -> Json:
    """The comparison as plain data."""
    return {
        "schema": SCHEMA_VERSION,
        "kind": "compare",
        "verdict": verdict_json(comparison.verdict),
        "worse": comparison.is_worse,
        "saved_seconds": round(comparison.saved_seconds, 6),
        "common_graphs": comparison.common,
        "old": _run(comparison.old),
        "new": _run(comparison.new),
        "gone": [group_json(group) for group in comparison.gone],
        "came": [group_json(group) for group in comparison.came],
        "still": [
            {"old": group_json(was), "new": group_json(now)} for was, now in comparison.still
        ],
    }


def _run(explained: RunExplanation) -> Json:
    return {
        "run": explained.run.name,
        "steps": explained.steps,
        "compiles": explained.compiles,
        "beyond_warm_up": sum(group.compiles for group in explained.problems),
        "lost": spent_json(explained.lost),
        "graphs": [node.digest for node in explained.graphs],
    }
