"""What a reduction belongs to, told by its neighbours: a softmax, a mean, a norm."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING

from xlagraph.facts.values.evaluated import FORMS
from xlagraph.facts.values.notation import NUMBER, elements
from xlagraph.facts.values.scalars import number_of, through

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xlagraph.graph import Module

THROUGH = FORMS | {"broadcast", "convert"}
"""What gives values another form, or spreads them."""
_GUARDS = THROUGH | {"maximum", "select"}
"""What lies between a maximum and what it is taken from: a guard against infinities."""
_SCALED = THROUGH | {"divide", "multiply", "negate"}
MAX_USERS = 40
SOFTMAX, LOG_SOFTMAX, LOG_OF_SUM = "softmax", "log_softmax", "logsumexp"
PLAIN = {"add": "sum", "maximum": "maximum", "minimum": "minimum", "multiply": "product"}
"""What is said of a reduction whose neighbours tell no more."""


def reduction_name(module: Module, i: int) -> str:
    """What a reduction computes a part of, its derivative included; empty if no name is known.

    One over axes of one number each only leaves these out, and has no name.
    """
    callees = module.callees.get(i, ())
    if module.opcodes[i] != "reduce" or len(module.operands[i]) != 2 or len(callees) != 1:
        return ""
    if elements(module, module.operands[i][0]) == elements(module, i):
        return ""
    plain = PLAIN.get(module.opcodes[module.computations[callees[0]].root], "")
    if plain == "maximum":
        return _of_maximum(module, i) or plain
    return _of_sum(module, i) or plain if plain == "sum" else plain


def _of_maximum(module: Module, i: int) -> str:
    """The softmax that a maximum is taken from before the exponentials."""
    for shifted in _next(module, i, _GUARDS):
        if module.opcodes[shifted] != "subtract":
            continue
        for power in _next(module, shifted, THROUGH):
            if module.opcodes[power] == "exponential" and (name := _of_powers(module, power)):
                return name
    return ""


def _of_powers(module: Module, power: int) -> str:
    """As what exponentials are divided by their sum, or their sum's logarithm is taken."""
    for total in _next(module, power, THROUGH):
        if module.opcodes[total] == "reduce" and (name := _of_total(module, total, power)):
            return name
    return ""


def _of_total(module: Module, total: int, power: int) -> str:
    for user in _next(module, total, THROUGH | {"abs"}):
        operands = [through(module, o, THROUGH) for o in module.operands[user]]
        if module.opcodes[user] == "divide" and operands == [power, total]:
            return SOFTMAX
        if module.opcodes[user] == "log":
            ends = {module.opcodes[u] for u in _next(module, user, THROUGH)}
            return LOG_SOFTMAX if "subtract" in ends else LOG_OF_SUM
    return ""


def _of_sum(module: Module, i: int) -> str:
    value = through(module, module.operands[i][0], THROUGH | {"negate"})
    operands = [through(module, o, THROUGH) for o in module.operands[value]]
    if module.opcodes[value] == "exponential":
        return _of_total(module, i, value)
    if module.opcodes[value] == "multiply" and any(_is_softmax(module, o) for o in operands):
        return SOFTMAX
    if any(_scales_powers(module, user) for user in _next(module, i, _SCALED)):
        return LOG_SOFTMAX
    users = list(_next(module, i, THROUGH))
    is_square = module.opcodes[value] == "multiply" and operands[0] == operands[1]
    if is_square and any(module.opcodes[u] == "sqrt" for u in users):
        return "norm"
    return "mean" if any(_is_mean(module, i, u) for u in users) else ""


def _is_softmax(module: Module, i: int) -> bool:
    """Whether a value is exponentials divided by their sum."""
    if module.opcodes[i] != "divide":
        return False
    power, total = (through(module, o, THROUGH) for o in module.operands[i])
    is_sum = module.opcodes[power] == "exponential" and module.opcodes[total] == "reduce"
    return is_sum and through(module, module.operands[total][0], THROUGH) == power


def _scales_powers(module: Module, user: int) -> bool:
    """Whether a product is of the probabilities that a log_softmax gives, as in its derivative."""
    if module.opcodes[user] != "multiply":
        return False
    powers = [through(module, o, THROUGH) for o in module.operands[user]]
    return any(
        _of_powers(module, i) == LOG_SOFTMAX or _is_log_softmax(module, module.operands[i][0])
        for i in powers
        if module.opcodes[i] == "exponential"
    )


def _is_log_softmax(module: Module, i: int) -> bool:
    """Whether a value is another one less the logarithm of a sum of exponentials."""
    i = through(module, i, THROUGH)
    if module.opcodes[i] != "subtract":
        return False
    below = through(module, module.operands[i][1], THROUGH)
    total = through(module, module.operands[below][0], THROUGH) if module.operands[below] else i
    if module.opcodes[below] != "log" or module.opcodes[total] != "reduce":
        return False
    power = through(module, module.operands[total][0], THROUGH)
    return module.opcodes[power] == "exponential"


def _is_mean(module: Module, total: int, user: int) -> bool:
    """Whether a sum is divided by how many numbers it is of."""
    opcode = module.opcodes[user]
    if opcode not in ("divide", "multiply"):
        return False
    others = [o for o in module.operands[user] if through(module, o, THROUGH) != total]
    number = number_of(module, others[0]) if len(others) == 1 else None
    text = "" if number is None else module.payloads[number]
    if not NUMBER.fullmatch(text) or not float(text) or module.opcodes[number or 0] != "constant":
        return False
    size = elements(module, module.operands[total][0]) / max(elements(module, total), 1)
    return isclose(float(text) ** (1 if opcode == "divide" else -1), size, rel_tol=1e-5)


def _next(module: Module, i: int, opcodes: Collection[str]) -> Iterator[int]:
    """What takes in a value, those of these opcodes and what takes in theirs included."""
    front, seen = [i], {i}
    for value in front:  # grows while it is read
        for user in module.users[value]:
            if user in seen or len(seen) > MAX_USERS:
                continue
            seen.add(user)
            yield user
            if module.opcodes[user] in opcodes:
                front.append(user)
