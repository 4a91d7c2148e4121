"""The explanation of a whole run, for the terminal."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from rich.table import Table

from xlagraph.message import EMPTY, count, duration, join, say, without_stop, words
from xlagraph.runs.steps.alternation import cycle_words
from xlagraph.terminal.advice import (
    INDENT,
    LABEL,
    Shown,
    print_advice,
    print_evidence,
    print_place,
    print_verdict,
)
from xlagraph.terminal.style import fitted, labelled, paragraph, printable

if TYPE_CHECKING:
    from rich.console import Console

    from xlagraph.message import Message
    from xlagraph.runs.model import CauseGroup, RunExplanation
    from xlagraph.runs.neighbours import Neighbours

MAX_EVIDENCE = 3
MAX_GRAPHS = 12
"""Rows of the table of graphs; more are counted."""
COLUMNS = ("graph", "step", "compile", "hits", "instructions", "like", "step ends at")
NUMBERS = frozenset(COLUMNS[1:5])
WIDER = 8
"""Columns that cells may take beyond the headings of their columns."""
SUMMARY = Shown()


def print_run(
    console: Console,
    explained: RunExplanation,
    shown: Shown = SUMMARY,
    notes: tuple[Message, ...] = (),
) -> None:
    """Prints the verdict, the causes ranked by seconds, warm-up, and the table of graphs.

    `notes`: what other runs say, to be read with the verdict.
    """
    verdict = explained.verdict
    print_verdict(console, replace(verdict, notes=(*verdict.notes, *notes)))
    console.print(
        paragraph(
            f"{count(explained.steps, 'step')}{_training(explained)}, "
            f"{count(explained.compiles, 'compile')} "
            f"({explained.spent}), "
            f"{count(len(explained.graphs), 'distinct graph')}{_letters(explained)}."
        )
    )
    if explained.alternating:
        console.print(paragraph(cycle_words(explained.alternating, explained.alternating_since)))
    console.print()
    for number, group in enumerate(explained.groups, 1):
        _print_group(console, number, group, explained, shown)
    _print_graphs(console, explained, shown)
    for process in explained.run.processes:
        for note in process.notes:
            console.print(labelled("Note:", f"{note.what}: {note.detail}", style="yellow"))


def _letters(explained: RunExplanation) -> str:
    """What the letters are that all else speaks of."""
    graphs = explained.graphs
    if len(graphs) < 2:
        return ""
    between = " to" if len(graphs) > 2 else " and"
    return f" (called {graphs[0].letter}{between} {graphs[-1].letter}, in order)"


def _training(explained: RunExplanation) -> str:
    first = explained.first_step
    return f" (training from step {first} on)" if first else ""


def print_next(console: Console, explained: RunExplanation, neighbours: Neighbours) -> None:
    """Prints the commands that show more, each on a line of its own to be copied."""
    path, last = quote(explained.run.name), next(iter(explained.problems), None)
    commands = [f"xlagraph report {path} -o report.html"]
    if last and last.shown:
        nodes = {node.digest: node for node in explained.graphs}
        node = nodes[last.shown]
        commands.append(f"xlagraph diff {path}:{nodes[node.nearest].letter} {path}:{node.letter}")
    if neighbours.before and explained.has_problem:
        commands.append(f"xlagraph compare {quote(neighbours.before)} {path}")
    if last and last.place.command and not last.place.line:
        commands.insert(0, words(last.place.command))
    console.print()
    for command in commands:
        console.print(f"Next:  {printable(command)}", soft_wrap=True)


def _print_group(
    console: Console, number: int, group: CauseGroup, explained: RunExplanation, shown: Shown
) -> None:
    letters = {node.digest: node.letter for node in explained.graphs}
    proved = "proved" if group.proved else "not proved"
    is_short = group.expected and not group.meant
    kind = "warm-up" if is_short and not group.is_by_design else group.kind.id
    if group.meant:
        kind = f"{group.meant}: {kind}"
    graphs = join((letters[d] for d in group.graphs), 8)
    scope = say(" for ", group.compared) if group.proved and group.compared else say()
    head = say(
        f"{number}. {kind}  ({count(group.compiles, 'compile')}, {group.spent}, "
        f"{'graph' if len(group.graphs) == 1 else 'graphs'} ",
        graphs,
        *((f", {proved}", scope) if group.cause else ()),
        ")",
    )
    console.print(paragraph(head, style="dim" if group.expected else "bold cyan"))
    if is_short:
        console.print(paragraph(say(group.title.sentence, "."), INDENT))
    else:
        is_told = number == 1 and not group.expected  # in the first lines of all
        effect = EMPTY if is_told else group.effect
        what = say(group.title, ". ", without_stop(effect)) if effect else group.title
        print_advice(console, what, group.place, group.fix, shown)
    if not is_short:
        if group.cause:
            print_evidence(console, group.cause, MAX_EVIDENCE, shown)
        for cause in group.further[: shown.few(MAX_EVIDENCE)]:
            also = say(cause.title.sentence, f" ({cause.kind})")
            console.print(labelled("Also", also, INDENT, LABEL))
            if cause in group.second:
                print_place(console, cause.place, cause.fix, shown)
        if group.elsewhere:
            console.print(labelled("Also", group.same_number, INDENT, LABEL))
        for follows in group.follows[: shown.few(MAX_EVIDENCE)]:
            console.print(labelled("So", follows, INDENT, LABEL))
    console.print()


def _print_graphs(console: Console, explained: RunExplanation, shown: Shown) -> None:
    graphs = explained.graphs
    letters = {node.digest: node.letter for node in graphs}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=True)
    rows = graphs[: shown.few(MAX_GRAPHS)]
    room = console.width - sum(len(name) + 2 for name in COLUMNS[:-1]) - WIDER
    for node in rows:
        table.add_row(
            node.letter,
            str(node.step),
            "-" if node.spent.is_unknown else duration(node.spent.wall_seconds),
            node.hits_text,
            f"{node.instructions:,}",
            letters.get(node.nearest, "-"),
            fitted(printable(node.call_site.short), room) if node.call_site else "-",
            style="dim" if node.warm_up else "",
        )
    console.print(table)
    if explained.unnamed_hits:
        number = count(explained.unnamed_hits, "hit")
        console.print(paragraph(f"+: or more; which graph {number} ran is not known.", style="dim"))
    if len(rows) < len(graphs):
        console.print(paragraph(f"and {len(graphs) - len(rows)} more graphs (--full shows all)"))
