"""The sentences that an explanation of two modules begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.elided import not_compared
from xlagraph.facts.keys import key_difference
from xlagraph.message import count, join, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause, Context
    from xlagraph.diff import Diff
    from xlagraph.message import Message


def pair_verdict(
    diff: Diff, causes: Sequence[Cause], left: int, context_a: Context, context_b: Context
) -> Message:
    """The main cause in a sentence or two; `left` instructions have none."""
    if diff.same:
        verdict = _same(causes, context_a, context_b)
    elif not causes:
        verdict = say(
            f"The modules differ in {count(diff.differing, 'instruction')}; no known cause fits "
            "(unexplained)."
        )
    else:
        verdict = _main(causes, left, context_a, context_b)
    return say(verdict, not_compared(diff))


def _main(causes: Sequence[Cause], left: int, context_a: Context, context_b: Context) -> Message:
    title = causes[0].title
    first = (
        title.sentence if causes[0].proved else say("Not explained for sure. Suspected: ", title)
    )
    more = f" (and {count(len(causes) - 1, 'further cause')})" if len(causes) > 1 else ""
    stay = "stays" if left == 1 else "stay"
    rest = f" {count(left, 'instruction')} {stay} unexplained." if left else ""
    return say(first, f"{more}.{rest}", _one_hash(context_a, context_b))


def _one_hash(context_a: Context, context_b: Context) -> str:
    """What it means that modules differ which torch_xla has taken for one graph."""
    known = context_a.key.get("graph_hash")
    if not known or known != context_b.key.get("graph_hash"):
        return ""
    return " Both have one graph hash, so that torch_xla compiles only the first of them."


def _same(causes: Sequence[Cause], context_a: Context, context_b: Context) -> Message:
    parts = sorted(
        name
        for name in context_a.key.keys() & context_b.key.keys()
        if context_a.key[name] != context_b.key[name]
    )
    if causes:
        key = ", another cache key" if parts else ""
        titles = join((cause.title for cause in causes), len(causes), "; ")
        return say(f"Same computation{key}: ", titles, ".")
    if not parts:
        return say("Same computation: the modules differ in nothing that matters.")
    differs = key_difference(context_a.key, context_b.key)
    return say(
        "Same computation, another cache key: the graph did not change, but "
        f"{', '.join(parts)} did. {differs}".rstrip()
    )
