"""How a change of types or sizes propagates: which changed instructions feed which.

Changes that reach one another make up one propagation; what nothing in it feeds is its origin.
Two changes that never meet are two, so that neither is taken for the other's consequence.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.graph import Module


CONTAINERS = frozenset({"tuple", "while", "conditional", "call", "fusion", "custom-call"})
"""Opcodes whose operands need not have anything in common."""
MAX_STEPS = 32
"""Unchanged instructions looked at between two that stand on one side only."""


@dataclass(frozen=True, slots=True, eq=False)
class Propagation:
    """Changed instructions that hang together, by number, and where they start."""

    pairs: Mapping[int, int]
    """A's to B's."""
    lone_a: frozenset[int]
    lone_b: frozenset[int]
    origins: tuple[tuple[int, int], ...]
    """Pairs that no other member feeds; -1 stands for the side where the instruction is not."""

    def __len__(self) -> int:
        """Number of changed pairs and of instructions on one side."""
        return len(self.pairs) + len(self.lone_a) + len(self.lone_b)


def propagations(
    case: Case, pairs: Mapping[int, int], lone_a: Sequence[int] = (), lone_b: Sequence[int] = ()
) -> list[Propagation]:
    """Puts changed pairs, and instructions of one side, together by who feeds whom.

    Instructions of one side may feed each other through others that did not change.
    """
    links = _Links(pairs, lone_a, lone_b)
    for module, members, lone in (
        (case.diff.a, links.in_a, lone_a),
        (case.diff.b, links.in_b, lone_b),
    ):
        links.follow(module, members)
        links.meet(module, members)
        links.bridge(module, members, lone)
    return links.propagations()


def together(found: Sequence[Propagation]) -> Propagation:
    """Several that have one reason, as one."""
    return Propagation(
        {x: y for one in found for x, y in one.pairs.items()},
        frozenset[int]().union(*(one.lone_a for one in found)),
        frozenset[int]().union(*(one.lone_b for one in found)),
        tuple(start for one in found for start in one.origins),
    )


class _Links:
    """Members by number: pairs go by A's instruction, B's lone ones by ``-1 - y``."""

    def __init__(self, pairs: Mapping[int, int], lone_a: Sequence[int], lone_b: Sequence[int]):
        self.pairs = pairs
        self.in_a = {x: x for x in (*pairs, *lone_a)}
        self.in_b = {y: x for x, y in pairs.items()} | {y: -1 - y for y in lone_b}
        self.above = {member: member for member in (*self.in_a, *(-1 - y for y in lone_b))}
        self.fed: set[int] = set()

    def follow(self, module: Module, members: Mapping[int, int]) -> None:
        """Links the members of one side through operands and calls."""
        for i, member in members.items():
            for o in module.operands[i]:
                self._link(members.get(o), member)
        for source, target in call_edges(module):
            if source in members and target in members:
                self._link(members[source], members[target])

    def meet(self, module: Module, members: Mapping[int, int]) -> None:
        """Links members that an operation takes in together and must have alike."""
        for i in {u for m in members for u in module.users[m]}.difference(members):
            if module.opcodes[i] not in CONTAINERS:
                first, *others = [members[o] for o in module.operands[i] if o in members]
                for other in others:
                    self.above[self._top(other)] = self._top(first)

    def bridge(self, module: Module, members: Mapping[int, int], lone: Sequence[int]) -> None:
        """Links lone members that nothing feeds to lone ones a few steps above them."""
        for i in lone:
            if members[i] in self.fed:
                continue
            seen = list(module.operands[i])
            for o in seen:  # grows while it is read
                if o in lone:
                    self._link(members[o], members[i])
                elif o not in members and len(seen) < MAX_STEPS:
                    seen += [p for p in module.operands[o] if p not in seen]

    def _link(self, source: int | None, target: int) -> None:
        if source is not None and source != target:
            self.fed.add(target)
            self.above[self._top(source)] = self._top(target)

    def _top(self, member: int) -> int:
        while self.above[member] != member:
            self.above[member] = self.above[self.above[member]]
            member = self.above[member]
        return member

    def propagations(self) -> list[Propagation]:
        """One for each set of linked members, in the order of A's instructions."""
        groups: dict[int, list[int]] = defaultdict(list)
        for member in sorted(self.above):
            groups[self._top(member)].append(member)
        return [self._propagation(group) for group in groups.values()]

    def _propagation(self, group: list[int]) -> Propagation:
        starts = [m for m in group if m not in self.fed] or group[:1]
        return Propagation(
            {m: self.pairs[m] for m in group if m in self.pairs},
            frozenset(m for m in group if m >= 0 and m not in self.pairs),
            frozenset(-1 - m for m in group if m < 0),
            tuple((m, self.pairs.get(m, -1)) if m >= 0 else (-1, -1 - m) for m in starts),
        )


def call_edges(module: Module) -> Iterator[tuple[int, int]]:
    """Where values pass into called computations and out of them: from, to."""
    for i, callees in module.callees.items():
        for number, c in enumerate(callees):
            computation = module.computations[c]
            yield computation.root, i
            for k, parameter in enumerate(computation.parameters):
                for operand in passed(module, i, number, k):
                    yield operand, parameter


def passed(module: Module, caller: int, callee: int, parameter: int) -> Sequence[int]:
    """The operands of a call that a parameter of its `callee`-th computation may stand for."""
    operands, opcode = module.operands[caller], module.opcodes[caller]
    if opcode == "while":
        return operands[:1]
    if opcode == "conditional":
        return operands[callee + 1 : callee + 2]
    if opcode in ("call", "fusion", "async-start"):
        return operands[parameter : parameter + 1]
    return operands
