"""The module editor: where causes are undone to prove them.

Instruction numbers stay what they were, so several causes can be undone one after another.
What the outputs no longer need is dead, and the comparison ignores it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.canon.live import mark, roots
from xlagraph.graph import Attributes
from xlagraph.message import A

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.graph import Module
    from xlagraph.message import Side

NO_ATTRIBUTES = Attributes("", (), "", (), ())
UNDONE = "undone"
"""Opcode of an instruction, or number of a parameter, that stands for what was set aside."""


def is_input(module: Module, i: int) -> bool:
    """Whether an instruction is a parameter of the module as it was."""
    return module.opcodes[i] == "parameter" and module.payloads[i] != UNDONE


class ModuleEditor:
    """A copy of a module's columns, edited in place and turned back by `build`.

    An edit costs as much as the instructions that it touches have users. `opcodes`, `shapes`,
    `attributes`, `payloads` and `callees` may be written directly. Operands are read from
    `operands` and written through `set_operands`, `replace_uses` or `bypass`, outputs through
    `replace_outputs`. For what has no column here, such as control edges, `module` is replaced by
    one with the same instructions.
    """

    def __init__(self, module: Module):
        self.module = module
        self.opcodes = list(module.opcodes)
        self.shapes = list(module.shapes)
        self.attributes: list[Attributes] = list(module.attributes)
        self.payloads = dict(module.payloads)
        self.callees = dict(module.callees)
        self.outputs: list[int] = list(module.outputs)
        self._operands = list(module.operands)
        self._new_users: dict[int, list[int]] = {}
        """Users that the module as it was does not have; those that it has may be gone."""
        self._inputs: list[int] = []
        self._standing: dict[int, int] = {}
        """What stands for an instruction that has no users any more."""

    def copy(self) -> ModuleEditor:
        """Another editor in the same state."""
        other = copy(self)
        vars(other).update((name, _copied(value)) for name, value in vars(self).items())
        return other

    def become(self, module: Module) -> None:
        """Turns into an editor of another module, whose instructions have their own numbers."""
        vars(self).update(vars(ModuleEditor(module)))

    @property
    def operands(self) -> Sequence[tuple[int, ...]]:
        """The operands of each instruction by now."""
        return self._operands

    def users(self, i: int) -> Iterator[int]:
        """The instructions that take in `i` by now."""
        known = dict.fromkeys((*self.module.users[i], *self._new_users.get(i, ())))
        return (user for user in known if i in self._operands[user])

    def set_operands(self, i: int, operands: Sequence[int]) -> None:
        """Lets an instruction take in these values."""
        self._operands[i] = tuple(operands)
        for o in operands:
            self._new_users.setdefault(o, []).append(i)

    def set_operand(self, i: int, place: int, value: int) -> None:
        """Lets an instruction take in a value at one place, unless an earlier edit has ended that.

        It may have become a parameter, as two causes are undone that have nothing to do with it.
        """
        operands = list(self._operands[i])
        if place < len(operands):
            operands[place] = value
            self.set_operands(i, operands)

    def keep_outputs(self, positions: Sequence[int]) -> Sequence[int]:
        """Keeps these outputs, by their present positions, in this order; returns them.

        A root that is no tuple is the only output and stays.
        """
        if not self.module.gives_tuple:
            positions = range(len(self.outputs))
        self.outputs = [self.outputs[k] for k in positions]
        return positions

    def become_parameter(self, instructions: Iterable[int], shape: str) -> None:
        """Turns instructions into one new entry parameter that all of them stand for."""
        first, *others = sorted(instructions)
        self.opcodes[first] = "parameter"
        self._operands[first] = ()
        self.attributes[first] = NO_ATTRIBUTES
        self.shapes[first] = shape
        self.payloads[first] = UNDONE
        self._inputs.append(first)
        self.replace_uses(dict.fromkeys(others, first))

    def become_undone(self, i: int, operands: Sequence[int], mark: str = "") -> None:
        """Turns an instruction into one that stands for any way to compute its value.

        Those with different marks are different values.
        """
        self.opcodes[i] = UNDONE
        self.set_operands(i, operands)
        self.attributes[i] = NO_ATTRIBUTES
        self.payloads[i] = mark

    def replace_uses(self, partners: Mapping[int, int]) -> None:
        """Lets every user of a key use the value instead, or what stands for that by now."""
        for i, value in partners.items():
            standing = self._standing_for(value)
            if standing != i:
                self._standing[i] = standing
        now = {i: self._standing.get(i, i) for i in partners}
        for i, standing in now.items():
            if standing != i:
                self._move_users(i, standing)
        if now:
            self.replace_outputs(now)

    def _move_users(self, i: int, value: int) -> None:
        root = self.module.entry_computation.root  # a tuple is made anew of the outputs
        users = [u for u in self.users(i) if u != root or not self.module.gives_tuple]
        for user in users:
            self._operands[user] = tuple([value if o == i else o for o in self._operands[user]])
        self._new_users.setdefault(value, []).extend(users)

    def _standing_for(self, value: int) -> int:
        while value in self._standing:
            value = self._standing[value]
        return value

    def bypass(self, instructions: Iterable[int]) -> None:
        """Lets the users of conversions, copies and the like use the first operand."""
        partners: dict[int, int] = {}
        for i in sorted(instructions):
            operand = self._operands[i][0]
            partners[i] = partners.get(operand, operand)
        self.replace_uses(partners)

    def replace_outputs(self, partners: Mapping[int, int]) -> None:
        """Gives back the value instead of its key."""
        self.outputs = [partners.get(o, o) for o in self.outputs]

    def build(self) -> Module:
        """The edited module; parameters that only dropped outputs needed are gone."""
        module = self.module
        entry = module.entry_computation
        root = entry.root
        operands = list(self._operands)
        if module.gives_tuple:
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
                for i, called in self.callees.items()
                if self.opcodes[i] not in ("parameter", UNDONE)
            },
        )
        mark(edited, after, starts)
        parameters = [p for p in entry.parameters if after[p] or not before[p]]
        parameters += [p for p in self._inputs if after[p]]
        computations = list(module.computations)
        computations[module.entry] = replace(entry, parameters=tuple(parameters))
        return replace(edited, computations=tuple(computations))


def _copied(value: object) -> object:
    """A column that can be written without the one it was copied from; values are shared."""
    if isinstance(value, dict):
        return {key: list(one) if isinstance(one, list) else one for key, one in value.items()}
    return list(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, eq=False)
class Editors:
    """The editors of both modules, on which a finding undoes its cause."""

    a: ModuleEditor
    b: ModuleEditor

    def __getitem__(self, side: Side) -> ModuleEditor:
        return self.a if side is A else self.b

    def __iter__(self) -> Iterator[ModuleEditor]:
        return iter((self.a, self.b))
