"""Sums and the like as one operation of many terms, whatever the order in which it takes them.

What adds is a chain of additions in the graph, each with a term more, and autograd adds gradients
in the reverse of the order in which the values were used. Numbered with their terms in any order
(as compilers rank the operands of associative operations: Briggs and Cooper 1994), two chains of
the same terms have one number. A product with 1, which torch lowers `alpha` to, is its operand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Interner, bare_shape
from xlagraph.canon.structure import expression_number
from xlagraph.facts.values.expressions import counts_each_time
from xlagraph.facts.values.scalars import is_one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import ModuleEditor

ANY_ORDER = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
"""Operations that are associative and commutative, but for rounding."""
COMMUTATIVE = frozenset({"add", "multiply", "and", "or", "xor"})
"""Those that give the same, bit for bit, whichever of two operands stands first."""
_EXACT = re.compile(r"[su]\d+\[|pred\[")
"""Types whose sums and products are the same, bit for bit, in any order."""


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """One operation of many terms."""

    root: int
    """The instruction that gives its value."""
    inner: Mapping[int, tuple[int, ...]]
    """The instructions that make it up, with the places of the operands that lead to its terms."""
    order: tuple[int, ...]
    """The places of its terms, as they stand, in an order that equal sums share."""
    number: int
    """Equal of two sums: they have the same terms."""
    shape: tuple[int, ...]
    """Equal of two sums: they take their terms in one order, too."""
    value: int
    """Equal of two sums: they give the same, bit for bit; each adds the same two values."""

    def terms(self, operands: Sequence[Sequence[int]]) -> list[int]:
        """The terms as they stand, by the operands of its module or of an editor of it."""
        found, stack = [], [self.root]
        while stack:
            i = stack.pop()
            if i in self.inner:
                stack += [operands[i][k] for k in reversed(self.inner[i])]
            else:
                found.append(i)
        return found

    def join(self, editor: ModuleEditor) -> None:
        """Makes it one operation that takes its terms in the order that equal sums share."""
        terms = self.terms(editor.operands)
        if len(terms) == len(self.order):
            opcode = editor.opcodes[self.root]
            editor.become_undone(self.root, [terms[k] for k in self.order], f"{opcode} of terms")


def reordered_sums(case: Case) -> list[tuple[Sum, Sum]]:
    """Sums of A and of B that have the same terms and take them in another order.

    Of equal sums, any of A may be any of B: where two of them differ in order, all are given, those
    of one order with each other first.
    """
    interner = Interner()
    sums_a, sums_b = (_Sums(view, interner).found() for view in (case.a, case.b))
    by_number: dict[int, tuple[list[Sum], list[Sum]]] = {}
    for side, sums in enumerate((sums_a, sums_b)):
        for one in sums:
            by_number.setdefault(one.number, ([], []))[side].append(one)
    return [
        pair
        for mine, theirs in by_number.values()
        if len({one.shape for one in (*mine, *theirs)}) > 1
        for pair in _paired(mine, theirs)
    ]


def _paired(mine: Sequence[Sum], theirs: Sequence[Sum]) -> list[tuple[Sum, Sum]]:
    """Equal sums in pairs: first those that take their terms in one order."""
    by_shape: dict[tuple[int, ...], list[Sum]] = {}
    for other in reversed(theirs):
        by_shape.setdefault(other.shape, []).append(other)
    alike, rest = [], []
    for one in mine:
        same = by_shape.get(one.shape)
        if same:
            alike.append((one, same.pop()))
        else:
            rest.append(one)
    taken = {id(other) for _, other in alike}
    left = [other for other in theirs if id(other) not in taken]
    return alike + list(zip(rest, left, strict=False))


class _Sums:
    """The entry computation of one module, numbered from its inputs up."""

    def __init__(self, view: SideView, interner: Interner) -> None:
        self.view, self.module, self.interner = view, view.module, interner
        entry = view.module.entry_computation
        live = view.matched.live
        self.members = [i for i in range(entry.start, entry.stop) if live[i]]
        self.numbers = [-1] * len(view.module)
        self.part_of: dict[int, str] = {}
        """For each instruction that is part of a larger sum the opcode of that."""

    def found(self) -> list[Sum]:
        """The sums that are no part of a larger one."""
        for i in reversed(self.members):
            self._gather(i)
        found = []
        for i in self.members:
            if i in self.part_of:
                continue
            places = self._places(i)
            if len(places) < 2:
                self.numbers[i] = self._number(i, places)
                continue
            one = self._sum(i)
            self.numbers[i] = one.number
            found.append(one)
        return found

    def _places(self, i: int) -> tuple[int, ...]:
        """The places of the operands that are terms: of a product with 1 the other factor."""
        opcode, operands = self.module.opcodes[i], self.module.operands[i]
        if opcode not in ANY_ORDER:
            return ()
        if opcode == "multiply" and is_one(self.module, operands[1]):
            return (0,)
        return (1,) if opcode == "multiply" and is_one(self.module, operands[0]) else (0, 1)

    def _gather(self, i: int) -> None:
        """Notes which operands of a sum are parts of it: its users have been looked at."""
        module = self.module
        places = self._places(i)
        opcode = self.part_of.get(i) or (module.opcodes[i] if len(places) > 1 else "")
        for o in (module.operands[i][k] for k in places if opcode):
            below = self._places(o)
            continues = len(below) == 1 or module.opcodes[o] == opcode
            if below and continues and self._is_for(o, i):
                self.part_of[o] = opcode

    def _is_for(self, value: int, user: int) -> bool:
        """Whether a value goes into one place alone, and is no output."""
        module, live = self.module, self.view.matched.live
        users = [u for u in module.users[value] if live[u]]
        once = users == [user] and module.operands[user].count(value) == 1
        alike = bare_shape(module, value) == bare_shape(module, user)
        return once and alike and value not in self.view.matched.outputs

    def _number(self, i: int, places: tuple[int, ...]) -> int:
        """The number of what is no sum; its operands have theirs."""
        module, view = self.module, self.view
        if places:
            return self.numbers[module.operands[i][places[0]]]
        if module.opcodes[i] == "parameter" or counts_each_time(module, i):
            partner = view.partners[i]
            key = ("pair", *view.ab(i, partner)) if partner >= 0 else (view.side, i)
            return self.interner.number(key)
        label, computations = view.matched.plain[i], view.matched.computations
        return expression_number(module, i, label, self.numbers, computations, self.interner)

    def _sum(self, root: int) -> Sum:
        inner: dict[int, tuple[int, ...]] = {}
        terms: list[int] = []
        shape: list[int] = []
        stack = [root]
        while stack:
            i = stack.pop()
            if i != root and i not in self.part_of:
                terms.append(i)
                shape.append(self.numbers[i])
                continue
            inner[i] = self._places(i)
            shape.append(-1 - len(inner[i]))
            stack += [self.module.operands[i][k] for k in reversed(inner[i])]
        order = sorted(range(len(terms)), key=lambda k: (self.numbers[terms[k]], k))
        numbers = (self.numbers[terms[k]] for k in order)
        label = self.view.matched.plain[root]
        number = self.interner.number(("sum", label, *numbers))
        return Sum(
            root, inner, tuple(order), number, tuple(shape), self._value(root, inner, number)
        )

    def _value(self, root: int, inner: Mapping[int, tuple[int, ...]], number: int) -> int:
        """The number of what a sum gives: either operand of each of its operations may be first."""
        if _EXACT.match(self.module.shapes[root]):
            return number
        values: dict[int, int] = {}
        for i in sorted(inner):
            below = [self.module.operands[i][k] for k in inner[i]]
            taken = [values.get(o, self.numbers[o]) for o in below]
            if len(taken) > 1:
                is_free = self.module.opcodes[i] in COMMUTATIVE
                key = ("value", self.view.matched.plain[i], *(sorted(taken) if is_free else taken))
                taken = [self.interner.number(key)]
            values[i] = taken[0]
        return values[root]
