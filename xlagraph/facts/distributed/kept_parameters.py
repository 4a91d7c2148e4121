"""Full parameters that FSDP gathered in one step and kept until the next.

FSDP frees what it gathered when the last of its callbacks has run. With gradients left in a
bucket it has not, so the next step takes the full parameter in as it was, ready-made, where
another graph gathers the shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.facts.values.opcodes import PLUMBING
from xlagraph.facts.values.scalars import is_number
from xlagraph.message import count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

MAX_STEPS = 24
"""Instructions between a shard and the full parameter."""
GATHERS = frozenset({"all-gather"})
TOKENS = frozenset({"add", "multiply"})
"""Opcodes that add a token, a scalar at every place, to what a collective takes in."""


class Use(NamedTuple):
    """Where the kept parameter stands: an instruction and a place among its operands."""

    user: int
    place: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A full parameter that one module takes in ready-made and the other one gathers."""

    side: Side
    """The module that takes it in."""
    parameter: int
    uses: tuple[Use, ...]
    outputs: tuple[int, ...]
    """Positions at which it is given back as it came."""
    gathered: int
    """The value that takes its place in the other module."""
    here: int
    """The same value, gathered in this module too; -1 if it is not."""
    way: tuple[int, ...]
    """How the other module gathers it, from the value down to the shard."""

    @property
    def shard(self) -> int:
        """The other module's input that it is gathered from."""
        return self.way[-1]

    def undo(self, edit: Editors) -> None:
        """Uses the value that this module gathers, else takes it for an input of both."""
        if self.here < 0:
            other = edit[self.side.other]
            other.become_parameter([self.gathered], other.shapes[self.gathered])
            return
        own = edit[self.side]
        for user, place in self.uses:
            own.set_operand(user, place, self.here)
        for position in self.outputs:
            own.outputs[position] = self.here


def kept_parameters(case: Case, opened: Diff) -> list[Kept]:
    """The full parameters that one module takes in where the other one gathers them.

    `opened` compares the modules without what only orders collectives.
    """
    return [kept for own in (case.a, case.b) for kept in _Finder(case, own, opened).find()]


def accounted(kept: Iterable[Kept], side: Side) -> frozenset[int]:
    """What they are on one side: inputs that came in ready-made, and ways to gather others."""
    found: set[int] = set()
    for one in kept:
        found.update((one.parameter,) if one.side is side else one.way[:-1])
    return frozenset(found)


class _Finder:
    """Looks in one module for full parameters that came in ready-made."""

    def __init__(self, case: Case, own: SideView, opened: Diff):
        match = opened.match
        modules, partners = (opened.a, opened.b), (match.to_b, match.to_a)
        theirs = case.b if own.is_a else case.a
        self.side = own.side
        self.own, self.other = own.mine(modules), theirs.mine(modules)
        self.live = own.mine((match.a, match.b)).live
        self.to_other, self.to_own = own.mine(partners), theirs.mine(partners)
        pairs = [*opened.outputs, *case.replaced_outputs()]
        both = ((own.mine(pair), theirs.mine(pair)) for pair in pairs)
        self.places = {mine: other for mine, other in both if None not in (mine, other)}
        """For each output the other module's in its place, where it has one."""
        self.taken = frozenset(self.places.values())

    def find(self) -> Iterator[Kept]:
        """Inputs without a partner that stand in the place of gathered values."""
        for q in self.own.entry_computation.parameters:
            kept = self._kept(q) if self.to_other[q] < 0 else None
            if kept:
                yield kept

    def _kept(self, q: int) -> Kept | None:
        root = self.own.entry_computation.root
        uses = [
            Use(u, k)
            for u in self.own.users[q]
            if u != root and self.live[u]
            for k, o in enumerate(self.own.operands[u])
            if o == q
        ]
        outputs = [k for k, o in enumerate(self.own.outputs) if o == q]
        values = {self._in_place(use) for use in uses}
        values |= {self._output_in_place(k) for k in outputs}
        value = next(iter(values)) if len(values) == 1 else -1
        if value < 0 or bare_shape(self.own, q) != bare_shape(self.other, value):
            return None
        way = gathering(self.other, value)
        if not way:
            return None
        here = self.to_own[value]
        return Kept(self.side, q, tuple(uses), tuple(outputs), value, here, way)

    def _in_place(self, use: Use) -> int:
        """What stands in the other module where this one uses the kept parameter, or -1."""
        user = self.to_other[use.user]
        operands = self.other.operands[user] if user >= 0 else ()
        return operands[use.place] if use.place < len(operands) else -1

    def _output_in_place(self, position: int) -> int:
        """What the other module gives back there; else the only such value without a partner."""
        place = self.places.get(position)
        if place is not None:
            return self.other.outputs[place]
        shape = bare_shape(self.own, self.own.outputs[position])
        free = {
            value
            for k, value in enumerate(self.other.outputs)
            if k not in self.taken
            and bare_shape(self.other, value) == shape
            and gathering(self.other, value)
        }
        return free.pop() if len(free) == 1 else -1


def gathering(module: Module, value: int) -> tuple[int, ...]:
    """The way from a full parameter down to the shard that it is gathered from, or ()."""
    way, has_gather = [value], False
    for _ in range(MAX_STEPS):
        i = way[-1]
        opcode, operands = module.opcodes[i], module.operands[i]
        if opcode == "parameter":
            return tuple(way) if has_gather else ()
        has_gather |= opcode in GATHERS
        if opcode in TOKENS:
            operands = tuple(o for o in operands if not is_number(module, o))
        elif opcode not in PLUMBING | GATHERS:
            return ()
        if len(operands) != 1:
            return ()
        way.append(operands[0])
    return ()


def kept_evidence(case: Case, kept: Sequence[Kept]) -> Iterator[Evidence]:
    """Full parameters that were not freed, a line for each side that takes some in."""
    for own, other in case.both_ways:
        mine = [one for one in kept if one.side is own.side]
        if not mine:
            continue
        cited = own.ab(tuple(one.parameter for one in mine), tuple(one.gathered for one in mine))
        waits = own.context.waiting or other.context.waiting
        why = ", since its callbacks wait too" if waits else ""
        names = (other.input_tensor(one.shard) for one in mine)
        shapes = [short_shape(own.module, one.parameter) for one in mine]
        yield Evidence(
            say(
                own.side,
                f" takes in {count(len(mine), 'full parameter')} that FSDP gathered in an earlier "
                f"step and has not freed{why}: ",
                join((n or s for n, s in zip(names, shapes, strict=True)), 4),
            ),
            *cited,
        )
