"""The state of a proof: both modules with some causes undone, and what still differs."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from xlagraph.canon.labels import label_instructions, relabelled
from xlagraph.cause.case import Case
from xlagraph.cause.editor import Editors, ModuleEditor
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import left_out
from xlagraph.cause.slices import live_work
from xlagraph.diff import Slot, diff_modules
from xlagraph.diff.same import named_pairs
from xlagraph.facts.program.arguments import named_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.cause.model import Context
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Known
    from xlagraph.graph import Module

T = TypeVar("T")

MEANINGFUL_REST = 0.1
"""A proof must leave at least this part of what the smaller module computes."""

ADDED = -1
"""The position of an output that undoing a cause added: the modules as they were have none."""


class Edited(NamedTuple):
    """Two modules with causes undone, before they are compared."""

    a: Module
    b: Module
    known: Known


class ProofState:
    """Editors of both modules with some causes undone already.

    Instructions keep their numbers; outputs are renumbered as some are set aside, so that
    findings about a later state are translated back by `original`.
    """

    def __init__(self, diff: Diff, context_a: Context, context_b: Context):
        self.diff = diff
        self.context_a, self.context_b = context_a, context_b
        self.edit = Editors(ModuleEditor(diff.a), ModuleEditor(diff.b))
        self.places_a = list(range(len(diff.a.outputs)))
        self.places_b = list(range(len(diff.b.outputs)))
        self.reordered = False
        self.rest: Diff | Edited = diff
        """What still differs, or what is yet to be compared."""

    @property
    def now(self) -> Diff:
        """What still differs: compared when it is first asked for, which costs most of all."""
        if isinstance(self.rest, Edited):
            self.rest = diff_modules(self.rest.a, self.rest.b, known=self.rest.known)
        return self.rest

    def case(self) -> Case:
        """What is left to explain, with the contexts' output numbers as they are by now."""
        return Case.of(
            self.now,
            _renumbered(self.context_a, self.places_a),
            _renumbered(self.context_b, self.places_b),
        )

    def original(self, finding: Finding) -> Finding:
        """A finding about the present state, as one about the modules as they were."""
        return replace(
            finding,
            dropped_a=frozenset(self.places_a[k] for k in finding.dropped_a) - {ADDED},
            dropped_b=frozenset(self.places_b[k] for k in finding.dropped_b) - {ADDED},
        )

    def without(self, findings: Sequence[Finding]) -> tuple[ProofState, bool]:
        """The state with these causes undone too, and whether the modules are now equal.

        The same state if undoing leaves too little to compare, or nothing that can be compared, or
        if it fails, of which a `RuleWarning` tells.
        """
        try:
            state, (a, b, known) = self._edited(findings)
        except Exception as error:  # noqa: BLE001 - whatever it stumbles on
            kinds = ", ".join(sorted({finding.kind.id for finding in findings}))
            left_out(f"undoing {kinds}", error)
            return self, False
        if self._agree(a, b, known):
            return (state, True) if self._enough_left(a) else (self, False)
        if not (_in_order(a) and _in_order(b)):
            return self, False
        return state, False

    def _edited(self, findings: Sequence[Finding]) -> tuple[ProofState, Edited]:
        """The state with these causes undone too, and its modules before they are compared.

        Raises whatever a finding raises that does not fit the modules.
        """
        state = copy(self)
        state.edit = Editors(self.edit.a.copy(), self.edit.b.copy())
        state.reordered = self.reordered or any(f.reorders for f in findings)
        kept_a, kept_b = self._kept(findings, reordered=state.reordered)
        state.places_a = [self.places_a[k] for k in state.edit.a.keep_outputs(kept_a)]
        state.places_b = [self.places_b[k] for k in state.edit.b.keep_outputs(kept_b)]
        for finding in findings:
            finding.undo(state.edit)
        state.places_a += [ADDED] * (len(state.edit.a.outputs) - len(state.places_a))
        state.places_b += [ADDED] * (len(state.edit.b.outputs) - len(state.places_b))
        a, b = state.edit.a.build(), state.edit.b.build()
        state.rest = Edited(a, b, state.known(a, b))
        return state, state.rest

    def left(self) -> tuple[int, int]:
        """How far the modules still are from each other: *closer* is less of this, in this order.

        First the number of instructions that differ or have no partner, and of outputs without one;
        then the number of fields in which paired instructions differ (`Change.fields`), which shows
        that one of several causes that meet in one instruction is undone.
        """
        unpaired = sum(1 for s in self.now.outputs if s.a is None or s.b is None)
        fields = sum(len(change.fields) for change in self.now.changes)
        return self.now.differing + unpaired, fields

    def _kept(self, findings: Sequence[Finding], *, reordered: bool) -> tuple[list[int], list[int]]:
        """The positions of outputs that findings do not set aside, pairs at equal places."""
        case = self.case()
        gone_a = frozenset[int]().union(*(f.dropped_a for f in findings))
        gone_b = frozenset[int]().union(*(f.dropped_b for f in findings))
        slots = self._slots(case)
        kept = [s for s in slots if s.a not in gone_a and s.b not in gone_b]
        kept_a = [s.a for s in kept if s.a is not None]
        kept_b = [s.b for s in kept if s.b is not None]
        if not reordered:
            kept_a = sorted(kept_a + _saved(case.a, case.b, slots, gone_a, gone_b))
            kept_b = sorted(kept_b + _saved(case.b, case.a, slots, gone_b, gone_a))
        return kept_a, kept_b

    def _slots(self, case: Case) -> list[Slot]:
        """Outputs paired off, those computed in another way included."""
        partner = dict(case.replaced_outputs())
        taken = set(partner.values())
        return [
            Slot(s.a, partner[s.a]) if s.a in partner and s.b is None else s
            for s in self.now.outputs
            if s.a is not None or s.b not in taken
        ]

    def known(self, a: Module, b: Module) -> Known:
        """The names of what the edited modules take in and give out: recorded, or arguments'."""
        recorded = (
            _renumbered(self.context_a, self.places_a).names(a),
            _renumbered(self.context_b, self.places_b).names(b),
        )
        known = self.diff.match.known
        if any(names.inputs or names.outputs for names in recorded):
            return recorded
        if a.names is self.diff.a.names and b.names is self.diff.b.names:
            return known
        is_named = any(names.inputs for names in known)  # put in line: under other numbers
        return (named_arguments(a), named_arguments(b)) if is_named else recorded

    def _agree(self, a: Module, b: Module, known: Known) -> bool:
        """Whether the edited modules are the same computation, with each known input in its place.

        Inputs that both sides know by name must not take each other's places.
        """
        first, second = self.diff.match.a, self.diff.match.b
        interner = first.interner
        if a.names is first.module.names and b.names is second.module.names:
            plain_a = relabelled(first.module, a, first.plain, interner)
            plain_b = relabelled(second.module, b, second.plain, interner)
        else:
            plain_a, plain_b = label_instructions(a, interner), label_instructions(b, interner)
        return named_pairs(a, b, plain_a, plain_b, known, interner) is not None

    def _enough_left(self, a: Module) -> bool:
        """Whether the modules still compute something in common, as far as they ever did."""
        less, more = sorted(
            live_work(side.module, side.live) for side in (self.diff.match.a, self.diff.match.b)
        )
        return live_work(a) >= MEANINGFUL_REST * (less or more)


