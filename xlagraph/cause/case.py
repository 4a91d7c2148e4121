"""What a rule is asked about: two modules, what differs, and what is accounted for already."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Context
from xlagraph.cause.sources import where
from xlagraph.message import A, B

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff, Slot
    from xlagraph.diff.match import Side as Matched
    from xlagraph.graph import Module
    from xlagraph.message import Side, SourceLine
    from xlagraph.tensors import Tensor

    Identity = Callable[["SideView", int], Hashable]

T = TypeVar("T")

MAX_STEPS = 8
"""Instructions between an output and the one that took its place."""


@dataclass(frozen=True, slots=True, eq=False)
class SideView:
    """One of the two modules, as seen from there: own instructions, and partners in the other."""

    side: Side
    matched: Matched
    """Labels, liveness and expressions of the module's instructions."""
    partners: Sequence[int]
    """For each instruction its partner in the other module, or -1."""
    lone: tuple[int, ...]
    """Live instructions without a partner, ascending."""
    context: Context
    claimed: set[int] = field(default_factory=set)
    """Instructions that findings account for already."""
    dropped: set[int] = field(default_factory=set)
    """Positions of outputs that findings have set aside."""

    @property
    def module(self) -> Module:
        """The module itself."""
        return self.matched.module

    @property
    def is_a(self) -> bool:
        """Whether this is the module compared from."""
        return self.side is A

    def ab(self, own: T, other: T) -> tuple[T, T]:
        """What belongs to this module and what to the other one, in the order A, B."""
        return (own, other) if self.is_a else (other, own)

    def mine(self, pair: tuple[T, T]) -> T:
        """Of what belongs to A and what belongs to B the part of this module."""
        return pair[0] if self.is_a else pair[1]

    def own(self, slot: Slot) -> int | None:
        """This module's position of a parameter or output."""
        return slot.a if self.is_a else slot.b

    def theirs(self, slot: Slot) -> int | None:
        """The other module's position of a parameter or output."""
        return slot.b if self.is_a else slot.a

    def input_tensor(self, parameter: int) -> Tensor | None:
        """The tensor that this entry parameter is; None if not known."""
        return self.context.input_tensor(self.module, parameter)

    def open_lone(self) -> list[int]:
        """Instructions without a partner that nothing accounts for yet."""
        return [i for i in self.lone if i not in self.claimed]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The two modules, their difference, and what is already accounted for.

    A rule begins with what is open: `open_changes` (what their fields mean: `xlagraph.diff.Change`)
    and `SideView.open_lone`. Where the pair that it looks for need not be changed itself, as a call
    of which the computation differs, it walks all pairs instead, (x, ``case.a.partners[x]``) for x
    in ``case.diff.a.callees``, say, and leaves out what is not live (``case.a.matched.live``) or
    claimed. What takes more than that is a fact: see `xlagraph.facts`.
    """

    diff: Diff
    a: SideView
    b: SideView

    @classmethod
    def of(
        cls, diff: Diff, context_a: Context | None = None, context_b: Context | None = None
    ) -> Case:
        """A case in which nothing is accounted for."""
        match = diff.match
        return cls(
            diff,
            SideView(A, match.a, match.to_b, diff.removed, context_a or Context()),
            SideView(B, match.b, match.to_a, diff.added, context_b or Context()),
        )

    @property
    def both_ways(self) -> tuple[tuple[SideView, SideView], tuple[SideView, SideView]]:
        """Each side with the other one: A first, then B first."""
        return (self.a, self.b), (self.b, self.a)

    def program(self, line: SourceLine) -> Mapping[int, str]:
        """The lines that are known of this one's file, by number."""
        mine, other = (view.context.program.get(line.file, {}) for view in (self.b, self.a))
        return mine if line.line in mine else other

    def open_changes(self) -> list[tuple[int, int, tuple[str, ...]]]:
        """Changed pairs that no finding has claimed yet."""
        return [
            (c.a, c.b, c.fields)
            for c in self.diff.changes
            if c.a not in self.a.claimed and c.b not in self.b.claimed
        ]

    def changed_alone(self, field_name: str) -> list[tuple[int, int]]:
        """Open pairs that differ in one field only, such as ``attributes``."""
        return [(x, y) for x, y, fields in self.open_changes() if fields == (field_name,)]

    def unpaired_outputs(self, view: SideView, *, replaced: bool = False) -> list[int]:
        """Output positions of one side without a partner, not yet set aside.

        Those computed in another way on the other side are among them if `replaced`.
        """
        taken = set(view.dropped)
        if not replaced:
            taken |= {view.mine(pair) for pair in self.replaced_outputs()}
        return [
            own
            for slot in self.diff.outputs
            if (own := view.own(slot)) is not None
            and view.theirs(slot) is None
            and own not in taken
        ]

    def replaced_outputs(self) -> list[tuple[int, int]]:
        """Outputs of A and of B that are the same tensor, computed in another way.

        They are identified by name, by one being computed from the other, by creation line and
        shape, by place and shape; in this order.
        """
        left_a, left_b = (
            sorted(
                {
                    own
                    for slot in self.diff.outputs
                    if (own := view.own(slot)) is not None and view.theirs(slot) is None
                }
                - view.dropped
            )
            for view in (self.a, self.b)
        )
        found: list[tuple[int, int]] = []
        if not (left_a and left_b):
            return found
        for identity in (_name, self._successor(left_a, left_b), _line, self._place()):
            free: dict[Hashable, list[int]] = {}
            for position in left_b:
                free.setdefault(identity(self.b, position), []).append(position)
            for position in left_a:
                key = identity(self.a, position)
                if key is not None and free.get(key):
                    found.append((position, free[key].pop(0)))
            taken_a, taken_b = {x for x, _ in found}, {y for _, y in found}
            left_a = [p for p in left_a if p not in taken_a]
            left_b = [p for p in left_b if p not in taken_b]
        return sorted(found)

    def _place(self) -> Identity:
        """Identifies an output by the paired outputs it stands between, with its shape."""
        stable = [s for s in self.diff.outputs if s.a is not None and s.b is not None]
        paired = {
            A: sorted(s.a for s in stable if s.a is not None),
            B: sorted(s.b for s in stable if s.b is not None),
        }

        def place(view: SideView, position: int) -> Hashable:
            shape = bare_shape(view.module, view.module.outputs[position])
            return bisect_left(paired[view.side], position), shape

        return place

    def _successor(self, places_a: list[int], places_b: list[int]) -> Identity:
        """Identifies an output by the value that the other side computes from it.

        Copies of it are told apart by their order alone.
        """
        found: dict[int, int] = {}
        places = {A: places_a, B: places_b}
        for one, other in self.both_ways:
            ends = {other.module.outputs[k] for k in places[other.side]}
            for position in places[one.side]:
                own = one.module.outputs[position]
                value = one.partners[own]
                for _ in range(MAX_STEPS):
                    users = other.module.users[value] if value >= 0 and value not in ends else ()
                    value = users[0] if len(users) == 1 else value
                if value in ends:
                    found.setdefault(*one.ab(own, value))

        def successor(view: SideView, position: int) -> Hashable:
            value = view.module.outputs[position]
            return found.get(value) if view.is_a else value

        return successor

    def claim(self, finding: Finding) -> None:
        """Takes note of what a finding accounts for; outputs are set aside in pairs."""
        self.a.claimed.update(finding.a)
        self.b.claimed.update(finding.b)
        replaced = self.replaced_outputs() if finding.dropped_a or finding.dropped_b else []
        gone = [(x, y) for x, y in replaced if x in finding.dropped_a or y in finding.dropped_b]
        self.a.dropped.update(finding.dropped_a, (x for x, _ in gone))
        self.b.dropped.update(finding.dropped_b, (y for _, y in gone))


def _name(view: SideView, position: int) -> Hashable:
    return view.context.outputs.get(position)


def _line(view: SideView, position: int) -> Hashable:
    value = view.module.outputs[position]
    line: SourceLine | None = next(iter(where(view.module, [value])), None)
    return (line, bare_shape(view.module, value)) if line else None
