"""Whether what differs is that gradients flow through values on one side alone.

JAX names what it makes of a derivative: ``jit(step)/transpose(jvp(norm))/mul`` is of the backward
pass. A function that is differentiated also gives out what its derivative needs. Torch's engine
calls no Python, so that derivatives have no line where the forward pass has one, or that of what
they are derivatives of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.sources import knows_lines, line_of
from xlagraph.facts.pieces.pieces import OUTPUT
from xlagraph.facts.values.scalars import SPREADS, without_one

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.facts.pieces.regions import Region
    from xlagraph.graph import Module

BACKWARD = "transpose("
MAX_COMPARED = 500
"""Instructions of a value that are compared with the other side's."""
Place = tuple[int, tuple[int, ...]]
"""An instruction, and the calls that lead to it."""


def flows_further(case: Case, part: Region) -> SideView | None:
    """The side on which gradients flow through values of a region that end at both sides; or None.

    The other side has no derivative in there, and computes all values of the forward pass alike.
    """
    a = {i for i in part.a if is_backward(case.diff.a, i)}
    b = {i for i in part.b if is_backward(case.diff.b, i)}
    own = [case.diff.a.opcodes[i] for i in a] or [case.diff.b.opcodes[i] for i in b]
    if bool(a) == bool(b) or SPREADS.issuperset(own):  # a derivative multiplies, or adds up
        return None
    forward = [e for e in part.edges if e.p not in a and e.q not in b]
    ends = [e for e in part.edges if e not in forward]
    alike = _Alike(case, part)
    is_same = all(e.place != OUTPUT and alike.values((e.p, ()), (e.q, ())) for e in forward)
    return (case.a if a else case.b) if is_same and ends else None


def is_backward(module: Module, i: int) -> bool:
    """Whether an instruction is of the backward pass by JAX's name for it."""
    metadata = module.metadata(i)
    return metadata is not None and BACKWARD in metadata.op_name


def adds_gradients(case: Case, region: Region, part: Region) -> SideView | None:
    """The side on which a piece of derivatives, of it alone, adds terms to gradients; or None.

    So it is beside another edit that gives other values in place of those that the other side
    computes. Where one side computes more in the forward pass, it has derivatives for that.
    """
    view = case.b if part.b else case.a
    module, mine = view.module, view.mine((part.a, part.b))
    if bool(part.a) == bool(part.b) or not (knows_lines(case.a.module) and knows_lines(module)):
        return None
    uses = [(view.mine((e.p, e.q)), view.mine((e.q, e.p))) for e in part.edges]
    other = case.b if view.is_a else case.a
    is_sum = all(_is_term(module, other.partners[old], new, mine) for new, old in uses)
    is_behind = all(is_derived(module, i) for i in mine)
    return (
        view
        if is_sum and is_behind and gives_as_much(case, view, region.edges, (region.a, region.b))
        else None
    )


def is_derived(module: Module, i: int) -> bool:
    """Whether an instruction is torch's derivative of another one, where the modules know lines."""
    line = line_of(module, i)
    return line is None or bool(line.backward_of)


def _is_term(module: Module, old: int, new: int, piece: Collection[int]) -> bool:
    """Whether a value of a piece is a sum that has another value among its terms.

    Torch lowers the factor of a sum to a product with 1.
    """
    stack = [new]
    for i in stack:  # grows while it is read
        if i in piece and module.opcodes[i] == "add" and len(stack) < MAX_COMPARED:
            stack += [without_one(module, o) for o in module.operands[i]]
    return old in stack


def gives_as_much(
    case: Case,
    view: SideView,
    edges: Sequence[Edge],
    own: tuple[Collection[int], Collection[int]],
) -> bool:
    """Whether the other side has something else of the forward pass wherever `view` has.

    What the other side alone computes has no derivative in `view`. own: what differs on each side.
    """
    a, b = case.a.module, case.b.module
    in_a = {(e.x, e.y) for e in edges if e.p in own[0] and not is_derived(a, e.p)}
    in_b = {(e.x, e.y) for e in edges if e.q in own[1] and not is_derived(b, e.q)}
    mine, others = view.ab(in_a, in_b)
    return bool(others) and mine <= others


class _Alike:
    def __init__(self, case: Case, part: Region):
        self.case, self.part = case, part
        self.left = MAX_COMPARED

    def values(self, p: Place, q: Place) -> bool:
        """Whether two values are the same, with calls in line."""
        self.left -= 1
        a, b = self.case.a, self.case.b
        (x, calls_a), (y, calls_b) = _inlined(a.module, p), _inlined(b.module, q)
        is_outside = x not in self.part.a and y not in self.part.b
        if is_outside and not (calls_a or calls_b) and a.partners[x] == y:
            return True
        below_a, below_b = a.module.operands[x], b.module.operands[y]
        return (
            self.left > 0
            and a.matched.labels[x] == b.matched.labels[y]
            and a.module.opcodes[x] != "parameter"
            and _called(a, x) == _called(b, y)
            and len(below_a) == len(below_b)
            and all(
                self.values((i, calls_a), (j, calls_b))
                for i, j in zip(below_a, below_b, strict=True)
            )
        )


def _called(view: SideView, i: int) -> list[int]:
    return [view.matched.computations[c] for c in view.module.callees.get(i, ())]


def _inlined(module: Module, place: Place) -> Place:
    """What a value is, through calls and the tuples that they give out."""
    i, calls = place
    while True:
        opcode = module.opcodes[i]
        if opcode == "parameter" and calls:
            body = module.computations[module.callees[calls[-1]][0]]
            i, calls = module.operands[calls[-1]][body.parameters.index(i)], calls[:-1]
        elif opcode == "call":
            i, calls = module.computations[module.callees[i][0]].root, (*calls, i)
        elif opcode == "get-tuple-element":
            k, within = _inlined(module, (module.operands[i][0], calls))
            if module.opcodes[k] != "tuple":
                return i, calls
            i, calls = module.operands[k][int(module.attributes[i].get("index") or 0)], within
        else:
            return i, calls