def _saved(
    one: SideView,
    other: SideView,
    slots: Sequence[Slot],
    gone: frozenset[int],
    others_gone: frozenset[int],
) -> list[int]:
    """Outputs of one side whose partner is set aside and that one without a partner replaces.

    Of two outputs of one shape the other one is more then.
    """
    shapes = [short_shape(one.module, value) for value in one.module.outputs]
    other_shapes = [short_shape(other.module, value) for value in other.module.outputs]
    pairs = [(one.own(s), one.theirs(s)) for s in slots]
    free = Counter(
        other_shapes[y] for x, y in pairs if x is None and y is not None and y not in others_gone
    )
    found = []
    for x, y in pairs:
        if x is not None and x not in gone and y in others_gone and free[shapes[x]] > 0:
            free[shapes[x]] -= 1
            found.append(x)
    return found


def _in_order(module: Module) -> bool:
    """Whether operands still stand before their users, as comparing modules needs."""
    return all(o < i for i, operands in enumerate(module.operands) for o in operands)


def _renumbered(context: Context, places: Sequence[int]) -> Context:
    if places == list(range(len(places))):
        return context

    def moved(names: Mapping[int, T]) -> dict[int, T]:
        return {now: names[before] for now, before in enumerate(places) if before in names}

    return replace(
        context,
        outputs=moved(context.outputs),
        created=moved(context.created),
        holders=moved(context.holders),
    )
