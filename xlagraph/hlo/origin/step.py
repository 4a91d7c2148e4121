"""A training step, its instructions sorted into forward pass, backward pass and the rest."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from xlagraph.hlo.origin.autograd import PASSING, WITHOUT_DERIVATIVE, bare_name
from xlagraph.hlo.origin.groups import Groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.graph import Module, SourceFrame

MAX_NODES = 16
"""Forward operations that a value is remembered with; of more frequent ones nothing is said."""
VIEW_OPCODES = frozenset({"bitcast", "bitcast-convert", "convert", "copy", "reshape", "transpose"})
_BARRIERS = frozenset({"opt-barrier", "optimization-barrier"})
_SEED_FILE, _SEED_FUNCTION = "torch/autograd/__init__.py", "_make_grads"


class Step:
    """The entry computation of a training step.

    A forward *node* is one framework operation: connected instructions of one name and stack.
    It is called after one of its instructions.
    """

    def __init__(self, module: Module):
        self.module = module
        entry = module.entry_computation
        self.numbers = range(entry.start, entry.stop)
        self.names: dict[int, str] = {}
        """Framework operations, by instruction."""
        self.stacks: dict[int, int] = {}
        """Of forward instructions: the number of their stack of frames."""
        self.backward: set[int] = set()
        """Instructions with an operation, but no frames."""
        self.seeds: set[int] = set()
        """Gradients that the backward pass begins with."""
        self._classify()

    def _classify(self) -> None:
        framed: list[tuple[int, tuple[SourceFrame, ...]]] = []
        threads: set[tuple[str, str]] = set()
        for i in self.numbers:
            metadata = self.module.metadata(i)
            if metadata is None or not metadata.op_type:
                continue
            self.names[i] = bare_name(metadata.op_type)
            frames = metadata.frames
            if not frames:
                self.backward.add(i)
            elif any(map(_is_seed, frames)):
                self.seeds.add(i)
                threads.add((frames[-1].file, frames[-1].function))
            else:
                framed.append((i, frames))
        if not threads:  # no backward pass, or stacks that are not whole
            self.backward.clear()
        numbers: dict[tuple[SourceFrame, ...], int] = {}
        for i, frames in framed:
            # Hooks run in the threads of the backward pass, where stacks begin elsewhere.
            if (frames[-1].file, frames[-1].function) in threads:
                self.stacks[i] = numbers.setdefault(frames, len(numbers))

    @cached_property
    def roots(self) -> Mapping[int, int]:
        """For each instruction the value that it shows in another shape or type, or itself."""
        module = self.module
        roots: dict[int, int] = {}
        for i in self.numbers:
            operands, opcode = module.operands[i], module.opcodes[i]
            if operands and opcode in VIEW_OPCODES:
                roots[i] = roots[operands[0]]
            elif opcode == "get-tuple-element":
                roots[i] = self._part(i, roots)
            else:
                roots[i] = i
        return roots

    def _part(self, i: int, roots: Mapping[int, int]) -> int:
        """The value behind a part of a tuple, which may have gone through a barrier."""
        module = self.module
        source = module.operands[i][0]
        if module.opcodes[source] in _BARRIERS:
            source = module.operands[source][0]
        index = module.attributes[i].get("index") or ""
        parts = module.operands[source] if module.opcodes[source] == "tuple" else ()
        return roots[parts[int(index)]] if index.isdecimal() and int(index) < len(parts) else i

    @cached_property
    def gradient(self) -> set[int]:
        """Instructions whose value depends on the gradient that the backward pass begins with."""
        found = set(self.seeds)
        for i in self.numbers:
            if i not in self.stacks and not found.isdisjoint(self.module.operands[i]):
                found.add(i)
        return found

    @cached_property
    def nodes(self) -> Mapping[int, int]:
        """The node of each forward instruction."""
        groups = Groups()
        for i, stack in self.stacks.items():
            for operand in self.module.operands[i]:
                if self.stacks.get(operand) == stack and self.names[operand] == self.names[i]:
                    groups.join(i, operand)
        return {i: groups.find(i) for i in self.stacks}

    @cached_property
    def near(self) -> Mapping[int, frozenset[int]]:
        """For each value the nodes that take or make it; none where there are too many."""
        found: dict[int, set[int]] = defaultdict(set)
        for i, node in self.nodes.items():
            found[self.roots[i]].add(node)
            for operand in self.module.operands[i]:
                found[self.roots[operand]].add(node)
        return {
            value: frozenset(nodes) if len(nodes) <= MAX_NODES else frozenset()
            for value, nodes in found.items()
        }

    @cached_property
    def saved(self) -> set[int]:
        """Nodes whose derivative may use values, and whose result reaches the backward pass."""
        module = self.module
        reaching: set[int] = set()
        for i in reversed(self.numbers):
            if i in self.backward or i in reaching:
                reaching.update(o for o in module.operands[i] if o not in self.backward)
        return {
            node
            for i, node in self.nodes.items()
            if i in reaching and self.names[i] not in PASSING | WITHOUT_DERIVATIVE
        }

    @cached_property
    def telling(self) -> set[int]:
        """Values by which an operation can be recognised.

        Not constants, what is made of them, and scalars: torch_xla shares equal ones.
        """
        module = self.module
        plain: set[int] = set()
        for i in self.numbers:
            operands, opcode = module.operands[i], module.opcodes[i]
            is_scalar = module.shapes[i].endswith("[]")
            is_closed = bool(operands) and all(o in plain for o in operands)
            if is_scalar or is_closed or opcode in ("constant", "iota"):
                plain.add(i)
        return {i for i in self.numbers if i not in plain}

    @cached_property
    def results(self) -> Mapping[int, tuple[int, ...]]:
        """For each node its instructions that are used outside of it."""
        found: dict[int, list[int]] = defaultdict(list)
        users = self.module.users
        for i, node in self.nodes.items():
            if any(self.nodes.get(user) != node for user in users[i]):
                found[node].append(i)
        return {node: tuple(results) for node, results in found.items()}


def _is_seed(frame: SourceFrame) -> bool:
    """Whether a frame is that of ``Tensor.backward``, which makes the first gradient."""
    return frame.function == _SEED_FUNCTION or frame.file.replace("\\", "/").endswith(_SEED_FILE)
