"""Inputs that are masks, of zeros and ones: what computes with them shows it."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.evaluate.never import behind, constant_of, taken_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xlagraph.graph import Module

FORMS = frozenset({"broadcast", "copy", "reshape", "slice", "transpose"})
"""What only spreads a value, or puts it into another form."""
_PARTS = frozenset({"concatenate", "convert", "dynamic-slice", "pad"})
"""What takes some of its values, or has more beside them."""
_WEIGHS = frozenset({"divide", "dot", "multiply", "reduce"})


class Masks(NamedTuple):
    """The entry's parameters, by number, that are or may be masks."""

    known: set[int]
    """Such as are compared with 0 or 1, or taken from 1, and else weigh values."""
    possible: set[int]
    """Such as weigh values alone."""


def masks(module: Module) -> Masks:
    """Which inputs are masks, but for single numbers; linear in their uses."""
    found = Masks(set(), set())
    for k, parameter in enumerate(module.entry_computation.parameters):
        if module.shapes[parameter].endswith("[]"):
            continue
        uses = _uses(module, parameter)
        if Use.OTHER in uses:
            continue
        if Use.TURNED in uses or (Use.ASKED in uses and Use.TARGET not in uses):
            found.known.add(k)
        elif Use.TARGET not in uses:
            found.possible.add(k)
    return found


class Use(Enum):
    """What is done with a value, as far as it tells a mask."""

    OTHER = auto()
    WEIGHS = auto()
    ASKED = auto()
    """It is compared with 0 or 1."""
    TURNED = auto()
    """It is taken from 1, or is a half or more."""
    TARGET = auto()
    """It is what something should be, as a label is."""


def _uses(module: Module, parameter: int) -> set[Use]:
    forms = [*_forms(module, parameter)]
    found = {*forms}
    return {_use(module, i, user, found) for i in forms for user in module.users[i]}


def _use(module: Module, i: int, user: int, forms: set[int]) -> Use:
    """What a user does with one of the forms. What is picked by its own values is no mask."""
    opcode, operands = module.opcodes[user], module.operands[user]
    if _is_truth(module, user):
        return Use.ASKED
    if user in forms or opcode in ("call", "tuple", "while", *_WEIGHS):
        return Use.WEIGHS
    others = [o for o in operands if o != i]
    if opcode == "compare" and len(others) == 1:
        asked = constant_of(module, others[0])
        if asked == "0.5" or _is_handed_in(module, others[0]):
            return Use.TURNED
        return Use.ASKED if asked in ("0", "1") else Use.OTHER
    if opcode == "subtract" and operands[1] == i:
        is_turned = constant_of(module, operands[0]) == "1"
        return Use.TURNED if is_turned else Use.WEIGHS if operands[0] in forms else Use.TARGET
    if opcode == "subtract":
        return Use.WEIGHS if operands[1] in forms else Use.OTHER
    if opcode == "select":
        picks = {*module.operands[behind(module, operands[0], FORMS)]}
        return Use.WEIGHS if picks.isdisjoint(forms) else Use.OTHER
    return Use.OTHER


def _is_truth(module: Module, i: int) -> bool:
    """Whether an instruction asks of a number if it is 0, as ``mask.bool()`` does."""
    if module.opcodes[i] != "convert" or not module.shapes[i].startswith("pred"):
        return False
    return not module.shapes[module.operands[i][0]].startswith("pred")


def _is_handed_in(module: Module, i: int) -> bool:
    """Whether a value is one number that is handed in, as torch_xla does with 0.5."""
    number = behind(module, i, (*FORMS, "convert"))
    return module.opcodes[number] == "parameter" and module.shapes[number].endswith("[]")


def _forms(module: Module, parameter: int) -> Iterator[int]:
    """A value in all of its forms, through calls and into loops that take it in."""
    front, known = [parameter], {parameter}
    for i in front:  # grows while it is read
        yield i
        taken = {*_given_out(module, i), *_taken_on(module, i)} - known
        front += sorted(taken)
        known |= taken


def _given_out(module: Module, i: int) -> Iterator[int]:
    """The calls of a function that gives a value out."""
    own = module.computation_of(i)
    callers = module.callers.get(own.index, ()) if own.root == i else ()
    yield from (user for user in callers if module.opcodes[user] == "call")


def _taken_on(module: Module, i: int) -> Iterator[int]:
    for user in module.users[i]:
        opcode, operands = module.opcodes[user], module.operands[user]
        if _is_truth(module, user):
            continue
        if opcode in FORMS or (opcode in _PARTS and operands[0] == i):
            yield user
        elif opcode == "multiply" and any(constant_of(module, o) == "1" for o in operands):
            yield user  # as torch_xla writes `1 - x`
        elif opcode == "call":
            yield from taken_as(module, i, user)
        elif opcode == "tuple":
            places = [k for k, o in enumerate(operands) if o == i]
            loops = [loop for loop in module.users[user] if module.opcodes[loop] == "while"]
            yield from _in_loops(module, loops, places)


def _in_loops(module: Module, loops: Iterable[int], places: list[int]) -> Iterator[int]:
    """What loops read at places of the tuple that they begin with."""
    for loop in loops:
        for called in module.callees[loop]:
            (carried,) = module.computations[called].parameters
            for user in module.users[carried]:
                index = module.attributes[user].get("index") or ""
                is_read = module.opcodes[user] == "get-tuple-element"
                if is_read and index.isdecimal() and int(index) in places:
                    yield user
