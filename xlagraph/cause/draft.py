"""A module that can be edited: where causes are undone to prove them.

Instruction numbers stay what they were, so several causes can be undone one after another.
What the outputs no longer need is dead, and the comparison ignores it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

from xlagraph.canon.live import mark, roots
from xlagraph.diff.match import output_values
from xlagraph.graph import Attributes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xlagraph.graph import Module


NO_ATTRIBUTES = Attributes("", (), "", (), ())
UNDONE = "undone"
"""Opcode of an instruction, or number of a parameter, that stands for what was set aside."""


IDLE = {"parameter", "constant", "tuple", "get-tuple-element", UNDONE}
"""What computes nothing: two modules that have only these in common have nothing in common."""


def is_input(module: Module, i: int) -> bool:
    """Whether an instruction is a parameter of the module as it was."""
    return module.opcodes[i] == "parameter" and module.payloads[i] != UNDONE


class Draft:
    """A copy of a module's columns, edited in place and turned back by `build`."""

    def __init__(self, module: Module):
        self.module = module
        self.opcodes = list(module.opcodes)
        self.shapes = list(module.shapes)
        self.operands = list(module.operands)
        self.attributes: list[Attributes] = list(module.attributes)
        self.payloads = dict(module.payloads)
        self.outputs: list[int] = list(output_values(module))
        self.extra_parameters: list[int] = []
        self.replaced: dict[int, int] = {}
        """What stands for an instruction that has no users any more."""

    def copy(self) -> Draft:
        """Another draft in the same state."""
        other = object.__new__(Draft)
        other.module = self.module
        other.opcodes = list(self.opcodes)
        other.shapes = list(self.shapes)
        other.operands = list(self.operands)
        other.attributes = list(self.attributes)
        other.payloads = dict(self.payloads)
        other.outputs = list(self.outputs)
        other.extra_parameters = list(self.extra_parameters)
        other.replaced = dict(self.replaced)
        return other

    def become(self, module: Module) -> None:
        """Turns into a draft of another module, whose instructions have numbers of their own."""
        vars(self).update(vars(Draft(module)))

    def keep_outputs(self, positions: Sequence[int]) -> Sequence[int]:
        """Keeps these outputs, by their present positions, in this order; returns them.

        A root that is no tuple is the only output and stays.
        """
        if self.opcodes[self.module.entry_computation.root] != "tuple":
            positions = range(len(self.outputs))
        self.outputs = [self.outputs[k] for k in positions]
        return positions

    def become_parameter(self, instructions: Iterable[int], shape: str) -> None:
        """Turns instructions into one new entry parameter that all of them stand for."""
        first, *others = sorted(instructions)
        self.opcodes[first] = "parameter"
        self.operands[first] = ()
        self.attributes[first] = NO_ATTRIBUTES
        self.shapes[first] = shape
        self.payloads[first] = UNDONE
        self.extra_parameters.append(first)
        self.replace_uses(dict.fromkeys(others, first))

    def become_undone(self, i: int, operands: Sequence[int], mark: str = "") -> None:
        """Turns an instruction into one that stands for any way to compute its value.

        Those with different marks are different values.
        """
        self.opcodes[i] = UNDONE
        self.operands[i] = tuple(operands)
        self.attributes[i] = NO_ATTRIBUTES
        self.payloads[i] = mark

    def replace_uses(self, partners: Mapping[int, int]) -> None:
        """Lets every user of a key use the value instead, or what stands for that by now."""
        for i, value in partners.items():
            standing = self._standing_for(value)
            if standing != i:
                self.replaced[i] = standing
        partners = {i: self.replaced.get(i, i) for i in partners}
        for i, operands in enumerate(self.operands):
            if any(o in partners for o in operands):
                self.operands[i] = tuple(partners.get(o, o) for o in operands)
        self.outputs = [partners.get(o, o) for o in self.outputs]

    def _standing_for(self, value: int) -> int:
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def bypass(self, instructions: Iterable[int]) -> None:
        """Lets the users of conversions, copies and the like use the first operand."""
        partners: dict[int, int] = {}
        for i in sorted(instructions):
            operand = self.operands[i][0]
            partners[i] = partners.get(operand, operand)
        self.replace_uses(partners)

    def replace_outputs(self, partners: dict[int, int]) -> None:
        """Gives back the value instead of its key."""
        self.outputs = [partners.get(o, o) for o in self.outputs]

    def build(self) -> Module:
        """The edited module; parameters that only dropped outputs needed are gone."""
        module = self.module
        entry = module.entry_computation
        root = entry.root
        operands = list(self.operands)
        if module.opcodes[root] == "tuple":
            operands[root] = tuple(self.outputs)
            self.shapes[root] = "tuple"
        before, after = bytearray(len(module)), bytearray(len(module))
        starts = roots(module, entry)
        mark(module, before, starts)
        edited = replace(
            module,
            opcodes=self.opcodes,
            shapes=self.shapes,
            operands=operands,
            attributes=self.attributes,
            payloads=self.payloads,
            callees={
                i: called
                for i, called in module.callees.items()
                if self.opcodes[i] not in ("parameter", UNDONE)
            },
        )
        mark(edited, after, starts)
        parameters = [p for p in entry.parameters if after[p] or not before[p]]
        parameters += [p for p in self.extra_parameters if after[p]]
        computations = list(module.computations)
        computations[module.entry] = replace(entry, parameters=tuple(parameters))
        return replace(edited, computations=tuple(computations))


def live_work(module: Module, live: bytearray | None = None) -> int:
    """How many instructions that compute something the entry's root and effects need.

    `live`: what they need, where that is known already.
    """
    entry = module.entry_computation
    if live is None:
        live = bytearray(len(module))
        mark(module, live, roots(module, entry))
    span = slice(entry.start, entry.stop)
    needed = Counter(compress(module.opcodes[span], live[span]))
    return needed.total() - sum(needed[opcode] for opcode in IDLE)


def called_only_by(module: Module, callers: Collection[int]) -> set[int]:
    """The instructions of computations that nothing but `callers`, or each other, calls."""
    called: set[int] = set()
    others: set[int] = set()
    for i, callees in module.callees.items():
        (called if i in callers else others).update(callees)
    mine = called - others
    found: set[int] = set()
    while mine:
        computation = module.computations[mine.pop()]
        body = range(computation.start, computation.stop)
        found.update(body)
        inner = {c for i in body for c in module.callees.get(i, ())}
        mine |= {c for c in inner if module.computations[c].start not in found}
    return found


def exclusive_slice(module: Module, dropped: Iterable[int], extra: Sequence[int] = ()) -> set[int]:
    """The instructions that only the outputs at these positions need, `extra` values kept."""
    gone = set(dropped)
    entry = module.entry_computation
    root, *effects = roots(module, entry)
    values = output_values(module)
    if module.opcodes[root] != "tuple":
        return set()
    kept, wanted = bytearray(len(module)), bytearray(len(module))
    mark(module, kept, [*effects, *extra, *(v for k, v in enumerate(values) if k not in gone)])
    mark(module, wanted, [values[k] for k in gone])
    return {i for i in range(entry.start, entry.stop) if wanted[i] and not kept[i]}
