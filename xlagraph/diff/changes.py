"""From a match to what differs, with what is only noise set aside and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.inline import inlined
from xlagraph.canon.labels import Level, clean, instruction_text, without_layout
from xlagraph.canon.live import live_instructions
from xlagraph.canon.loops import has_loop, with_ordered_state
from xlagraph.diff.acting import ThreadChange, moved_effects, other_channels, other_threads
from xlagraph.diff.align import aligned, longest_rise
from xlagraph.diff.known import NO_NAMES
from xlagraph.diff.match import Match, match_modules
from xlagraph.diff.same import same_computation
from xlagraph.diff.stated import stated_alike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff.match import Known
    from xlagraph.graph import Metadata, Module


class Change(NamedTuple):
    """A pair of instructions that is the same step of the program and yet differs."""

    a: int
    b: int
    fields: tuple[str, ...]
    """What differs between the two, one or more of

    - ``opcode``; ``shape``: sizes or type; ``layout``: nothing but the layout of the shape
    - ``payload``: the value of a constant, the number of a parameter
    - ``attributes``: all others, such as ``dimensions``; also which collectives share a channel
    - ``operands``: at some place they are neither partners nor equal constants
    - ``callees``: the computations called are neither paired with each other nor equal. A pair of
      calls pairs what they call, and what differs in there has changes of its own. So this is left
      to calls that share a computation with others, which was paired otherwise there, and to calls
      of another number of computations.
    - ``controls``: it waits for other instructions
    """


class HeaderChange(NamedTuple):
    """A field of the module's header that differs, such as ``buffer_donor``."""

    field: str
    a: str
    b: str


class Slot(NamedTuple):
    """A parameter or output: its position in A and in B, None where it is missing."""

    a: int | None
    b: int | None


class Noise(NamedTuple):
    """What differs and does not matter: counts of what was set aside."""

    renamed: int
    """Paired instructions with another name."""
    parameters_moved: int
    """Entry parameters whose number differs beyond insertions and removals."""
    dead_a: int
    dead_b: int
    """Instructions that nothing needs."""
    constants_a: int
    constants_b: int
    """Constant expressions that stand more often on this side than on the other."""
    metadata: int
    """Paired instructions that come from another source line or framework op."""
    loop_state: bool
    """Loops carry the same values in another order."""


@dataclass(frozen=True, eq=False)
class Diff:
    """What separates module A from module B."""

    match: Match
    changes: tuple[Change, ...]
    removed: tuple[int, ...]
    """Live instructions of A without a partner, ascending."""
    added: tuple[int, ...]
    """Live instructions of B without a partner, ascending."""
    parameters: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    header: tuple[HeaderChange, ...]
    noise: Noise
    moved_effects: tuple[tuple[int, int], ...]
    """Pairs that act on the world, such as collectives, and come in another order."""
    threads: tuple[ThreadChange, ...]
    same: bool
    """The same computation with the same header fields: a compile of B was not needed for
    the graph's sake."""

    @property
    def a(self) -> Module:
        """The module compared from."""
        return self.match.a.module

    @property
    def b(self) -> Module:
        """The module compared to."""
        return self.match.b.module

    @property
    def differing(self) -> int:
        """Number of instructions that differ, an outputs tuple not counted."""
        return len(self.changes) + len(self.removed) + len(self.added)

    @property
    def differing_in_a(self) -> frozenset[int]:
        """Instructions of A that differ from their partners, or have none."""
        return frozenset((*self.removed, *(change.a for change in self.changes)))

    @property
    def differing_in_b(self) -> frozenset[int]:
        """Instructions of B that differ from their partners, or have none."""
        return frozenset((*self.added, *(change.b for change in self.changes)))


