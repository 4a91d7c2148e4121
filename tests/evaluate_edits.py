"""Edits of a module that leave its values alone, but for rounding, or change them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.hlo.attributes import make_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import Attributes, Module

COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})
TERMS = frozenset({"add", "multiply"})


def with_operands(module: Module, changed: dict[int, tuple[int, ...]]) -> Module:
    """The module with other operands for some instructions."""
    return replace(module, operands=[changed.get(i, o) for i, o in enumerate(module.operands)])


def with_attributes(module: Module, i: int, **values: str) -> Module:
    """The module with other attributes for one instruction."""
    pairs = [(key, values.get(key, value)) for key, value in module.attributes[i].items]
    text = "".join(f", {key}={value}" for key, value in pairs)
    made: Attributes = make_attributes(text, pairs)
    made = replace(made, callees=module.attributes[i].callees)
    attributes = list(module.attributes)
    attributes[i] = made
    return replace(module, attributes=attributes)


def live(module: Module, *opcodes: str) -> list[int]:
    """Instructions of the entry with one of these opcodes that outputs depend on."""
    needed, pending = set(module.outputs), list(module.outputs)
    while pending:
        for operand in module.operands[pending.pop()]:
            if operand not in needed:
                needed.add(operand)
                pending.append(operand)
    return sorted(i for i in needed if module.opcodes[i] in opcodes)


def commuted(module: Module) -> Module:
    """Every sum and product takes its operands the other way round."""
    return with_operands(module, {i: module.operands[i][::-1] for i in live(module, *COMMUTATIVE)})


def reassociated(module: Module) -> Module | None:
    """The first ``(a + b) + c`` is ``(a + c) + b``."""
    for i in live(module, *TERMS):
        first, third = module.operands[i]
        if module.opcodes[first] != module.opcodes[i] or module.users[first] != (i,):
            continue
        one, other = module.operands[first]
        if third < first:
            return with_operands(module, {first: (one, third), i: (first, other)})
    return None


def with_payload(module: Module, i: int, text: str) -> Module:
    """The module with another constant."""
    return replace(module, payloads={**module.payloads, i: text})


def without_term(module: Module, i: int) -> Module:
    """What a sum's users take is its first term alone."""
    first = module.operands[i][0]
    users = module.users[i]
    return with_operands(module, {u: _put(module.operands[u], i, first) for u in users})


def _put(operands: Sequence[int], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if o == old else o for o in operands)
