"""The explanation of a whole run, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from xlagraph.message import count, duration, say
from xlagraph.terminal.style import evidence_line, labelled, paragraph, printable

if TYPE_CHECKING:
    from rich.console import Console

    from xlagraph.runs.model import CauseGroup, RunExplanation

MAX_EVIDENCE = 5
MAX_GRAPHS = 12
"""Rows of the table of graphs; more are counted."""


def print_run(console: Console, explained: RunExplanation, *, full: bool = False) -> None:
    """Prints verdict, causes ranked by seconds, warm-up, and the table of graphs."""
    console.print(paragraph(explained.verdict, style="bold"))
    console.print()
    console.print(
        paragraph(
            f"{count(explained.steps, 'step')}{_training(explained)}, "
            f"{count(explained.compiles, 'compile')} "
            f"({duration(explained.compile_seconds)}), "
            f"{count(len(explained.graphs), 'distinct graph')}."
        )
    )
    if explained.alternating:
        console.print(paragraph(f"The steps alternate between {', '.join(explained.alternating)}."))
    console.print()
    for number, group in enumerate(explained.groups, 1):
        _print_group(console, number, group, explained, full=full)
    _print_graphs(console, explained, full=full)
    for process in explained.run.processes:
        for note in process.notes:
            console.print(labelled("Note:", f"{note.what}: {note.detail}", style="yellow"))


def _training(explained: RunExplanation) -> str:
    first = explained.first_step
    return f" (training from step {first} on)" if first else ""


def print_next(console: Console, explained: RunExplanation) -> None:
    """Prints the commands that show more, each on a line of its own to be copied."""
    compared = [node for node in explained.graphs if node.nearest]
    if not compared:
        return
    letters = {node.digest: node.letter for node in explained.graphs}
    path, last = explained.run.name, compared[-1]
    commands = (
        f"xlagraph diff {path}:{letters[last.nearest]} {path}:{last.letter}",
        f"xlagraph report {path} -o report.html",
    )
    console.print()
    for command in commands:
        console.print(f"Next:  {printable(command)}", soft_wrap=True)


def _print_group(
    console: Console, number: int, group: CauseGroup, explained: RunExplanation, *, full: bool
) -> None:
    letters = {node.digest: node.letter for node in explained.graphs}
    proved = "proved" if group.proved else "not proved"
    kind = "warm-up" if group.expected else group.kind.id
    graphs = ", ".join(letters[d] for d in group.graphs[:8])
    scope = say(" for ", group.compared) if group.proved and group.compared else say()
    head = say(
        f"{number}. {kind}  ({count(group.compiles, 'compile')}, {duration(group.seconds)}, "
        f"{'graph' if len(group.graphs) == 1 else 'graphs'} {graphs}",
        *((f", {proved}", scope) if group.cause else ()),
        ")",
    )
    console.print(paragraph(head, style="dim" if group.expected else "bold cyan"))
    if number > 1 or group.expected:
        console.print(paragraph(say(group.title, "."), 3))
    if group.cause and not group.expected:
        shown = group.cause.evidence if full else group.cause.evidence[:MAX_EVIDENCE]
        for evidence in shown:
            console.print(labelled("-", evidence_line(evidence), 3))
        if len(shown) < len(group.cause.evidence):
            left = len(group.cause.evidence) - len(shown)
            console.print(labelled("-", f"{count(left, 'more line')} (--full shows all)", 3))
        console.print(labelled("Fix:", group.cause.fix, 3))
        for cause in group.further if full else group.further[:MAX_EVIDENCE]:
            console.print(labelled("Also:", say(cause.title, f" ({cause.kind})"), 3))
    console.print()


def _print_graphs(console: Console, explained: RunExplanation, *, full: bool) -> None:
    graphs = explained.graphs
    letters = {node.digest: node.letter for node in graphs}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in (
        ("graph", "left"),
        ("step", "right"),
        ("compile", "right"),
        ("hits", "right"),
        ("instructions", "right"),
        ("nearest", "left"),
        ("call site", "left"),
    ):
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    shown = graphs if full else graphs[:MAX_GRAPHS]
    for node in shown:
        table.add_row(
            node.letter,
            str(node.step),
            duration(node.compile_seconds),
            node.hits_text,
            f"{node.instructions:,}",
            letters.get(node.nearest, "-"),
            printable(node.call_site.short) if node.call_site else "-",
            style="dim" if node.warm_up else "",
        )
    console.print(table)
    if explained.unnamed_hits:
        number = count(explained.unnamed_hits, "hit")
        console.print(paragraph(f"+: or more; which graph {number} ran is not known.", style="dim"))
    if len(shown) < len(graphs):
        console.print(paragraph(f"and {len(graphs) - len(shown)} more graphs (--full shows all)"))
