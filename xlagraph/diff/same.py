"""Whether two modules are the same computation: an exact check, by walking both at once.

The proof behind every named cause. Roots pair with roots and operands with operands; the
walk fails at the first pair that cannot be. What it forgives: names, numbering, metadata,
dead instructions, the order of entry parameters, and how often equal constants stand there.
What acts on the world counts in text order, with the channels that it shares with others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import CHANNEL, Interner, label_instructions
from xlagraph.canon.live import DRAWS, has_effect, roots
from xlagraph.diff.known import identities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.diff.known import KnownTensors
    from xlagraph.graph import Computation, Module


class Pairs(NamedTuple):
    """Who is who in two modules that are the same computation."""

    instructions: Sequence[int]
    """For each instruction of A its partner in B, or -1; equal constants may share one."""
    computations: Mapping[int, int]


def same_computation(a: Module, b: Module) -> bool:
    """True when the live instructions of `a` and `b` pair off one to one; linear time."""
    interner = Interner()
    labels_a, labels_b = label_instructions(a, interner), label_instructions(b, interner)
    return same_pairs(a, b, labels_a, labels_b) is not None


def same_pairs(
    a: Module, b: Module, labels_a: Sequence[int], labels_b: Sequence[int]
) -> Pairs | None:
    """The pairing of live instructions, or None where the modules differ.

    Labels are by one `Interner`. A constant may stand for several equal ones.
    """
    walk = _Walk(a, b, labels_a, labels_b)
    return Pairs(walk.to_b, dict(walk.known)) if walk.agrees() else None


def same_named(a: Module, b: Module, known: tuple[KnownTensors, KnownTensors]) -> Pairs | None:
    """The same, where inputs and outputs that both sides know by name keep their places."""
    interner = Interner()
    labels_a, labels_b = label_instructions(a, interner), label_instructions(b, interner)
    return named_pairs(a, b, labels_a, labels_b, known, interner)


def named_pairs(
    a: Module,
    b: Module,
    labels_a: Sequence[int],
    labels_b: Sequence[int],
    known: tuple[KnownTensors, KnownTensors],
    interner: Interner,
) -> Pairs | None:
    """`same_named` of modules that are labelled already, by this interner."""
    named_a, named_b = identities(*known, interner)
    return same_pairs(a, b, named_a.label(labels_a, interner), named_b.label(labels_b, interner))


class _Walk:
    def __init__(self, a: Module, b: Module, labels_a: Sequence[int], labels_b: Sequence[int]):
        self.a, self.b = a, b
        self.labels_a, self.labels_b = labels_a, labels_b
        self.to_b, self.to_a = [-1] * len(a), [-1] * len(b)
        self.pending = [(a.entry, b.entry)]
        self.known: set[tuple[int, int]] = set()
        self.channels: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self.linked_a = a.callees.keys() | a.controls.keys()
        self.linked_b = b.callees.keys() | b.controls.keys()

    def agrees(self) -> bool:
        """Runs the walk over all pairs of computations that the entries lead to."""
        while self.pending:
            pair = self.pending.pop()
            if pair not in self.known:
                self.known.add(pair)
                if not self._computations_agree(*pair):
                    return False
        return self._parameters_agree()

    def _parameters_agree(self) -> bool:
        """Pairs entry parameters that nobody uses by shape; used ones were walked."""
        left = [p for p in self.a.entry_computation.parameters if self.to_b[p] < 0]
        right = [p for p in self.b.entry_computation.parameters if self.to_a[p] < 0]
        left.sort(key=lambda p: self.labels_a[p])
        right.sort(key=lambda p: self.labels_b[p])
        for p, q in zip(left, right, strict=False):
            self.to_b[p] = q
        return [self.labels_a[p] for p in left] == [self.labels_b[p] for p in right]

    def _computations_agree(self, x: int, y: int) -> bool:
        if x != self.a.entry:
            # A callee may be called from several places that pair with different copies.
            for computation, partners in (
                (self.a.computations[x], self.to_b),
                (self.b.computations[y], self.to_a),
            ):
                start, stop = computation.start, computation.stop
                partners[start:stop] = [-1] * (stop - start)
        one, other = self.a.computations[x], self.b.computations[y]
        starts_a, starts_b = roots(self.a, one), roots(self.b, other)
        if x != self.a.entry:  # those of the entry may stand in another order
            starts_a += one.parameters
            starts_b += other.parameters
        return (
            one.execution_thread == other.execution_thread
            and len(starts_a) == len(starts_b)
            and all(map(self._channels_agree, starts_a, starts_b))
            and self._agree(starts_a, starts_b, one, other)
        )

    def _channels_agree(self, x: int, y: int) -> bool:
        """Whether two instructions use channels that belong together: numbers may differ."""
        mine = self.a.attributes[x].get(CHANNEL) or ""
        theirs = self.b.attributes[y].get(CHANNEL) or ""
        there, back = self.channels
        return there.setdefault(mine, theirs) == theirs and back.setdefault(theirs, mine) == mine

    def _agree(
        self, stack_a: list[int], stack_b: list[int], ca: Computation, cb: Computation
    ) -> bool:
        """Walks down from instructions that stand at the same places of two stacks.

        An edited module that takes an operand from another computation agrees with nothing.
        """
        a, b, to_b, to_a = self.a, self.b, self.to_b, self.to_a
        labels_a, labels_b = self.labels_a, self.labels_b
        linked_a, linked_b = self.linked_a, self.linked_b
        first_a, behind_a, first_b, behind_b = ca.start, ca.stop, cb.start, cb.stop
        while stack_a:
            x, y = stack_a.pop(), stack_b.pop()
            partner = to_b[x]
            if partner == y:
                continue
            below_a, below_b = a.operands[x], b.operands[y]
            if (
                labels_a[x] != labels_b[y]
                or len(below_a) != len(below_b)
                or not (first_a <= x < behind_a and first_b <= y < behind_b)
            ):
                return False
            if partner >= 0 or to_a[y] >= 0:
                if not self._is_closed(x):
                    return False
                if not below_a:
                    continue
            to_b[x] = y
            to_a[y] = x
            stack_a += below_a
            stack_b += below_b
            if x in linked_a or y in linked_b:
                if not self._links_agree(x, y):
                    return False
                stack_a += a.controls.get(x, ())
                stack_b += b.controls.get(y, ())
        return True

    def _is_closed(self, x: int) -> bool:
        """Whether an instruction may stand there several times: it is made of constants."""
        a = self.a
        steps = 0
        stack = [x]
        while stack:
            i = stack.pop()
            steps += 1
            if steps > 16 or a.opcodes[i] == "parameter" or i in a.callees:
                return False
            if a.opcodes[i] in DRAWS or has_effect(a, i):
                return False
            stack.extend(a.operands[i])
        return True

    def _links_agree(self, x: int, y: int) -> bool:
        """Whether both call and wait for equally many; what they call is walked later."""
        callees_a, callees_b = self.a.callees.get(x, ()), self.b.callees.get(y, ())
        self.pending.extend(zip(callees_a, callees_b, strict=False))
        return len(callees_a) == len(callees_b) and (
            len(self.a.controls.get(x, ())) == len(self.b.controls.get(y, ()))
        )
