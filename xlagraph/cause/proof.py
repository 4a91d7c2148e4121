"""Undoing suspected causes on drafts of both modules, and looking at what is left."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import relabelled
from xlagraph.cause.draft import Draft, live_work
from xlagraph.cause.finding import Case, Finding, short_shape
from xlagraph.diff import Slot, diff_modules
from xlagraph.diff.match import output_values
from xlagraph.diff.same import same_computation, same_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.model import Context
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

MEANINGFUL_REST = 0.1
"""A proof must leave at least this part of what the smaller module computes."""

ADDED = -1
"""The place of an output that undoing a cause added: the modules as they were have none."""


class Bench:
    """Drafts of both modules with some causes undone already.

    Instructions keep their numbers on a bench; outputs are renumbered as some are set aside,
    so that findings about a later state are translated back by `original`.
    """

    def __init__(self, diff: Diff, context_a: Context, context_b: Context):
        self.diff = diff
        self.context_a, self.context_b = context_a, context_b
        self.draft_a, self.draft_b = Draft(diff.a), Draft(diff.b)
        self.places_a = list(range(len(self.draft_a.outputs)))
        self.places_b = list(range(len(self.draft_b.outputs)))
        self.reordered = False
        self.now = diff

    def case(self) -> Case:
        """What is left to explain, with the contexts' output numbers as they are by now."""
        return Case(
            self.now,
            _renumbered(self.context_a, self.places_a),
            _renumbered(self.context_b, self.places_b),
        )

    def original(self, finding: Finding) -> Finding:
        """A finding about the present state, told of the modules as they were."""
        return replace(
            finding,
            dropped_a=frozenset(self.places_a[k] for k in finding.dropped_a) - {ADDED},
            dropped_b=frozenset(self.places_b[k] for k in finding.dropped_b) - {ADDED},
        )

    def without(self, findings: Sequence[Finding]) -> tuple[Bench, bool]:
        """A new bench with these causes undone too, and whether the modules are now equal.

        The same bench if undoing leaves too little to compare, or nothing that can be compared.
        """
        bench = copy(self)
        bench.draft_a, bench.draft_b = self.draft_a.copy(), self.draft_b.copy()
        gone_a = frozenset[int]().union(*(f.dropped_a for f in findings))
        gone_b = frozenset[int]().union(*(f.dropped_b for f in findings))
        kept = [s for s in self._slots() if s.a not in gone_a and s.b not in gone_b]
        positions_a = [s.a for s in kept if s.a is not None]
        positions_b = [s.b for s in kept if s.b is not None]
        bench.reordered = self.reordered or any(f.reorders for f in findings)
        if not bench.reordered:
            positions_a = sorted(positions_a + self._saved(gone_a, gone_b, forward=True))
            positions_b = sorted(positions_b + self._saved(gone_b, gone_a, forward=False))
        bench.places_a = [self.places_a[k] for k in bench.draft_a.keep_outputs(positions_a)]
        bench.places_b = [self.places_b[k] for k in bench.draft_b.keep_outputs(positions_b)]
        for finding in findings:
            finding.undo(bench.draft_a, bench.draft_b)
        bench.places_a += [ADDED] * (len(bench.draft_a.outputs) - len(bench.places_a))
        bench.places_b += [ADDED] * (len(bench.draft_b.outputs) - len(bench.places_b))
        a, b = bench.draft_a.build(), bench.draft_b.build()
        if self._agree(a, b):
            return (bench, True) if self._enough_left(a) else (self, False)
        if not (_in_order(a) and _in_order(b)):
            return self, False
        bench.now = diff_modules(a, b)
        return bench, False

    def _agree(self, a: Module, b: Module) -> bool:
        """Whether the edited modules are the same computation."""
        first, second = self.diff.match.a, self.diff.match.b
        if a.names is not first.module.names or b.names is not second.module.names:
            return same_computation(a, b)
        labels_a = relabelled(first.module, a, first.labels, first.interner)
        labels_b = relabelled(second.module, b, second.labels, second.interner)
        return same_pairs(a, b, labels_a, labels_b) is not None

    def _saved(self, gone: frozenset[int], others: frozenset[int], *, forward: bool) -> list[int]:
        """Outputs of one side whose partner is set aside and that one without a partner replaces.

        Of two outputs of one shape the other one is more then.
        """
        own, other = (self.now.a, self.now.b) if forward else (self.now.b, self.now.a)
        shapes = [short_shape(own, value) for value in output_values(own)]
        other_shapes = [short_shape(other, value) for value in output_values(other)]
        pairs = [(s.a, s.b) if forward else (s.b, s.a) for s in self._slots()]
        free = Counter(
            other_shapes[y] for x, y in pairs if x is None and y is not None and y not in others
        )
        found = []
        for x, y in pairs:
            if x is not None and x not in gone and y in others and free[shapes[x]] > 0:
                free[shapes[x]] -= 1
                found.append(x)
        return found

    def _slots(self) -> list[Slot]:
        """Outputs paired off, those computed in another way included."""
        partner = dict(self.case().replaced_outputs())
        taken = set(partner.values())
        return [
            Slot(s.a, partner[s.a]) if s.a in partner and s.b is None else s
            for s in self.now.outputs
            if s.a is not None or s.b not in taken
        ]

    def _enough_left(self, a: Module) -> bool:
        """Whether the modules still compute something in common, as far as they ever did."""
        less, more = sorted(
            live_work(side.module, side.live) for side in (self.diff.match.a, self.diff.match.b)
        )
        return live_work(a) >= MEANINGFUL_REST * (less or more)

    def left(self) -> int:
        """How much still differs: instructions, and outputs without a partner."""
        unpaired = sum(1 for s in self.now.outputs if s.a is None or s.b is None)
        return self.now.differing + unpaired


def _in_order(module: Module) -> bool:
    """Whether operands still stand before their users, as comparing modules needs."""
    return all(o < i for i, operands in enumerate(module.operands) for o in operands)


def _renumbered(context: Context, places: Sequence[int]) -> Context:
    if places == list(range(len(places))):
        return context

    def moved(names: Mapping[int, str]) -> dict[int, str]:
        return {now: names[before] for now, before in enumerate(places) if before in names}

    return replace(
        context,
        outputs=moved(context.outputs),
        created=moved(context.created),
        holders=moved(context.holders),
    )
