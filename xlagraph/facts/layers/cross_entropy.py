"""Cross entropy, and whether its labels are smoothed: part of it is a mean over all classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.layers.layer import Layer, reduces_by
from xlagraph.facts.values.reductions import LOG_SOFTMAX, reduction_name
from xlagraph.facts.values.scalars import SPREADS, is_number, through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Module

PLAIN, SMOOTHED = "cross_entropy(x, y)", "cross_entropy(x, y, label_smoothing=...)"
_FORMS = SPREADS | {"negate"}
MAX_STEPS = 40
"""Operations that labels are made of, or that lie before a logarithm is summed up."""


def cross_entropies(module: Module) -> list[Layer]:
    """The cross entropies of a module with classes by number."""
    found = []
    for i, opcode in enumerate(module.opcodes):
        if opcode == "subtract" and _is_log_softmax(module, i):
            layers = (_of(module, logs) for logs in _given(module, i))
            found += [layer for layer in layers if layer]
    return found


def _given(module: Module, i: int) -> list[int]:
    """A value, or what calls of the function that gives it as a result have of it."""
    inside = module.computation_of(i)
    if inside.index == module.entry:
        return [i]
    calls = [c for c in module.callers.get(inside.index, ()) if module.opcodes[c] == "call"]
    if module.opcodes[inside.root] != "tuple":
        return [i, *(calls if inside.root == i else [])]
    places = [str(k) for k, o in enumerate(module.operands[inside.root]) if o == i]
    results = (u for c in calls for u in module.users[c])
    return [i, *(u for u in results if module.attributes[u].get("index") in places)]


def _is_log_softmax(module: Module, i: int) -> bool:
    """Whether a logarithm of a sum of exponentials is taken from a value."""
    log = through(module, module.operands[i][1], SPREADS)
    if module.opcodes[log] != "log":
        return False
    total = through(module, module.operands[log][0], SPREADS | {"abs"})
    return module.opcodes[total] == "reduce" and reduction_name(module, total) == LOG_SOFTMAX


def _of(module: Module, logs: int) -> Layer | None:
    """What is made of logarithms of probabilities: those of labels are picked, or all summed up."""
    picks, means = set[int](), set[int]()
    for i, members in _uses(module, logs):
        opcode = module.opcodes[i]
        if opcode == "reduce" and reduces_by(module, i, "add"):
            means |= {*members, i}
        elif opcode == "gather":
            picks |= {*members, i}
        elif opcode == "multiply":
            (other,) = {*module.operands[i]} - members or {i}
            smoothed, labels = _labels(module, other)
            if labels:
                picks |= {*members, i}
                means |= smoothed
    if not picks:
        return None
    return Layer(SMOOTHED, frozenset(picks | means)) if means else Layer(PLAIN, frozenset(picks))


def _uses(module: Module, logs: int) -> Iterator[tuple[int, set[int]]]:
    """What takes in a value, with other signs and in other forms, and what lies between."""
    stack = [(logs, {logs})]
    for i, members in stack:  # grows while it is read
        for user in module.users[i]:
            is_scaled = module.opcodes[user] in ("multiply", "divide") and any(
                is_number(module, o) for o in module.operands[user] if o != i
            )
            if (module.opcodes[user] in _FORMS or is_scaled) and len(stack) < MAX_STEPS:
                stack.append((user, members | {user}))
            elif user > i:
                yield user, members


def _labels(module: Module, value: int) -> tuple[set[int], bool]:
    """What mixes labels with one number for all classes, and whether it is labels by number.

    These are ones where a class's number is the label, and zeros elsewhere.
    """
    mixing, stack, is_label = set[int](), [value], False
    for i in stack:  # grows while it is read
        opcode = module.opcodes[i]
        if opcode == "call":
            stack += [module.computations[c].root for c in module.callees[i]]
        elif opcode == "compare":
            below = {module.opcodes[through(module, o, SPREADS)] for o in module.operands[i]}
            is_label = is_label or "iota" in below or "constant" in below
        elif opcode in ("add", "subtract") and _mixes(module, i):
            mixing.add(i)
        if opcode in (*_FORMS, "add", "subtract", "multiply", "select") and len(stack) < MAX_STEPS:
            stack += [o for o in module.operands[i] if not is_number(module, o)]
    return (mixing if is_label else set()), is_label


def _mixes(module: Module, i: int) -> bool:
    """Whether one number is added to a value at all places."""
    return sum(is_number(module, o) for o in module.operands[i]) == 1