def diff_modules(
    a: Module,
    b: Module,
    level: Level = Level.PARAMETER_ORDER,
    known: Known = (NO_NAMES, NO_NAMES),
) -> Diff:
    """Compares two modules, paired at `level`; linear in instructions plus operands.

    What only one of them can state, such as large constants, is not compared (`stated_alike`).
    `known`: the tensors that inputs and outputs are known to be.
    """
    match = match_modules(*stated_alike(a, b), level, known)
    ordered = None if match.exact or known != (NO_NAMES, NO_NAMES) else _with_ordered_loops(match)
    return diff_match(ordered or match, loop_state=ordered is not None)


def _with_ordered_loops(match: Match) -> Match | None:
    """The match of both modules with the state of their loops in order, if that is exact.

    What a loop's body calls is put in line first: it hands on the state in its own order.
    """
    a, b = match.a.module, match.b.module
    if not (has_loop(a) and has_loop(b)):
        return None
    a, b = inlined(a) or a, inlined(b) or b
    if _opcodes(a) != _opcodes(b):
        return None
    ordered = with_ordered_state(a), with_ordered_state(b)
    return match_modules(*ordered) if same_computation(*ordered) else None


def _opcodes(module: Module) -> Counter[str]:
    """How often each opcode stands among what is needed; equal constants may stand more often."""
    alive = compress(module.opcodes, live_instructions(module))
    return Counter(opcode for opcode in alive if opcode != "constant")


def diff_match(match: Match, *, loop_state: bool) -> Diff:
    """Lists the differences that a match leaves."""
    finder = _Finder(match)
    a, b = match.a.module, match.b.module
    changes = tuple(finder.changes())
    removed, constants_a = finder.unpaired(match.to_b, forward=True)
    added, constants_b = finder.unpaired(match.to_a, forward=False)
    parameters = _slots(a.entry_computation.parameters, b.entry_computation.parameters, finder)
    outputs = _slots(a.outputs, b.outputs, finder)
    header = tuple(_header_changes(a, b, parameters, outputs))
    same = match.exact and not header
    return Diff(
        match,
        changes,
        removed,
        added,
        parameters,
        outputs,
        header,
        Noise(
            renamed=sum(1 for x, y in enumerate(match.to_b) if y >= 0 and a.names[x] != b.names[y]),
            parameters_moved=_moved(parameters),
            dead_a=finder.dead(forward=True),
            dead_b=finder.dead(forward=False),
            constants_a=constants_a,
            constants_b=constants_b,
            metadata=finder.metadata_changes(),
            loop_state=loop_state,
        ),
        () if match.exact else moved_effects(match),
        () if match.exact else other_threads(match),
        same,
    )


def _slots(values_a: Sequence[int], values_b: Sequence[int], finder: _Finder) -> tuple[Slot, ...]:
    """Pairs positions by their instructions: those of A in order, then B's own."""
    match = finder.match
    partner = _in_order([match.to_b[x] for x in values_a], values_b)
    by_value: dict[int, list[int]] = {}
    by_constant: dict[int, list[int]] = {}
    taken = set(partner.values())
    for k in range(len(values_b) - 1, -1, -1):
        if k not in taken:
            by_value.setdefault(values_b[k], []).append(k)
    for k, x in enumerate(values_a):
        queue = by_value.get(match.to_b[x])
        if queue and k not in partner:
            partner[k] = queue.pop()
    taken = set(partner.values())
    for k in range(len(values_b) - 1, -1, -1):
        if k not in taken and finder.closed_b[values_b[k]]:
            by_constant.setdefault(match.b.expressions[values_b[k]], []).append(k)
    for k, x in enumerate(values_a):
        if k not in partner and finder.closed_a[x]:
            queue = by_constant.get(match.a.expressions[x])
            if queue:
                partner[k] = queue.pop()
    taken = set(partner.values())
    return (
        *(Slot(k, partner.get(k)) for k in range(len(values_a))),
        *(Slot(None, k) for k in range(len(values_b)) if k not in taken),
    )


