"""Loops that count: what a body computes from the number of its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xlagraph.graph import Module


class Counter(NamedTuple):
    """The number of the turn, in the body of a loop."""

    body: int
    """The computation."""
    place: int
    """Where the loop's tuple has it."""
    turns: int
    """How many there are."""


def counters(module: Module) -> list[Counter]:
    """Of loops that count from turn to turn by one, and end at a constant."""
    found = []
    for i, callees in module.callees.items():
        if module.opcodes[i] != "while":
            continue
        for body, condition in (callees, callees[::-1]):
            counter = _counter(module, body, condition)
            if counter:
                found.append(counter)
    return found


def _counter(module: Module, body: int, condition: int) -> Counter | None:
    test = module.computations[condition].root
    if module.opcodes[test] != "compare" or module.attributes[test].get("direction") != "LT":
        return None
    number, limit = module.operands[test]
    place, turns = place_in_tuple(module, number), integer(module, limit)
    root = module.computations[body].root
    if place is None or turns is None or module.opcodes[root] != "tuple":
        return None
    is_next = of_turn(module, module.operands[root][place], place) == (1, 1)
    return Counter(body, place, turns) if is_next else None


def place_in_tuple(module: Module, i: int) -> int | None:
    """Which element of a computation's own tuple an instruction is; None if it is none."""
    if module.opcodes[i] != "get-tuple-element":
        return None
    (source,) = module.operands[i]
    return int(module.attributes[i].get("index") or 0) if _is_parameter(module, source) else None


def _is_parameter(module: Module, i: int) -> bool:
    return module.opcodes[i] == "parameter"


def integer(module: Module, i: int) -> int | None:
    """The whole number that a constant is."""
    text = module.payloads.get(i, "") if module.opcodes[i] == "constant" else ""
    return int(text) if text.removeprefix("-").isdecimal() else None


def of_turn(module: Module, i: int, place: int) -> tuple[int, int] | None:
    """How often the turn's number is in a value, and what is added: (-1, 4) is 4 - turn."""
    if place_in_tuple(module, i) == place:
        return 1, 0
    opcode = module.opcodes[i]
    number = integer(module, i)
    if number is not None:
        return 0, number
    if opcode not in ("add", "subtract", "negate"):
        return None
    parts = [of_turn(module, o, place) for o in module.operands[i]]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    signs = (-1,) if opcode == "negate" else (1, -1 if opcode == "subtract" else 1)
    times = sum(sign * one for sign, (one, _) in zip(signs, known, strict=True))
    return times, sum(sign * more for sign, (_, more) in zip(signs, known, strict=True))
