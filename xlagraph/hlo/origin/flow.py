"""Whose gradient a gradient is: values share one where an operation hands it on unchanged."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.hlo.origin.autograd import CHANGING, SAME, WITHOUT_DERIVATIVE
from xlagraph.hlo.origin.groups import Groups
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from xlagraph.hlo.origin.step import Step

_NEVER_UNCHANGED = CHANGING | WITHOUT_DERIVATIVE


class Flow:
    """Groups values of the forward pass that may have one gradient.

    Additions hand it on unchanged, and any operation might that is not known to make another
    tensor of it, to operands that have as many elements as its result.
    """

    def __init__(self, step: Step):
        self.step = step
        self.values = Groups()
        for i, node in step.nodes.items():
            if step.names[node] not in _NEVER_UNCHANGED:
                for operand in step.module.operands[i]:
                    if step.nodes.get(operand) != node:
                        self._join(operand, node)
        self._stacks: dict[int, set[int]] = defaultdict(set)
        for node, results in step.results.items():
            for result in results if self._uses_gradient(node) else ():
                self._stacks[self.values.find(step.roots[result])].add(step.stacks[node])

    def makers(self, node: int) -> frozenset[int]:
        """The stacks of all operations whose result may have the gradient of a node's result.

        Empty where the node has several results.
        """
        results = self.step.results.get(node, ())
        if len(results) != 1:
            return frozenset()
        return frozenset(self._stacks[self.values.find(self.step.roots[results[0]])])

    def _uses_gradient(self, node: int) -> bool:
        """Whether the derivative of a node does more than show a gradient in another shape."""
        name, operands = self.step.names[node], self.step.module.operands[node]
        if name == "expand" and operands:
            return self._size(operands[0]) != self._size(node)
        return name not in SAME | WITHOUT_DERIVATIVE

    def _join(self, operand: int, node: int) -> None:
        roots, size = self.step.roots, self._size(operand)
        for result in self.step.results.get(node, ()):
            if self._size(result) == size:
                self.values.join(roots[operand], roots[result])

    def _size(self, i: int) -> int:
        """Number of elements; tuples have a size of their own each."""
        text = self.step.module.shapes[i]
        shape = read_shape(text) if text else None
        return -1 - i if shape is None or shape.is_tuple else shape.elements
