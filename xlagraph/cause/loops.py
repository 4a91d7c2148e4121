"""Detector for loops that carry more values on one side than on the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import clean
from xlagraph.canon.live import mark
from xlagraph.cause.calls import inlined
from xlagraph.cause.draft import Draft
from xlagraph.cause.finding import Case, Finding, count, join
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.diff.match import match_modules, output_values
from xlagraph.diff.same import same_computation
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Attributes, Module
    from xlagraph.hlo.shapes import Shape

MAX_CHOICES = 64
"""Ways tried to tell which of the values carried are those that one side only has."""


class Carried(NamedTuple):
    """The positions in a loop's tuple that the other side has not."""

    loop: int
    """A ``while`` of the module with its calls put in line."""
    positions: tuple[int, ...]


def more_carried(case: Case) -> list[Finding]:
    """A loop that carries further values, with what computes and takes them.

    Found only where it is all that differs, since it is proved by leaving the values out.
    """
    if not _loop_differs(case):
        return []
    flat_a, flat_b = inlined(case.diff.a), inlined(case.diff.b)
    if flat_a is None or flat_b is None:
        return []
    match = match_modules(flat_a, flat_b)
    for x, y in enumerate(match.to_b):
        if y < 0 or not flat_a.opcodes[x] == flat_b.opcodes[y] == "while":
            continue
        parts_a, parts_b = _parts(flat_a, x), _parts(flat_b, y)
        if len(parts_a) == len(parts_b):
            continue
        forward = len(parts_a) > len(parts_b)
        more, other, loop = (flat_a, flat_b, x) if forward else (flat_b, flat_a, y)
        less = Draft(other).build()
        fewer, many = sorted((parts_a, parts_b), key=len)
        for positions in _choices(many, fewer):
            carried = Carried(loop, positions)
            dropped = _outputs_of(more, carried)
            if same_computation(_without(more, carried, dropped), less):
                return [_finding(case, more, carried, dropped, forward=forward)]
    return []


def _loop_differs(case: Case) -> bool:
    """Whether a loop's tuple differs, or a loop has no partner."""
    opcodes = case.diff.a.opcodes
    return any(opcodes[i] == "while" for i in case.diff.removed) or any(
        opcodes[c.a] == "while" and "shape" in c.fields for c in case.diff.changes
    )


def _parts(module: Module, i: int) -> tuple[Shape, ...]:
    return read_shape(clean(module.shapes[i])).parts


def _choices(many: tuple[Shape, ...], fewer: tuple[Shape, ...]) -> Iterable[tuple[int, ...]]:
    """Positions whose removal leaves the shapes that the other loop carries."""
    texts, wanted = [str(p) for p in many], [str(p) for p in fewer]
    ways = combinations(range(len(many)), len(many) - len(fewer))
    for positions in islice(ways, MAX_CHOICES):
        if [t for k, t in enumerate(texts) if k not in positions] == wanted:
            yield positions


def _outputs_of(module: Module, carried: Carried) -> list[int]:
    """The outputs that depend on these values."""
    taken = [
        u
        for u in module.users[carried.loop]
        if module.opcodes[u] == "get-tuple-element" and _index(module, u) in carried.positions
    ]
    found = []
    for k, value in enumerate(output_values(module)):
        below = bytearray(len(module))
        mark(module, below, [value])
        if any(below[u] for u in taken):
            found.append(k)
    return found


def _without(module: Module, carried: Carried, outputs: Iterable[int]) -> Module:
    """The module with a loop that does not carry these values, outputs of them set aside."""
    draft = Draft(module)
    gone = set(outputs)
    draft.keep_outputs([k for k in range(len(draft.outputs)) if k not in gone])
    drop_carried(draft, carried)
    return draft.build()


def drop_carried(draft: Draft, carried: Carried) -> None:
    """Takes values out of a loop's tuple: of its start, its computations and its users."""
    module, loop, positions = draft.module, carried.loop, carried.positions
    tuples = [loop, *module.operands[loop]]
    for c in module.callees[loop]:
        computation = module.computations[c]
        tuples += computation.parameters
        if computation.root != computation.parameters[0]:
            tuples.append(computation.root)
    for i in dict.fromkeys(tuples):
        shape = read_shape(clean(module.shapes[i]))
        if not shape.is_tuple:
            continue  # the condition's root
        kept = tuple(p for k, p in enumerate(shape.parts) if k not in positions)
        draft.shapes[i] = str(replace(shape, parts=kept))
        if module.opcodes[i] == "tuple":
            operands = enumerate(module.operands[i])
            draft.operands[i] = tuple(o for k, o in operands if k not in positions)
        for u in module.users[i]:
            if module.opcodes[u] == "get-tuple-element":
                index = _index(module, u)
                shift = sum(1 for p in positions if p < index)
                draft.attributes[u] = _with_index(module.attributes[u], index - shift)


def _index(module: Module, i: int) -> int:
    return int(module.attributes[i].get("index") or 0)


def _with_index(attributes: Attributes, index: int) -> Attributes:
    items = tuple((k, str(index) if k == "index" else v) for k, v in attributes.items)
    return replace(attributes, items=items)


def _finding(
    case: Case, flat: Module, carried: Carried, dropped: list[int], *, forward: bool
) -> Finding:
    module = case.diff.a if forward else case.diff.b
    side = A if forward else B
    loop = module.names.index(flat.names[carried.loop])
    parts = _parts(flat, carried.loop)
    values = join(f"{parts[k].without_layout()} at {k}" for k in carried.positions)
    lines = where(module, [loop])
    cited = (loop,)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for draft in (draft_a, draft_b):
            flat = inlined(draft.build())
            if flat is not None:
                draft.become(flat)
        drop_carried(draft_a if forward else draft_b, carried)

    gone = frozenset(dropped)
    none: frozenset[int] = frozenset()
    return Finding(
        kind="loop-carry",
        title=f"the loop {module.names[loop]} carries {count(len(carried.positions), 'value')} "
        f"more in {side} ({values}){at(lines)}",
        evidence=(
            Evidence(
                f"{len(parts)} values in {side}, {len(parts) - len(carried.positions)} on the "
                f"other side; {count(len(dropped), 'output')} of {side} "
                f"{'depends' if len(dropped) == 1 else 'depend'} on what is more",
                cited if forward else (),
                () if forward else cited,
                lines,
            ),
        ),
        fix="Carry the same values through the loop in every step; what is only watched can be "
        "computed after the loop, or be carried always.",
        proof=f"calls were put in line, and the values taken out of the loop of {side}",
        a=frozenset({c.a for c in case.diff.changes} | set(case.diff.removed)),
        b=frozenset({c.b for c in case.diff.changes} | set(case.diff.added)),
        dropped_a=gone if forward else none,
        dropped_b=none if forward else gone,
        undo=undo,
    )
