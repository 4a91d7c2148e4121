"""Where instructions of the backward pass come from: the forward operation they belong to.

PyTorch runs the backward pass in threads of its own, where torch_xla finds no Python frames. An
operation's derivative uses the operation's inputs, its result and the gradient of its result,
nothing else. What is known follows from that:

- **name**: ``gelu_backward`` belongs to a ``gelu`` that took or made a value it uses;
- **value**: an instruction that uses a value of the forward pass belongs to an operation that
  took or made this value, and whose derivative uses values; if it multiplies matrices, to one
  whose derivative does;
- **gradient**: what uses the gradient of a value belongs to the operation that made the value
  (to one of several, where the gradient was handed on unchanged, as additions do);
- **part**: what is used by the derivative of one operation only, and is no gradient, belongs to
  it, and so does what prepares its operands and its result.

Where this leaves more than one place in the program, nothing is said.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.hlo.origin.autograd import MATRIX, SAME, VIEWS, forward_names, has_matrix_derivative
from xlagraph.hlo.origin.flow import Flow
from xlagraph.hlo.origin.groups import Groups
from xlagraph.hlo.origin.step import VIEW_OPCODES, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xlagraph.graph import Module, SourceFrame

_HELPERS = VIEW_OPCODES | {"broadcast", "slice"}
"""Opcodes with which an operation prepares its operands and its result."""
_OWN_OPERATION = VIEWS | {"expand", "slice", "select", "narrow"}
"""Operations that are nothing but such an opcode."""


class Origin(NamedTuple):
    """The forward operation that an instruction of the backward pass belongs to."""

    instruction: int
    """One of the operation's instructions."""
    operation: str
    """The operation's name, such as ``aten__gelu``."""
    frames: tuple[SourceFrame, ...]
    """The operation's Python frames, innermost first."""
    rule: str
    """How it was found: ``name``, ``value``, ``gradient`` or ``part``."""

    def __str__(self) -> str:
        return f"backward of {self.operation}"


def find_origins(module: Module) -> Mapping[int, Origin]:
    """Origins of the entry's instructions that have a framework operation, but no frames.

    Those for which there is no proof are left out. Needs whole stacks, as the
    protobufs of captures from level 1 on have them; linear in instructions plus operands.
    """
    step = Step(module)
    if not step.backward:
        return {}
    search = _Search(step)
    search.by_name()
    search.by_value()
    search.by_gradient()
    search.by_part()
    return {i: search.origin(i) for i in sorted(search.found)}


