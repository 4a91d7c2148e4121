"""Detector for the same computation in another element type, as autocast makes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.canon.labels import without_layout
from xlagraph.cause.finding import Case, Finding, count, join, parameter_name
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module

_TYPE = re.compile(r"\b(f16|bf16|f32|f64|f8\w*)\[")
_ANY = re.compile(r"\b([a-z]+\d+\w*|pred)\[")


def element_type(shape: str) -> str:
    """The element type of an array shape, ``""`` for a tuple."""
    found = _ANY.match(shape)
    return found[1] if found else ""


def dtype_change(case: Case) -> list[Finding]:
    """The same steps in another floating-point type, with conversions around them."""
    a, b = case.diff.a, case.diff.b
    changed = [
        (x, y)
        for x, y, fields in case.open_changes()
        if "shape" in fields and _differ_in_type(a.shapes[x], b.shapes[y])
    ]
    converts_a = [x for x in case.diff.removed if _is_cast(a, x)]
    converts_b = [y for y in case.diff.added if _is_cast(b, y)]
    types_a = {element_type(a.shapes[x]) for x, _ in changed} | _cast_types(a, converts_a)
    types_b = {element_type(b.shapes[y]) for _, y in changed} | _cast_types(b, converts_b)
    types = types_a | types_b
    if len(types) < 2:
        return []
    own_a = _of_types(case.diff.removed, a, types) | {x for x, _ in changed}
    own_b = _of_types(case.diff.added, b, types) | {y for _, y in changed}

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for x, y in changed:
            if x in draft_a.payloads and y in draft_b.payloads and a.opcodes[x] == "constant":
                draft_a.payloads[x] = draft_b.payloads[y]
        for draft in (draft_a, draft_b):
            forget_types(draft, types)

    title, cited = _title(case, changed, converts_a, converts_b)
    lines = where(b, [y for _, y in cited]) or where(a, [x for x, _ in cited])
    lines = lines or where(b, own_b) or where(a, own_a)
    return [
        Finding(
            kind="dtype",
            title=title + at(lines),
            evidence=(
                Evidence(
                    f"{count(len(changed), 'instruction')} in another element type "
                    f"({', '.join(sorted(types))}), "
                    f"{count(len(converts_a) + len(converts_b), 'conversion')} on one side "
                    "only",
                    tuple(x for x, _ in cited) or tuple(converts_a),
                    tuple(y for _, y in cited) or tuple(converts_b),
                    lines,
                ),
            ),
            fix="Keep autocast, and the dtype of every input, the same in all steps.",
            proof=f"{', '.join(sorted(types))} were taken for one type in both modules, and "
            "conversions between them left out",
            a=frozenset(own_a),
            b=frozenset(own_b),
            undo=undo,
        )
    ]


def _title(
    case: Case, changed: list[tuple[int, int]], converts_a: list[int], converts_b: list[int]
) -> tuple[str, list[tuple[int, int]]]:
    a, b = case.diff.a, case.diff.b
    inputs = [(x, y) for x, y in changed if x in a.entry_computation.parameters]
    if inputs:
        names = join(parameter_name(b, case.context_b, y) for _, y in inputs)
        return f"an input has another dtype: {names}", inputs
    lone = [
        module.operands[i][0]
        for module, converts in ((a, converts_a), (b, converts_b))
        for i in converts
        if module.opcodes[module.operands[i][0]] == "parameter"
    ]
    new = {element_type(s) for x, y in changed for s in (a.shapes[x], b.shapes[y])}
    if not changed and lone:
        return "an input arrives in another dtype and is converted", []
    first = changed[:1]
    types = f" ({', '.join(sorted(new))})" if new else ""
    return f"the same computation runs in another dtype{types}", first


def _differ_in_type(first: str, second: str) -> bool:
    one, two = without_layout(first), without_layout(second)
    return one != two and _TYPE.sub("f[", one) == _TYPE.sub("f[", two)


def _is_cast(module: Module, i: int) -> bool:
    """A conversion from one floating-point type to another."""
    return module.opcodes[i] == "convert" and all(
        _TYPE.match(module.shapes[k]) for k in (i, module.operands[i][0])
    )


def _cast_types(module: Module, converts: Iterable[int]) -> set[str]:
    return {element_type(module.shapes[k]) for i in converts for k in (i, module.operands[i][0])}


def _of_types(instructions: Iterable[int], module: Module, types: set[str]) -> set[int]:
    narrow = types - {"f32"}
    return {
        i
        for i in instructions
        if element_type(module.shapes[i]) in narrow
        or any(element_type(module.shapes[o]) in narrow for o in module.operands[i])
        or _is_cast(module, i)
    }


def forget_types(draft: Draft, types: set[str]) -> None:
    """Makes one element type of several and drops the conversions that are none any more."""
    pattern = re.compile(rf"\b({'|'.join(sorted(types))})\[")
    draft.shapes = [pattern.sub("f32[", shape) for shape in draft.shapes]
    partners: dict[int, int] = {}
    for i, operands in enumerate(draft.operands):
        if draft.opcodes[i] == "convert" and draft.shapes[i] == draft.shapes[operands[0]]:
            partners[i] = partners.get(operands[0], operands[0])
    draft.replace_uses(partners)
