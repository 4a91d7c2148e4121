"""Detector for the same computation in another element type, as autocast makes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.canon.labels import without_layout
from xlagraph.cause.draft import Draft, is_input
from xlagraph.cause.finding import Case, Finding, count, join, parameter_name, short_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.rounding import same_number
from xlagraph.cause.sides import A, B
from xlagraph.cause.spread import Spread, spreads
from xlagraph.diff.match import match_modules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from xlagraph.graph import Module

_TYPE = re.compile(r"\b([a-z]+\d+\w*)\[")
"""A number type; ``pred`` is none."""


def element_type(shape: str) -> str:
    """The number type of an array shape, ``""`` for a tuple."""
    found = _TYPE.match(shape)
    return found[1] if found else ""


def dtype_change(case: Case) -> list[Finding]:
    """The same steps in another number type, with conversions around them.

    One finding for each origin, or for origins whose consequences meet.
    """
    a, b = case.diff.a, case.diff.b
    pairs = {
        x: y
        for x, y, fields in case.open_changes()
        if "shape" in fields
        and "opcode" not in fields
        and _differ_in_type(a.shapes[x], b.shapes[y])
    }
    casts_a = [x for x in case.diff.removed if _is_cast(a, x) and x not in case.claimed_a]
    casts_b = [y for y in case.diff.added if _is_cast(b, y) and y not in case.claimed_b]
    if not (pairs or casts_a or casts_b):
        return []
    pairs, copies = _pairs_without_types(case, pairs, casts_a, casts_b)
    return [
        _finding(case, spread, {x: m for x, m in copies.items() if m in spread.pairs})
        for spread in spreads(case, pairs, casts_a, casts_b)
        if spread.pairs or _is_between(case, spread)
    ]


def _is_between(case: Case, spread: Spread) -> bool:
    """Whether conversions stand between values that both sides have."""
    match = case.diff.match
    for module, casts, partners in (
        (match.a.module, spread.lone_a, match.to_b),
        (match.b.module, spread.lone_b, match.to_a),
    ):
        below = any(partners[module.operands[i][0]] >= 0 for i in casts)
        if below and any(partners[u] >= 0 for i in casts for u in module.users[i]):
            return True
    return False


def _pairs_without_types(
    case: Case, known: Mapping[int, int], casts_a: Collection[int], casts_b: Collection[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Instructions that differ in their type alone, and A's further copies of some of them.

    Both modules are matched once more with the types concerned taken for one: types tell
    instructions apart that are each other's partners.
    """
    a, b = case.diff.a, case.diff.b
    shapes = [s for x, y in known.items() for s in (a.shapes[x], b.shapes[y])]
    for module, casts in ((a, casts_a), (b, casts_b)):
        shapes += [module.shapes[k] for i in casts for k in (i, module.operands[i][0])]
    types = {found for shape in shapes for found in _TYPE.findall(shape)}
    match = match_modules(_without_types(a, types, casts_a), _without_types(b, types, casts_b))
    pairs = {
        x: y
        for x, y in enumerate(match.to_b)
        if y >= 0
        and x not in case.claimed_a
        and y not in case.claimed_b
        and a.opcodes[x] == b.opcodes[y]
        and _differ_in_type(a.shapes[x], b.shapes[y])
        and match.a.live[x]
        and _is_computed(a, x)
    }
    numbers = match.a.expressions
    first = {numbers[x]: x for x in reversed(pairs) if numbers[x] >= 0}
    copies = {x: first[numbers[x]] for x in case.diff.removed if numbers[x] in first}
    return pairs, {x: m for x, m in copies.items() if x not in pairs and x not in casts_a}


def _is_computed(module: Module, i: int) -> bool:
    """Whether an instruction is more than the tuple of all outputs."""
    return i != module.entry_computation.root or module.opcodes[i] != "tuple"