class _Search:
    """Finds the forward node of each backward instruction, rule by rule."""

    def __init__(self, step: Step):
        self.step = step
        self.module = step.module
        self.backward = sorted(step.backward)
        self.found: dict[int, int] = {}
        """A forward node, by backward instruction."""
        self.rules: dict[int, str] = {}
        self.fitting: dict[int, frozenset[int]] = {}
        """All nodes that fit, by backward instruction; they are at one place."""
        self.forward_names = {i: forward_names(step.names[i]) for i in self.backward}
        self.groups = Groups()
        """Instructions of derivatives that have a name of their own."""
        for i in self.backward:
            for operand in self.module.operands[i] if self.forward_names[i] else ():
                if operand in step.backward and step.names[operand] == step.names[i]:
                    self.groups.join(i, operand)

    def origin(self, i: int) -> Origin:
        """What was found about an instruction."""
        node = self.found[i]
        metadata = self.module.metadata(node)
        assert metadata is not None
        return Origin(node, metadata.op_type, metadata.frames, self.rules[i])

    def by_name(self) -> None:
        """Derivatives with a name of their own; all instructions of one belong together."""
        step = self.step
        evidence: dict[int, list[frozenset[int]]] = defaultdict(list)
        for i in self.backward:
            for operand in self.module.operands[i] if self.forward_names[i] else ():
                nodes = step.near.get(step.roots[operand], frozenset())
                fitting = [n for n in nodes if step.names[n] in self.forward_names[i]]
                if fitting and operand not in step.backward:
                    evidence[self.groups.find(i)].append(frozenset(fitting))
        for i in self.backward:
            if self.forward_names[i]:
                self._settle(i, evidence[self.groups.find(i)], "name")

    def by_value(self) -> None:
        """Instructions that use values of the forward pass."""
        for i in self.backward:
            if not self.forward_names[i]:
                self._settle(i, list(self._value_evidence(i)), "value")

    def _value_evidence(self, i: int) -> Iterator[frozenset[int]]:
        """For each operand that tells something the nodes that it may come from."""
        step = self.step
        for operand in self.module.operands[i]:
            root = step.roots[self._unprepared(operand, i)]
            if root in step.backward:
                if root in self.fitting and root not in step.gradient:
                    yield self.fitting[root]
            elif root not in step.gradient and root in step.telling:
                nodes = step.near.get(root, frozenset()) & step.saved
                if step.names[i] in MATRIX:
                    nodes = frozenset(n for n in nodes if has_matrix_derivative(step.names[n]))
                if nodes:
                    yield nodes

    def by_gradient(self) -> None:
        """Instructions that use a gradient, where it is known whose gradient that is."""
        step = self.step
        known: dict[int, set[int]] = defaultdict(set)
        for i in self.backward:
            gradients = self._gradients(i)
            if len(self.fitting.get(i, ())) == 1 and len(gradients) == 1:
                known[gradients.pop()].add(self.found[i])
        flow = Flow(step)
        for i in self.backward:
            if i in self.found or step.names[i] in SAME | {"add"}:
                continue
            gradients = self._gradients(i)
            nodes = known.get(gradients.pop(), set()) if len(gradients) == 1 else set()
            names = self.forward_names[i]
            if names and not all(step.names[node] in names for node in nodes):
                continue
            stacks = {step.stacks[node] for node in nodes}
            if len(stacks) == 1 and all(flow.makers(node) == stacks for node in nodes):
                self.found[i], self.rules[i] = min(nodes), "gradient"

    def _gradients(self, i: int) -> set[int]:
        """The gradients that an instruction, or its whole derivative, is made of."""
        step = self.step
        found = set()
        for operand in self.module.operands[i]:
            if self.forward_names[i] and self.groups.find(operand) == self.groups.find(i):
                continue
            source = self._unprepared(operand, i)
            if source in step.gradient:
                found.add(step.roots[source])
        return found

    def by_part(self) -> None:
        """Operands and results of derivatives that were found."""
        step, users = self.step, self.module.users
        for i in self.backward:
            operands = self.module.operands[i]
            if i in self.found or not self._is_helper(i) or operands[0] not in self.found:
                continue
            if step.names[operands[0]] == step.names[i]:
                self.found[i], self.rules[i] = self.found[operands[0]], "part"
        for i in reversed(self.backward):
            if i in self.found or not users[i] or not all(u in self.found for u in users[i]):
                continue
            nodes = {self.found[user] for user in users[i]}
            is_own = all(step.names.get(user) == step.names[i] for user in users[i])
            prepares = is_own and (self._is_helper(i) or self.module.opcodes[i] == "constant")
            is_value = i not in step.gradient and bool(self.module.operands[i])
            if (prepares or is_value) and len({step.stacks[node] for node in nodes}) == 1:
                self.found[i], self.rules[i] = min(nodes), "part"

    def _is_helper(self, i: int) -> bool:
        opcode, name = self.module.opcodes[i], self.step.names[i]
        return opcode in _HELPERS and name not in _OWN_OPERATION

    def _unprepared(self, operand: int, user: int) -> int:
        """What an operand was before the operation brought it into shape."""
        step = self.step
        while (
            operand in step.backward
            and step.names[operand] == step.names[user]
            and self.module.opcodes[operand] in _HELPERS
        ):
            operand = self.module.operands[operand][0]
        return operand

    def _settle(self, i: int, evidence: Sequence[frozenset[int]], rule: str) -> None:
        """Notes the node on which all evidence agrees, or one of several at one place."""
        if not evidence:
            return
        nodes = frozenset.intersection(*evidence)
        if len({self.step.stacks[node] for node in nodes}) != 1:
            return
        self.fitting[i] = nodes
        self.found[i], self.rules[i] = min(nodes), rule
