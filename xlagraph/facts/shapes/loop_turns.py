"""Sizes that are the number of a loop's turns: what a derivative keeps of each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.calls.loops import counters
from xlagraph.facts.shapes.size_makers import SizeMaker
from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.message import Listing, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case
    from xlagraph.graph import Module

LOOP_TURNS = SizeMaker(
    "number of a loop's turns",
    "A number of turns that Python knows is part of the graph, and a derivative keeps a tensor of "
    "each turn (lax.fori_loop, lax.scan): run the largest number in every step, and keep the old "
    "value in turns that are not wanted, with the number as an argument that is not static.",
    say(
        "Run the largest number of turns, and mask those not wanted:",
        Listing(
            (
                "def body(i, old):",
                "    return jnp.where(i < n, turn(i, old), old)",
                "lax.fori_loop(0, n_max, body, start)  # n: not static",
            )
        ),
    ),
)


def loop_turns(case: Case, starts: Mapping[int, int]) -> SizeMaker | None:
    """Whether the sizes that differ at these instructions of A are numbers of a loop's turns.

    Each goes into a loop, and its first dimension is how many turns that loop has, on both sides.
    """
    a, b = case.diff.a, case.diff.b
    turns_a, turns_b = _turns(a), _turns(b)
    if not turns_a or not turns_b:
        return None
    is_counted = all(
        changes
        and all(
            place == 0
            and old in {turns_a.get(loop) for loop in _loops_of(a, x)}
            and new in {turns_b.get(loop) for loop in _loops_of(b, y)}
            for place, old, new in changes
        )
        for x, y in starts.items()
        for changes in (changed_sizes(a.shapes[x], b.shapes[y]),)
    )
    return LOOP_TURNS if is_counted else None


def _turns(module: Module) -> dict[int, int]:
    """How many turns each loop has that counts."""
    of_body = {counter.body: counter.turns for counter in counters(module)}
    return {
        i: of_body[body]
        for i, callees in module.callees.items()
        if module.opcodes[i] == "while"
        for body in callees
        if body in of_body
    }


def _loops_of(module: Module, i: int) -> list[int]:
    """The loops whose tuple begins with this value."""
    tuples = (user for user in module.users[i] if module.opcodes[user] == "tuple")
    return [u for t in tuples for u in module.users[t] if module.opcodes[u] == "while"]
