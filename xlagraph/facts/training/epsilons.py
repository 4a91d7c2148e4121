"""Small numbers that keep a division finite: the eps of a normalisation, or of an optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.values.scalars import SPREADS, is_number, number_of, through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Module

NORMALISATION, OPTIMIZER = "a normalisation", "an optimizer"
ROOTS = frozenset({"rsqrt", "sqrt"})
_AFTER_SUM = SPREADS | {
    "all-reduce", "call", "divide", "get-tuple-element", "maximum", "multiply", "select", "sqrt",
    "subtract",
}  # fmt: skip
"""What makes a variance, or a norm, of a sum. To what an optimizer keeps the new is added."""
_BACKWARD = {"batch-norm-grad"}
MAX_STEPS = 40
"""Instructions between a variance and the sum that it is made of."""
LARGEST = 0.1
"""What is larger is no eps."""


def epsilon_of(module: Module, number: int) -> str:
    """What a constant is the eps of: a normalisation, or an optimizer; empty for other numbers.

    A normalisation adds it to a variance, which is a mean over some axes, below a root. An
    optimizer has a variance for each weight, and adds it there, or to the root that it divides by.
    """
    value = float(module.payloads[number]) if _is_float(module, number) else 0.0
    if not 0 < value <= LARGEST:
        return ""
    found = {_added_to(module, *use) for use in _uses(module, number)}
    return found.pop() if len(found) == 1 else ""


def _is_float(module: Module, i: int) -> bool:
    shape = module.shapes[i].partition("[")
    return shape[0] in ("f32", "f64", "bf16", "f16") and not module.payloads[i].startswith("{")


def _uses(module: Module, i: int) -> Iterator[tuple[int, int]]:
    """The instructions that compute with a number, however it is spread, with what they take."""
    for user in module.users[i]:
        if module.opcodes[user] in SPREADS:
            yield from _uses(module, user)
        else:
            yield user, i


def _added_to(module: Module, user: int, number: int) -> str:
    ends = list(_uses(module, user))
    if module.opcodes[user] == "subtract" and {module.opcodes[end] for end, _ in ends} == _BACKWARD:
        return NORMALISATION  # the variance again, from what its root was
    if module.opcodes[user] != "add":
        return ""
    others = [o for o in module.operands[user] if o != number]
    if len(others) != 1 or number_of(module, others[0]) is not None:
        return ""
    is_mean = _is_mean(module, others[0])
    if is_number(module, others[0]) and not is_mean:
        return ""  # a norm of all gradients, say
    if any(module.opcodes[end] in ROOTS for end, _ in ends):
        return NORMALISATION if is_mean else OPTIMIZER
    divides = [
        module.opcodes[end] == "divide" and module.operands[end][1] == value for end, value in ends
    ]
    is_root = bool(divides) and all(divides) and _is_root(module, others[0])
    return OPTIMIZER if is_root and not is_mean else ""


def _is_root(module: Module, i: int) -> bool:
    """Whether a value is a square root, divided or multiplied by a number or not (Adam)."""
    i = through(module, i, SPREADS)
    if module.opcodes[i] in ("divide", "multiply"):
        one, other = module.operands[i]
        numbers = number_of(module, one) is not None, number_of(module, other) is not None
        i = through(module, other if numbers[0] else one, SPREADS)
    return module.opcodes[i] == "sqrt"


def _is_mean(module: Module, i: int) -> bool:
    """Whether a value is made of a sum over axes, as a variance of a normalisation is."""
    stack, seen = [i], set[int]()
    while stack and len(seen) < MAX_STEPS:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if module.opcodes[i] in ("batch-norm-training", "reduce"):
            return True
        if module.opcodes[i] in _AFTER_SUM:
            stack += module.operands[i]
    return False
