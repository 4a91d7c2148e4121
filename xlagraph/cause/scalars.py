"""Detectors for numbers: an argument or a constant, shared with another number or by itself."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.draft import NO_ATTRIBUTES, is_input
from xlagraph.cause.finding import Case, Finding, count, join, parameter_name
from xlagraph.cause.model import Evidence
from xlagraph.cause.pieces import OUTPUT, Edge, open_edges, piece_of
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.cause.state import OPTIMIZER_FILE
from xlagraph.cause.values import NUMBER_FIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module

SPECIAL = frozenset({"0", "1", "-1"})
"""The Python numbers of which torch_xla makes constants (``IsSpecialScalar`` in its
``torch_xla/csrc/tensor_util.cpp``, seen with 2.9)."""
REDUCING = frozenset({"reduce", "reduce-window", "select-and-scatter"})
SPECIAL_FIX = (
    "Keep the number on the device as a tensor, or keep it away from exactly 0, 1 and -1 (for a "
    "learning-rate schedule: clamp it a little below 1), or set XLA_NO_SPECIAL_SCALARS=1, which "
    "makes a parameter of every number."
)
ARGUMENT_FIX = (
    "Give the number in the same way in every step: as a tensor (an argument that is traced) "
    "rather than as a Python number (static_argnums, a number closed over, .item())."
)
SHARED_FIX = (
    "Equal Python numbers are one parameter. Keep each on the device as a tensor of its own, made "
    "before the loop, so that it does not matter which values they have."
)


def argument_or_constant(case: Case) -> list[Finding]:
    """A number is a parameter on one side and constants on the other.

    torch_xla lowers the Python scalars 0, 1 and -1 as constants and all others as parameters
    (pytorch/xla issue 4994); any other value was baked in by the program.
    """
    forward = _scalar_findings(case, constants_in_b=True)
    return forward or _scalar_findings(case, constants_in_b=False)


def _scalar_findings(case: Case, *, constants_in_b: bool) -> list[Finding]:
    a, b = case.diff.a, case.diff.b
    uses: dict[tuple[int, str], set[int]] = defaultdict(set)
    changed: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for x, y, fields in case.open_changes():
        if fields != ("operands",) or len(a.operands[x]) != len(b.operands[y]):
            continue
        for p, q in zip(a.operands[x], b.operands[y], strict=True):
            scalar, literal = (p, q) if constants_in_b else (q, p)
            with_scalar, with_literal = (a, b) if constants_in_b else (b, a)
            if (
                _is_scalar_input(with_scalar, scalar)
                and with_literal.opcodes[literal] == "constant"
                and with_scalar.shapes[scalar] == with_literal.shapes[literal]
            ):
                key = (scalar, with_literal.payloads[literal])
                uses[key].add(literal)
                changed[key].append((x, y))
    return [
        _scalar_finding(case, key[0], literals, changed[key], constants_in_b=constants_in_b)
        for key, literals in sorted(uses.items())
    ]


def _is_scalar_input(module: Module, i: int) -> bool:
    entry = module.entry_computation
    inside = entry.start <= i < entry.stop
    return inside and is_input(module, i) and module.shapes[i].endswith("[]")


def _scalar_finding(
    case: Case,
    scalar: int,
    literals: set[int],
    changed: list[tuple[int, int]],
    *,
    constants_in_b: bool,
) -> Finding:
    a, b = case.diff.a, case.diff.b
    parameter_side, literal_side = (a, b) if constants_in_b else (b, a)
    context = case.context_a if constants_in_b else case.context_b
    value = literal_side.payloads[min(literals)]
    name = parameter_name(parameter_side, context, scalar)
    users = {j for i in literals for j in literal_side.users[i]}
    lines = where(literal_side, literals) or where(literal_side, users)
    if lines and OPTIMIZER_FILE.search(lines[0]):
        name = f"{name}, a number of the optimizer (most often the learning rate),"

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        own, other = (draft_a, draft_b) if constants_in_b else (draft_b, draft_a)
        own.attributes[scalar] = NO_ATTRIBUTES  # a sharding, say: a constant has none
        other.become_parameter(literals, parameter_side.shapes[scalar])

    became = (
        f"{name} became the constant {value}"
        if constants_in_b
        else f"the constant {value} became {name}"
    )
    told, is_special = f"used by {count(len(changed), 'instruction')}", value in SPECIAL
    pairs = frozenset(changed)
    scalars, numbers = frozenset({scalar}), frozenset(literals)
    mine = frozenset(x for x, _ in pairs) | (scalars if constants_in_b else numbers)
    theirs = frozenset(y for _, y in pairs) | (numbers if constants_in_b else scalars)
    return Finding(
        kind="special-scalar" if is_special else "static-argument",
        title=f"a Python number took a special value: {became}{at(lines)}"
        if is_special
        else f"a number is an argument on one side and baked in on the other: {became}{at(lines)}",
        evidence=(
            Evidence(
                "torch_xla lowers the Python scalars 0, 1 and -1 as constants and all others as "
                f"parameters; here {became}, {told}"
                if is_special
                else f"{became}, {told}",
                tuple(mine),
                tuple(theirs),
                lines,
            ),
        ),
        fix=SPECIAL_FIX if is_special else ARGUMENT_FIX,
        proof="the constants were turned back into one parameter",
        a=mine,
        b=theirs,
        undo=undo,
    )


def number_of_its_own(case: Case) -> list[Finding]:
    """Two numbers were equal on one side, and so one constant or one parameter; here they differ.

    A use takes a number that both sides have on one side, and one of its own on the other. What
    a reduction starts from belongs to the reduction.
    """
    a, b, match = case.diff.a, case.diff.b, case.diff.match
    constants: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    inputs: dict[bool, list[Edge]] = defaultdict(list)
    for edge in open_edges(case):
        forward = match.to_b[edge.p] < 0
        is_lone = forward != (match.to_a[edge.q] < 0)
        starts = a.opcodes[edge.x] in REDUCING
        if edge.place == OUTPUT or starts or not is_lone or _is_claimed(case, edge):
            continue
        (start, *way), (other, *other_way) = _way(a, edge.p), _way(b, edge.q)
        if [a.opcodes[i] for i in way] != [b.opcodes[j] for j in other_way]:
            continue
        if a.opcodes[start] == b.opcodes[other] == "constant":
            if a.payloads[start] != b.payloads[other]:
                constants[a.payloads[start], b.payloads[other]].append(edge)
        elif (
            _is_scalar_input(a, start)
            and _is_scalar_input(b, other)
            and (match.to_b[start] if forward else match.to_a[other]) < 0
        ):
            inputs[forward].append(edge)
    return [
        *(_constant_finding(case, old, new, edges) for (old, new), edges in constants.items()),
        *(_input_finding(case, edges, forward=forward) for forward, edges in inputs.items()),
    ]


def _is_claimed(case: Case, edge: Edge) -> bool:
    return edge.p in case.claimed_a or edge.q in case.claimed_b


def _way(module: Module, i: int) -> list[int]:
    """The number that a value spreads or converts, and the steps from there to the value."""
    way = [i]
    while module.opcodes[i] in ("broadcast", "reshape", "convert"):
        (i,) = module.operands[i]
        way.append(i)
    return way[::-1]


def _constant_finding(case: Case, old: str, new: str, edges: Sequence[Edge]) -> Finding:
    number, lines = count(len(edges), "place"), _lines(case, edges)
    return _own_finding(
        case,
        edges,
        kind="constant-value",
        title=f"a Python number is baked into the graph: {old} became {new} at {number}{at(lines)}",
        evidence=f"constant {old} -> {new}; one side has one constant for this and for another "
        "number of the same value",
        fix=NUMBER_FIX,
    )


def _input_finding(case: Case, edges: Sequence[Edge], *, forward: bool) -> Finding:
    """`forward`: A has two parameters where B has one."""
    module, context = (case.diff.a, case.context_a) if forward else (case.diff.b, case.context_b)
    own = sorted({_way(module, e.p if forward else e.q)[0] for e in edges})
    side, other = (A, B) if forward else (B, A)
    names = join(parameter_name(module, context, p) for p in own)
    uses = count(len(edges), "use")
    return _own_finding(
        case,
        edges,
        kind="shared-scalar",
        title=f"a number that shared a parameter with another one in {other} has its own in {side} "
        f"({names}){at(_lines(case, edges))}",
        evidence=f"{side} takes in {names} for {uses} where {other} takes in a number that it "
        "uses elsewhere too: equal numbers are one parameter",
        fix=SHARED_FIX,
    )


def _lines(case: Case, edges: Sequence[Edge]) -> tuple[str, ...]:
    a, b = case.diff.a, case.diff.b
    own = where(b, [e.q for e in edges]) or where(a, [e.p for e in edges])
    return own or where(b, [e.y for e in edges])


def _own_finding(
    case: Case, edges: Sequence[Edge], *, kind: str, title: str, evidence: str, fix: str
) -> Finding:
    a, b, match = case.diff.a, case.diff.b, case.diff.match
    own_a = piece_of(a, [e.p for e in edges], match.to_b, case.claimed_a) | {e.x for e in edges}
    own_b = piece_of(b, [e.q for e in edges], match.to_a, case.claimed_b) | {e.y for e in edges}
    lines = _lines(case, edges)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for e in edges:
            forward = match.to_b[e.p] < 0
            draft, user = (draft_a, e.x) if forward else (draft_b, e.y)
            operands = list(draft.operands[user])
            operands[e.place] = match.to_a[e.q] if forward else match.to_b[e.p]
            draft.operands[user] = tuple(operands)

    return Finding(
        kind=kind,
        title=title,
        evidence=(Evidence(evidence, tuple(sorted(own_a)), tuple(sorted(own_b)), lines),),
        fix=fix,
        proof="both sides were given the number that both have",
        a=frozenset(own_a),
        b=frozenset(own_b),
        undo=undo,
    )
