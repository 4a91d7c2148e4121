"""A pairing under construction: who is who so far, and which pass said so."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.canon.labels import Interner
    from xlagraph.diff.match import Side
    from xlagraph.graph import Computation

MAX_CANDIDATES = 24
"""Neighbours that are looked at for one instruction; more are left unpaired and reported."""
MAX_ROUNDS = 6
"""How often a pass is repeated while it finds something new."""


class Pass(IntEnum):
    """Which pass of the matcher made a pair, in the order in which they first run."""

    NONE = 0
    SAME = 1
    NAME = 2
    BARRIER = 3
    ROOT = 4
    PARAMETER = 5
    ANCHOR = 6
    NEIGHBOUR = 7
    CONTEXT = 8
    EXPRESSION = 9
    OUTPUT = 10
    TEXT_ORDER = 11
    BRIDGE = 12
    VOTE = 13

    @property
    def meaning(self) -> str:
        """What the pass found, as the end of "paired, since they ..."."""
        return _MEANINGS[self]


_MEANINGS = {
    Pass.NONE: "have no partner",
    Pass.SAME: "stand at the same place of modules that are the same computation",
    Pass.NAME: "are the same tensor by its recorded name",
    Pass.BARRIER: "let the same values pass an optimization barrier",
    Pass.ROOT: "are the roots of computations that are paired",
    Pass.PARAMETER: "are the same parameter of computations that are paired",
    Pass.ANCHOR: "are, or belong to, an expression that stands once in each module",
    Pass.NEIGHBOUR: "are the only candidates of their kind next to a pair",
    Pass.CONTEXT: "alone are used in this way by what is paired",
    Pass.EXPRESSION: "alone are made in this way of what is paired",
    Pass.OUTPUT: "are outputs that stand at corresponding places",
    Pass.TEXT_ORDER: "are interchangeable, and come in this order in the text",
    Pass.BRIDGE: "are the only candidates of their kind behind what only one module has",
    Pass.VOTE: "have the most paired neighbours in common",
}


class Pairing:
    """The partners of two sides' instructions, as the passes find them."""

    def __init__(self, a: Side, b: Side, interner: Interner):
        self.a, self.b = a, b
        self.interner = interner
        self.to_b = [-1] * len(a.module)
        self.to_a = [-1] * len(b.module)
        self.made_by = bytearray(len(a.module))
        """For each instruction of A the `Pass` that found its partner."""
        self.root = a.module.entry_computation.root
        self.ambiguous = 0
        self.queue: list[tuple[int, int]] = []
        """Pairs whose neighbours have not been looked at."""

    def pair(self, x: int, y: int, by: Pass) -> bool:
        """Pairs two instructions unless one has a partner already, or their names say no."""
        if self.to_b[x] >= 0 or self.to_a[y] >= 0 or not self._may_be(x, y):
            return False
        self.to_b[x] = y
        self.to_a[y] = x
        self.made_by[x] = by
        self.queue.append((x, y))
        return True

    def take_over(self, other: Pairing) -> None:
        """Starts from the pairs of another pairing of the same instructions."""
        self.to_b, self.to_a, self.made_by = other.to_b, other.to_a, other.made_by

    def _may_be(self, x: int, y: int) -> bool:
        """Whether recorded names allow a pair.

        An input is itself, an output no other output, nor a new value of another input.
        """
        one, other = self.a.identities, self.b.identities
        if one.inputs.get(x) != other.inputs.get(y):
            return False
        name, another = one.outputs.get(x), other.outputs.get(y)
        if name is not None and another is not None:
            return name == another
        p, q = one.renewed.get(x, -1), other.renewed.get(y, -1)
        return p < 0 or q < 0 or (self.to_b[p] in (-1, q) and self.to_a[q] in (-1, p))

    def part(self, x: int) -> None:
        """Takes the partner from a paired instruction of A."""
        self.to_a[self.to_b[x]] = -1
        self.to_b[x] = -1
        self.made_by[x] = Pass.NONE

    def loose_a(self, computation: Computation) -> list[int]:
        """Live instructions of a computation of A without a partner, in text order."""
        return _loose(self.a, computation, self.to_b)

    def loose_b(self, computation: Computation) -> list[int]:
        """As `loose_a`, of B."""
        return _loose(self.b, computation, self.to_a)

    def is_complete(self, ca: Computation, cb: Computation) -> bool:
        """Whether all instructions of both computations have partners, dead ones included."""
        return -1 not in self.to_b[ca.start : ca.stop] and -1 not in self.to_a[cb.start : cb.stop]

    def anchor(self, i: int, to_b: Sequence[int] | None) -> int:
        """A number for a paired instruction, equal on both sides; -1 for an unpaired one.

        `to_b` are the partners where `i` belongs to A, None where it belongs to B.
        """
        if to_b is not None:
            return to_b[i]
        return i if self.to_a[i] >= 0 else -1


def places(side: Side, i: int, user: int) -> tuple[int, ...]:
    """At which places `user` takes `i`; in a long list the place may move and says nothing."""
    operands = side.module.operands[user]
    return () if len(operands) > 4 else tuple(k for k, o in enumerate(operands) if o == i)


def _loose(side: Side, computation: Computation, partners: Sequence[int]) -> list[int]:
    live = side.live
    return [i for i in range(computation.start, computation.stop) if partners[i] < 0 and live[i]]
