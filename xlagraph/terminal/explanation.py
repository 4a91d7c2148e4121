"""The explanation of a pair of modules, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.noise import noise_in_words
from xlagraph.message import count, join, say
from xlagraph.terminal.style import evidence_line, labelled, paragraph

if TYPE_CHECKING:
    from rich.console import Console

    from xlagraph.cause.model import Cause, Explanation
    from xlagraph.graph import Module
    from xlagraph.message import Message

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
    noise = list(noise_in_words(diff.noise))
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
        console.print(paragraph(say(cause.title, "."), 3))
    shown = cause.evidence if full else cause.evidence[:MAX_EVIDENCE]
    for evidence in shown:
        console.print(labelled("-", evidence_line(evidence), 3))
    if len(shown) < len(cause.evidence):
        console.print(
            labelled(
                "-", f"{count(len(cause.evidence) - len(shown), 'more line')} (--full shows all)", 3
            )
        )
    console.print(labelled("Fix:", cause.fix, 3, 6))
    console.print(labelled("Proof:", proof_text(cause), 3, 6))
    console.print()


def proof_text(cause: Cause) -> Message:
    """What was undone, and what came of it."""
    result = (
        "then the modules are the same computation"
        if cause.proved
        else "still the modules differ: take this cause as a suspicion"
    )
    return say(cause.proof, f"; {result}.")


def _print_unexplained(console: Console, explanation: Explanation, *, full: bool) -> None:
    for letter, module, left in (
        ("A", explanation.diff.a, explanation.unexplained_a),
        ("B", explanation.diff.b, explanation.unexplained_b),
    ):
        if not left:
            continue
        names = join(
            (f"{module.names[i]} ({module.opcodes[i]})" for i in left), len(left) if full else 8
        )
        text = say(f"{count(len(left), 'instruction')}: ", names)
        console.print(labelled(f"Unexplained in {letter}:", text, style="yellow"))
