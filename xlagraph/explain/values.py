"""What is said of two modules that are written otherwise and give the same values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.verdict import Verdict
from xlagraph.diff import diff_modules
from xlagraph.facts.program.arguments import same_arguments
from xlagraph.facts.program.versions import are_versions, nothing_tells
from xlagraph.message import EMPTY, A, B, count, say, without_stop

if TYPE_CHECKING:
    from xlagraph.cause.model import Context, Explanation
    from xlagraph.diff import Diff
    from xlagraph.evaluate import SameValues

MAX_INSTRUCTIONS = 20_000
"""Instructions of both up to which they are evaluated."""


def by_values(explanation: Explanation, contexts: tuple[Context, Context]) -> Explanation:
    """The explanation, as of the same computation where two versions give the same values.

    What differs in writing stays among its causes. Two steps of one run are two modules all the
    same, and bare texts may be of steps only where they share no line.
    """
    diff = explanation.diff
    if explanation.same or not _may_be(diff, contexts):
        return explanation
    found = _same_values(diff)
    if found is None:
        return explanation
    verdict = _verdict(explanation, found, is_sure=are_versions(diff, contexts) is True)
    return replace(explanation, same=True, evaluated=found.points, verdict=verdict)


def _may_be(diff: Diff, contexts: tuple[Context, Context]) -> bool:
    """Whether both may be versions of one program, before optimization, and are small enough."""
    is_small = len(diff.a) + len(diff.b) <= MAX_INSTRUCTIONS
    if not is_small or diff.a.is_scheduled or diff.b.is_scheduled:
        return False
    return are_versions(diff, contexts) is True or nothing_tells(diff, contexts)


def _same_values(diff: Diff) -> SameValues | None:
    from xlagraph.evaluate import same_values  # numpy is loaded where it is needed

    if any(known.inputs for known in diff.match.known):
        return same_values(diff)
    names = same_arguments(diff.a, diff.b)
    return same_values(diff if names is None else diff_modules(diff.a, diff.b, known=names))


def _verdict(explanation: Explanation, found: SameValues, *, is_sure: bool) -> Verdict:
    diff = explanation.diff
    outputs = len(found.outputs)
    agree = "its one output" if outputs == 1 else f"all {count(outputs, 'output')}"
    what = say(
        f"The same values, but for rounding: evaluated at {found.points} random inputs, ",
        *(A, " and ", B, f" agree in {agree}."),
    )
    moved = found.moved_outputs
    differing = count(diff.differing, "instruction")
    told, causes = explanation.verdict, explanation.causes
    written = say(
        f"{differing} {'is' if diff.differing == 1 else 'are'} written otherwise",
        say(": ", without_stop(told.what), causes[0].place.within) if causes else EMPTY,
        f"; {count(moved, 'output')} come in another order" if moved else "",
        "; XLA compiles both forms, once each",
        "." if is_sure else ": steps of one run should keep to one.",
    )
    return Verdict(what, notes=(written,))
