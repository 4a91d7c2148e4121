"""The explanation of a pair of modules, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import count
from xlagraph.cause.places import short_line
from xlagraph.terminal.style import labelled, paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from xlagraph.cause import Cause, Explanation
    from xlagraph.graph import Module

MAX_EVIDENCE = 6
"""Lines of evidence for one cause; more are counted."""


def print_explanation(
    console: Console, explanation: Explanation, name_a: str, name_b: str, *, full: bool = False
) -> None:
    """Prints verdict, causes, what is unexplained and what was set aside."""
    diff = explanation.diff
    console.print(paragraph(explanation.verdict, style="bold"))
    console.print()
    _print_side(console, "A", name_a, diff.a)
    _print_side(console, "B", name_b, diff.b)
    console.print()
    if not diff.same:
        console.print(paragraph(_extent(explanation)))
        console.print()
    for number, cause in enumerate(explanation.causes, 1):
        _print_cause(console, number, cause, full=full)
    _print_unexplained(console, explanation, full=full)
    noise = list(noise_parts(explanation))
    if noise:
        console.print(labelled("Set aside as noise:", ", ".join(noise) + "."))


def _print_side(console: Console, letter: str, name: str, module: Module) -> None:
    console.print(
        labelled(letter, f"{name}  ({module.name}, {count(len(module), 'instruction')})", 2)
    )


def _extent(explanation: Explanation) -> str:
    diff = explanation.diff
    parameters = sum(1 for s in diff.parameters if s.a is None or s.b is None)
    outputs = sum(1 for s in diff.outputs if s.a is None or s.b is None)
    text = (
        f"{count(diff.differing, 'instruction')} "
        f"{'differs' if diff.differing == 1 else 'differ'}: {len(diff.changes)} changed, "
        f"{len(diff.removed)} only in A, {len(diff.added)} only in B"
    )
    if parameters or outputs:
        text += (
            f"; {count(parameters, 'parameter')} and {count(outputs, 'output')} "
            "stand on one side only"
        )
    return text + "."


def _print_cause(console: Console, number: int, cause: Cause, *, full: bool) -> None:
    share = f"{cause.share:.0%} of the difference" if cause.a or cause.b else "no instruction"
    proved = "proved" if cause.proved else "not proved"
    expected = ", expected warm-up" if cause.expected else ""
    console.print(
        paragraph(f"{number}. {cause.kind}  ({share}, {proved}{expected})", style="bold cyan")
    )
    if number > 1:  # the first title is the verdict already
        console.print(paragraph(cause.title + ".", 3))
    shown = cause.evidence if full else cause.evidence[:MAX_EVIDENCE]
    for evidence in shown:
        at = f"  [{short_line(evidence.sources[0])}]" if evidence.sources else ""
        console.print(labelled("-", evidence.text + at, 3))
    if len(shown) < len(cause.evidence):
        console.print(
            labelled(
                "-", f"{count(len(cause.evidence) - len(shown), 'more line')} (--full shows all)", 3
            )
        )
    console.print(labelled("Fix:", cause.fix, 3, 6))
    console.print(labelled("Proof:", proof_text(cause), 3, 6))
    console.print()


def proof_text(cause: Cause) -> str:
    """What was undone, and what came of it."""
    result = (
        "then the modules are the same computation"
        if cause.proved
        else "still the modules differ: take this cause as a suspicion"
    )
    return f"{cause.proof}; {result}."


def _print_unexplained(console: Console, explanation: Explanation, *, full: bool) -> None:
    for letter, module, left in (
        ("A", explanation.diff.a, explanation.unexplained_a),
        ("B", explanation.diff.b, explanation.unexplained_b),
    ):
        if not left:
            continue
        shown = left if full else left[:8]
        names = ", ".join(f"{module.names[i]} ({module.opcodes[i]})" for i in shown)
        more = f" and {len(left) - len(shown)} more" if len(left) > len(shown) else ""
        console.print(
            labelled(
                f"Unexplained in {letter}:",
                f"{count(len(left), 'instruction')}: {names}{more}",
                style="yellow",
            )
        )


def noise_parts(explanation: Explanation) -> Iterator[str]:
    """What differs and was set aside, in words."""
    noise = explanation.diff.noise
    if noise.renamed:
        yield f"{count(noise.renamed, 'instruction')} renamed or renumbered"
    if noise.parameters_moved:
        yield f"{count(noise.parameters_moved, 'parameter')} in another order"
    if noise.dead_a or noise.dead_b:
        yield f"dead instructions ({noise.dead_a} in A, {noise.dead_b} in B)"
    if noise.constants_a or noise.constants_b:
        yield (
            f"constants that stand more often ({noise.constants_a} in A, {noise.constants_b} in B)"
        )
    if noise.metadata:
        yield f"{count(noise.metadata, 'instruction')} with another source line or op name"
