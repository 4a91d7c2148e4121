"""The search for a pairing of two modules' instructions: which pass runs when.

Recorded names hold throughout: an input that both sides know by name pairs with itself alone.
Values that pass optimization barriers are paired as if each passed alone, and the barriers
afterwards by what passes them.
Exact first: expressions that occur once in each module are anchors, and everything below
an anchor pairs off by operand position. Then outwards from what is paired: users and
operands that are the only candidates of their kind. Similar pieces are distinguished by the
places of their outputs. What is left is offered to the neighbours' vote, a bounded similarity.
(GumTree's order of phases, Falleri et al. 2014, on ordered term graphs instead of trees.)
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from xlagraph.diff.pairing import Pairing, Pass
from xlagraph.diff.passes.anchors import pair_anchors
from xlagraph.diff.passes.barriers import pair_barriers
from xlagraph.diff.passes.bridges import pair_across
from xlagraph.diff.passes.chains import slide_along_chains
from xlagraph.diff.passes.constants import part_constants, part_strays
from xlagraph.diff.passes.contexts import pair_by_context
from xlagraph.diff.passes.islands import part_islands
from xlagraph.diff.passes.names import pair_by_name
from xlagraph.diff.passes.near import pair_near_names
from xlagraph.diff.passes.neighbours import frontier, pair_neighbours
from xlagraph.diff.passes.outputs import pair_outputs_by_place, pair_outputs_on_the_way
from xlagraph.diff.passes.votes import pair_by_vote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.canon.labels import Interner
    from xlagraph.diff.match import Side
    from xlagraph.graph import Computation


def pair_sides(
    a: Side, b: Side, interner: Interner, past: Pairing | None = None
) -> tuple[Pairing, Mapping[int, int]]:
    """Pairs the instructions of two sides, and the computations that paired calls lead to.

    `past`: the sure ones, found as if each value passed barriers alone.
    """
    pairing = Pairing(a, b, interner)
    if past:
        pairing.take_over(past)
        pair_barriers(pairing)
    return pairing, _pair(pairing)


def sure_pairs(a: Side, b: Side, interner: Interner) -> Pairing:
    """The pairs of the entry that equal expressions and names decide."""
    pairing = Pairing(a, b, interner)
    pair_anchors(pairing, a.module.entry_computation, b.module.entry_computation)
    pair_by_name(pairing)
    return pairing


def _pair(pairing: Pairing) -> dict[int, int]:
    """Runs the passes over the entry and what paired calls lead to; returns the latter."""
    a, b = pairing.a, pairing.b
    computations: dict[int, int] = {}
    calling = sorted(a.module.callees)
    pending = [(a.module.entry_computation, b.module.entry_computation)]
    while pending:
        ca, cb = pending.pop()
        if ca.index in computations:
            continue
        computations[ca.index] = cb.index
        if ca.index == a.module.entry:
            _pair_entry(pairing, ca, cb)
        else:
            _pair_callee(pairing, ca, cb)
        pending.extend(_callee_pairs(pairing, ca, calling))
    return computations


def _callee_pairs(
    pairing: Pairing, ca: Computation, calling: list[int]
) -> list[tuple[Computation, Computation]]:
    """Computations that paired calls of a computation lead to, the last ones first."""
    a, b = pairing.a.module, pairing.b.module
    first, behind = (bisect_left(calling, i) for i in (ca.start, ca.stop))
    pairs = []
    for i in calling[first:behind]:
        callees = b.callees.get(pairing.to_b[i], ())
        for x, y in zip(a.callees[i], callees, strict=False):
            pairs.append((a.computations[x], b.computations[y]))
    pairs.reverse()
    return pairs


def _pair_entry(pairing: Pairing, ca: Computation, cb: Computation) -> None:
    pairing.pair(ca.root, cb.root, Pass.ROOT)
    pair_anchors(pairing, ca, cb)
    pair_by_name(pairing)
    pair_near_names(pairing, ca, cb)
    pairing.queue = frontier(pairing, ca, cb)
    pair_neighbours(pairing)
    _refine(pairing, ca, cb)


def _pair_callee(pairing: Pairing, ca: Computation, cb: Computation) -> None:
    """Computations are small, and their parameters are distinguished by number."""
    for x, y in zip(ca.parameters, cb.parameters, strict=False):
        pairing.pair(x, y, Pass.PARAMETER)
    pairing.pair(ca.root, cb.root, Pass.ROOT)
    pair_neighbours(pairing)
    if not pairing.is_complete(ca, cb):
        _refine(pairing, ca, cb)


def _refine(pairing: Pairing, ca: Computation, cb: Computation) -> None:
    """What the surroundings tell, the surest first; else text order, then the vote."""
    are_left = pair_by_context(pairing, ca, cb)
    if pairing.is_complete(ca, cb):
        return
    part_constants(pairing, ca)
    if ca.index == pairing.a.module.entry:
        pair_outputs_by_place(pairing)
    pair_across(pairing, ca)
    if are_left:
        pair_by_context(pairing, ca, cb, by_text=True)
        pair_across(pairing, ca)
    if ca.index == pairing.a.module.entry:
        pair_outputs_on_the_way(pairing)
    pair_by_vote(pairing, ca)
    if ca.index == pairing.a.module.entry and part_islands(pairing, ca):
        pair_by_vote(pairing, ca)
    slide_along_chains(pairing, ca)
    part_strays(pairing, ca)