def _in_order(partners: Sequence[int], values: Sequence[int]) -> dict[int, int]:
    """Positions of values that one side gives back more often than the other, paired in order.

    A copy of a tensor has the same value: what stands beside the two tells which is the copy.
    """
    often_a, often_b = Counter(partners), Counter(values)
    uneven = {value for value in often_b if value in often_a and often_a[value] != often_b[value]}
    if not uneven:
        return {}
    return {k: n for k, n in aligned(partners, values) if values[n] in uneven}


def _moved(slots: Sequence[Slot]) -> int:
    """How many paired slots stand out of order."""
    paired = [slot.b for slot in slots if slot.a is not None and slot.b is not None]
    return len(paired) - len(longest_rise(paired))


def _header_changes(
    a: Module, b: Module, parameters: Sequence[Slot], outputs: Sequence[Slot]
) -> list[HeaderChange]:
    """Header fields that differ; positions in donors and aliases are mapped from A to B."""
    from xlagraph.diff.header import ENTRY_LAYOUT, header_value, layouts_differ

    to_b, own = positions(parameters)
    outputs_to_b, own_outputs = positions(outputs)
    fields_a, fields_b = a.header_fields, b.header_fields
    found = []
    for field in sorted(fields_a.keys() | fields_b.keys()):
        text_a, text_b = fields_a.get(field, ""), fields_b.get(field, "")
        if field == ENTRY_LAYOUT:
            differs = layouts_differ(a, b, to_b, outputs_to_b)
        else:
            value_a = header_value(field, text_a, to_b, outputs_to_b)
            differs = value_a != header_value(field, text_b, own, own_outputs)
        if differs:
            found.append(HeaderChange(field, clean(text_a), clean(text_b)))
    return found


def positions(slots: Sequence[Slot]) -> tuple[dict[int, int], dict[int, int]]:
    """The paired positions of A, and those of B, each with its position in B."""
    paired = [(slot.a, slot.b) for slot in slots if slot.a is not None and slot.b is not None]
    return dict(paired), {b: b for _, b in paired}


def differing_operands(match: Match, x: int, y: int) -> tuple[int, ...]:
    """Places at which the operands of a pair are neither partners nor the same constants."""
    below_a, below_b = match.a.module.operands[x], match.b.module.operands[y]
    differ = (
        k
        for k, (p, q) in enumerate(zip(below_a, below_b, strict=False))
        if not same_value(match, p, q)
    )
    shorter, longer = sorted((len(below_a), len(below_b)))
    return (*differ, *range(shorter, longer))


def same_value(match: Match, p: int, q: int) -> bool:
    """Whether two instructions are partners, or constants of one value."""
    a, b = match.a, match.b
    if match.to_b[p] == q:
        return True
    if not (a.closed[p] and b.closed[q]):
        return False
    if a.expressions[p] >= 0 and b.expressions[q] >= 0:
        return a.expressions[p] == b.expressions[q]
    return a.labels[p] == b.labels[q] and not a.module.operands[p] and not b.module.operands[q]