def _without_types(module: Module, types: set[str], casts: Iterable[int]) -> Module:
    """The module with one type in place of several and without these conversions."""
    draft = Draft(module)
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(types))})\[")
    draft.shapes = [pattern.sub("f32[", shape) for shape in draft.shapes]
    draft.bypass(casts)
    return draft.build()


def _finding(case: Case, spread: Spread, copies: Mapping[int, int]) -> Finding:
    a, b = case.diff.a, case.diff.b
    starts = _main_origins(case, spread)
    own = [(x, y) for x, y in starts if x >= 0 and y >= 0]
    lines = where(b, [y for _, y in starts if y >= 0]) or where(a, [x for x, _ in starts if x >= 0])
    lines = lines or where(b, [u for _, y in starts if y >= 0 for u in b.users[y]])
    lines = lines or where(b, [*spread.pairs.values(), *spread.lone_b])
    casts = len(spread.lone_a) + len(spread.lone_b)
    types = " and ".join(_types(case, spread))

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for x, y in spread.pairs.items():
            draft_a.shapes[x] = draft_b.shapes[y]
            if y in draft_b.payloads and a.opcodes[x] == "constant" and _same_value(case, x, y):
                draft_a.payloads[x] = draft_b.payloads[y]
        for x, first in copies.items():
            draft_a.shapes[x] = draft_a.shapes[first]
        draft_a.bypass(spread.lone_a)
        draft_b.bypass(spread.lone_b)

    return Finding(
        kind="dtype",
        title=_title(case, starts, types) + at(lines),
        evidence=(
            Evidence(
                f"origin: {join(_origin(case, x, y) for x, y in starts)}",
                tuple(x for x, _ in starts if x >= 0),
                tuple(y for _, y in starts if y >= 0),
                lines,
            ),
            Evidence(
                f"from there {count(len(spread.pairs) - len(own), 'more instruction')} "
                f"take{'s' if len(spread.pairs) - len(own) == 1 else ''} another type"
                + (f", with {count(casts, 'conversion')} on one side only" if casts else ""),
                tuple(sorted(spread.pairs))[:50],
                tuple(sorted(spread.pairs.values()))[:50],
            ),
        ),
        fix="Keep autocast, and the dtype of every input, the same in all steps.",
        proof=f"{A}'s instructions downstream of the origin were given {B}'s types"
        + (f", and {count(casts, 'conversion')} left out" if casts else ""),
        a=frozenset((*spread.pairs, *copies)) | spread.lone_a,
        b=frozenset(spread.pairs.values()) | spread.lone_b,
        undo=undo,
    )


def _main_origins(case: Case, spread: Spread) -> list[tuple[int, int]]:
    """The origins that the others follow: inputs, then conversions, constants last."""

    def rank(start: tuple[int, int]) -> int:
        module, i = _shown(case, *start)
        opcode = module.opcodes[i]
        if opcode == "parameter":
            return 0
        return 1 if opcode == "convert" else 3 if opcode == "constant" else 2

    best = min(map(rank, spread.origins))
    return [start for start in spread.origins if rank(start) == best]


def _shown(case: Case, x: int, y: int) -> tuple[Module, int]:
    return (case.diff.b, y) if y >= 0 else (case.diff.a, x)


def _origin(case: Case, x: int, y: int) -> str:
    a, b = case.diff.a, case.diff.b
    if x >= 0 and y >= 0:
        is_named = is_input(b, y) and y in b.entry_computation.parameters
        name = parameter_name(b, case.context_b, y) if is_named else b.names[y]
        return f"{name}, {short_shape(a, x)} in {A} and {short_shape(b, y)} in {B}"
    module, i = _shown(case, x, y)
    operand = module.operands[i][0]
    return (
        f"{module.names[i]} converts {short_shape(module, operand)} to "
        f"{element_type(module.shapes[i])} in {A if y < 0 else B} only"
    )


def _title(case: Case, starts: list[tuple[int, int]], types: str) -> str:
    b = case.diff.b
    inputs = [y for _, y in starts if y >= 0 and y in b.entry_computation.parameters]
    if inputs:
        names = join(parameter_name(b, case.context_b, y) for y in inputs)
        return f"an input has another dtype: {names} ({types})"
    module, i = _shown(case, *starts[0])
    if module.opcodes[i] == "convert" and -1 in starts[0]:
        side = A if starts[0][1] < 0 else B
        if module.opcodes[module.operands[i][0]] == "parameter":
            return f"an input is converted to {element_type(module.shapes[i])} in {side} only"
        if len(starts) == 1:
            return f"a value is converted to {element_type(module.shapes[i])} in {side} only"
    return f"the same computation runs in another dtype ({types})"


def _types(case: Case, spread: Spread) -> list[str]:
    """The changes of type in a spread, such as ``f32 -> bf16``."""
    a, b = case.diff.a, case.diff.b
    found = {
        f"{old} -> {new}"
        for x, y in spread.pairs.items()
        for old, new in zip(_TYPE.findall(a.shapes[x]), _TYPE.findall(b.shapes[y]), strict=False)
        if old != new
    }
    for module, casts in ((a, spread.lone_a), (b, spread.lone_b)):
        if not spread.pairs:
            found |= {
                f"{element_type(module.shapes[module.operands[i][0]])} -> "
                f"{element_type(module.shapes[i])}"
                for i in casts
            }
    return sorted(found)


def _differ_in_type(first: str, second: str) -> bool:
    one, two = without_layout(first), without_layout(second)
    return one != two and _TYPE.sub("*[", one) == _TYPE.sub("*[", two)


def _same_value(case: Case, x: int, y: int) -> bool:
    """Whether two constants are one number, each rounded to its type."""
    a, b = case.diff.a, case.diff.b
    types = element_type(a.shapes[x]), element_type(b.shapes[y])
    return same_number(a.payloads[x], b.payloads[y], *types)


def _is_cast(module: Module, i: int) -> bool:
    """A conversion from one type of numbers to another of its family."""
    if module.opcodes[i] != "convert":
        return False
    old, new = module.shapes[module.operands[i][0]], module.shapes[i]
    alike = _family(old) == _family(new) != ""
    return alike and element_type(old) != element_type(new)


def _family(shape: str) -> str:
    """``f`` for floating point, ``i`` for integers, ``c`` for complex numbers, else ``""``."""
    kind = element_type(shape)
    return "f" if kind.startswith(("f", "bf")) else "i" if kind[:1] in "su" else kind[:1]
