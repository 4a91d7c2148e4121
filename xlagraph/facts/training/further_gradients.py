"""Whether what differs is that gradients flow through values on one side alone, by JAX's names.

JAX names what it makes of a derivative: ``jit(step)/transpose(jvp(norm))/mul`` is of the backward
pass. A function that is differentiated also gives out what its derivative needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.pieces.pieces import OUTPUT

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
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
    if bool(a) == bool(b):
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
