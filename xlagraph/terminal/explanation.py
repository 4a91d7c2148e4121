"""The explanation of a pair of modules, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.noise import noise_in_words
from xlagraph.message import count, join, say, without_stop
from xlagraph.terminal.advice import INDENT, LABEL, print_advice, print_evidence, print_verdict
from xlagraph.terminal.style import labelled, paragraph

if TYPE_CHECKING:
    from rich.console import Console

    from xlagraph.cause.model import Cause, Explanation
    from xlagraph.graph import Module
    from xlagraph.message import Message
    from xlagraph.terminal.advice import Shown

MAX_EVIDENCE = 4
"""Lines of evidence for one cause; more are counted."""


def print_explanation(
    console: Console, explanation: Explanation, name_a: str, name_b: str, shown: Shown
) -> None:
    """Prints the verdict, the causes, what is unexplained and what was ignored."""
    diff = explanation.diff
    print_verdict(console, explanation.verdict)
    _print_side(console, "A", name_a, diff.a)
    _print_side(console, "B", name_b, diff.b)
    console.print()
    if not explanation.same or explanation.evaluated:
        console.print(paragraph(_extent(explanation)))
        console.print()
    for number, cause in enumerate(explanation.causes, 1):
        _print_cause(console, number, cause, shown)
    _print_unexplained(console, explanation, shown)
    noise = list(noise_in_words(diff.noise))
    if noise:
        console.print(labelled("Ignored as harmless:", ", ".join(noise) + "."))


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
        f"{'differs' if diff.differing == 1 else 'differ'}: {len(diff.changes):,} changed, "
        f"{len(diff.removed):,} only in A, {len(diff.added):,} only in B"
    )
    if not explanation.evaluated and (parameters or outputs):
        text += (
            f"; {count(parameters, 'parameter')} and {count(outputs, 'output')} "
            "stand on one side only"
        )
    return text + "."


def _print_cause(console: Console, number: int, cause: Cause, shown: Shown) -> None:
    share = f"{cause.share:.0%} of the difference" if cause.a or cause.b else "no instruction"
    proved = "proved" if cause.proved else "not proved"
    expected = ", expected warm-up" if cause.expected else ""
    console.print(
        paragraph(f"{number}. {cause.kind}  ({share}, {proved}{expected})", style="bold cyan")
    )
    what = say(cause.title, ". ", without_stop(cause.effect)) if cause.effect else cause.title
    print_advice(console, what, cause.place, cause.fix, shown)
    print_evidence(console, cause, MAX_EVIDENCE, shown)
    console.print(labelled("Proof", proof_text(cause), INDENT, LABEL))
    console.print()


def proof_text(cause: Cause) -> Message:
    """What was undone, and what came of it."""
    result = (
        "then the modules are the same computation"
        if cause.proved
        else "still the modules differ: take this cause as a suspicion"
    )
    return say(cause.proof, f"; {result}.")


def _print_unexplained(console: Console, explanation: Explanation, shown: Shown) -> None:
    for letter, module, left in (
        ("A", explanation.diff.a, explanation.unexplained_a),
        ("B", explanation.diff.b, explanation.unexplained_b),
    ):
        if not left:
            continue
        names = join(
            (f"{module.names[i]} ({module.opcodes[i]})" for i in left), shown.few(8) or len(left)
        )
        text = say(f"{count(len(left), 'instruction')}: ", names)
        console.print(labelled(f"Unexplained in {letter}:", text, style="yellow"))