class _Finder:
    def __init__(self, match: Match):
        self.match = match
        self.a, self.b = match.a.module, match.b.module
        self.closed_a, self.closed_b = match.a.closed, match.b.closed

    def changes(self) -> list[Change]:
        """Pairs that differ, in A's order, the entry's root tuple left out."""
        match, a, b = self.match, self.a, self.b
        labels_a, labels_b = match.a.labels, match.b.labels
        operands_a, operands_b = a.operands, b.operands
        waits_a, waits_b = a.controls, b.controls
        live, partner_of = match.a.live, match.to_b.__getitem__
        root = a.entry_computation.root
        channels = frozenset[int]() if match.exact else other_channels(match)
        found = []
        for x, y in enumerate(match.to_b):
            if y < 0 or not live[x] or (x == root and a.opcodes[x] == "tuple"):
                continue
            fields: list[str] = []
            if labels_a[x] != labels_b[y]:
                fields += self._label_fields(x, y)
            if x in channels and "attributes" not in fields:
                fields.append("attributes")
            if tuple(map(partner_of, operands_a[x])) != operands_b[y] and (
                not self._operands_agree(operands_a[x], operands_b[y])
            ):
                fields.append("operands")
            if x in a.callees and not self._callees_agree(x, y):
                fields.append("callees")
            if (x in waits_a or y in waits_b) and (
                tuple(map(partner_of, waits_a.get(x, ()))) != waits_b.get(y, ())
            ):
                fields.append("controls")
            if fields:
                found.append(Change(x, y, tuple(fields)))
        return found

    def _label_fields(self, x: int, y: int) -> list[str]:
        shape_a, opcode_a, payload_a, attributes_a = instruction_text(self.a, x, Level.NAMES)
        shape_b, opcode_b, payload_b, attributes_b = instruction_text(self.b, y, Level.NAMES)
        fields = []
        if opcode_a != opcode_b:
            fields.append("opcode")
        if without_layout(shape_a) != without_layout(shape_b):
            fields.append("shape")
        elif shape_a != shape_b:
            fields.append("layout")
        if payload_a != payload_b:
            fields.append("payload")
        if attributes_a != attributes_b:
            fields.append("attributes")
        if opcode_a == "parameter" and "payload" in fields and len(fields) > 1:
            fields.remove("payload")
        return fields

    def _operands_agree(self, below_a: Sequence[int], below_b: Sequence[int]) -> bool:
        """Whether operands are paired place by place, or the same constants."""
        return len(below_a) == len(below_b) and all(
            same_value(self.match, p, q) for p, q in zip(below_a, below_b, strict=True)
        )

    def _callees_agree(self, x: int, y: int) -> bool:
        """Whether two calls lead to paired computations: what differs inside is told there."""
        called_a, called_b = self.a.callees[x], self.b.callees.get(y, ())
        numbers_a, numbers_b = self.match.a.computations, self.match.b.computations
        return len(called_a) == len(called_b) and all(
            self.match.computations.get(c) == d or numbers_a[c] == numbers_b[d]
            for c, d in zip(called_a, called_b, strict=True)
        )

    def unpaired(self, partners: Sequence[int], *, forward: bool) -> tuple[tuple[int, ...], int]:
        """Live instructions without a partner, and how many repeated constants were left out."""
        side, other = (self.match.a, self.match.b) if forward else (self.match.b, self.match.a)
        closed = self.closed_a if forward else self.closed_b
        elsewhere = {number for number in other.expressions if number >= 0}
        found, constants = [], 0
        for i, partner in enumerate(partners):
            if partner >= 0 or not side.live[i]:
                continue
            if closed[i] and side.expressions[i] in elsewhere:
                constants += 1
            else:
                found.append(i)
        return tuple(found), constants

    def dead(self, *, forward: bool) -> int:
        """Instructions of reachable computations that nothing needs."""
        side = self.match.a if forward else self.match.b
        return len(side.live) - sum(side.live)

    def metadata_changes(self) -> int:
        """Paired instructions that come from another line or framework op."""
        known: dict[tuple[str, str], bool] = {}
        count = 0
        for x, y in enumerate(self.match.to_b):
            if y < 0:
                continue
            texts = self.a.attributes[x].metadata, self.b.attributes[y].metadata
            if texts not in known:
                known[texts] = _come_from_elsewhere(self.a.metadata(x), self.b.metadata(y))
            count += known[texts]
        return count


def _come_from_elsewhere(one: Metadata | None, other: Metadata | None) -> bool:
    """Whether two instructions come from different places, as far as both say where.

    Numbers of stack frames are a module's own, so that not texts but lines are compared: the
    innermost ones, since the text of torch_xla has no others.
    """
    if one is None or other is None:
        return False
    lines = ([frame[:2] for frame in side.frames[:1]] for side in (one, other))
    return one[:2] != other[:2] or next(lines) != next(lines)
