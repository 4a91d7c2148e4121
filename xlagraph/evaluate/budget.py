"""What an evaluation may cost, estimated from shapes before anything is run."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xlagraph.errors import InputError
from xlagraph.evaluate.errors import NotEvaluatedError
from xlagraph.evaluate.step import Step, integers
from xlagraph.evaluate.window import read_window
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.graph import Module
    from xlagraph.hlo.shapes import Shape

MAX_OPERATIONS = 300_000_000
"""Element operations of all evaluations that share a budget."""
MAX_ELEMENTS = 2_000_000
"""Elements of one array."""
MAX_TRIPS = 10_000
"""Turns of all loops of one evaluation."""
MAX_DEPTH = 100
"""Computations that call each other."""
EACH = 2000
"""What an instruction costs by itself, in element operations: it is a call into numpy."""
_DOT = 8
"""Multiply-adds that a matrix product does in the time of another element operation."""
_FREE = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "reshape", "broadcast", "bitcast")
)
_WEIGHT = {"erf": 60, "power": 8, "tanh": 4, "exponential": 4, "log": 4, "logistic": 6, "sine": 4}


class Budget:
    """What is left of what evaluations may cost."""

    def __init__(self, operations: int = MAX_OPERATIONS):
        self.operations = operations
        self.trips = MAX_TRIPS

    def charge(self, operations: int) -> None:
        """Takes element operations.

        Raises:
            NotEvaluatedError: there are not so many left.
        """
        self.operations -= operations
        if self.operations < 0:
            raise NotEvaluatedError("the module is too large to be evaluated")

    def turn(self) -> None:
        """Takes one turn of a loop.

        Raises:
            NotEvaluatedError: there are none left.
        """
        self.trips -= 1
        if self.trips < 0:
            raise NotEvaluatedError(f"while: its loops take more than {MAX_TRIPS:,} turns")


def arrays_of(shape: Shape) -> list[Shape]:
    """The arrays of a shape, those in tuples of tuples included."""
    if not shape.is_tuple:
        return [shape]
    return [array for part in shape.parts for array in arrays_of(part)]


def elements_of(shape: Shape) -> int:
    """The elements of all arrays of a shape.

    Raises:
        NotEvaluatedError: one of them is too large, or its size is not known.
    """
    arrays = arrays_of(shape)
    for array in arrays:
        if any(array.dynamic):
            raise NotEvaluatedError(f"the size of {array.without_layout()} is not known")
        if array.elements > MAX_ELEMENTS:
            raise NotEvaluatedError(f"{array.without_layout()} is too large to be evaluated")
    return sum(array.elements for array in arrays)


def cost_of(module: Module, i: int) -> int:
    """What an instruction costs once, without what it calls.

    Raises:
        NotEvaluatedError: an array is too large.
    """
    opcode = module.opcodes[i]
    try:
        made = elements_of(read_shape(module.shapes[i]))
        if opcode in _FREE:
            return EACH // 4
        operands = [read_shape(module.shapes[o]) for o in module.operands[i]]
        work = _work(Step(module, i), made, operands)
    except InputError as error:
        raise NotEvaluatedError(f"{opcode}: {error}") from None
    return EACH + work


def _work(step: Step, made: int, operands: Sequence[Shape]) -> int:
    taken = sum(map(elements_of, operands))
    match step.opcode:
        case "dot":
            sizes = operands[0].dimensions
            terms = prod(sizes[k] for k in integers(step.text("lhs_contracting_dims")))
            return made * terms // _DOT + taken
        case "convolution":
            window = read_window(step)
            places = prod(window.size)
            kernel = step.text("dim_labels").partition("_")[2].partition("->")[0]
            terms = operands[1].dimensions[kernel.index("i")] if "i" in kernel else 1
            return taken + places * (made * terms // _DOT + made + EACH)
        case "reduce-window" | "select-and-scatter":
            places = prod(read_window(step).size)
            turns = made if step.opcode == "reduce-window" else operands[1].elements
            return taken + places * (turns + EACH) * max(len(operands) // 2, 1)
        case "sort":
            along = operands[0].dimensions[step.integer("dimensions")]
            return taken + 4 * operands[0].elements * along
        case "cholesky" | "triangular-solve":
            return 20 * taken * max((1, *operands[0].dimensions[-1:]))
        case opcode:
            return (made + taken) * _WEIGHT.get(opcode, 1)


def total_cost(
    module: Module, computation: int, live: Mapping[int, Sequence[int]], known: dict[int, int]
) -> int:
    """What a computation costs, loops taken once; linear, as each computation is asked once."""
    if computation not in known:
        known[computation] = MAX_OPERATIONS  # of a computation that calls itself
        total = 0
        for i in live[computation]:
            total += cost_of(module, i)
            for callee in module.callees.get(i, ()):
                total += total_cost(module, callee, live, known)
        known[computation] = total
    return known[computation]
