"""How often a loop runs, where that stands in the module.

XLA's own analysis (``while_loop_analysis.cc``) evaluates the loop; here the one form is read that
front ends write: a counter that begins, ends and moves by constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.patterns import re

if TYPE_CHECKING:
    from xlagraph.graph import Computation, Module

_KNOWN = re.compile(r"""known_trip_count["']?\s*:\s*\{\s*["']?n["']?\s*:\s*["']?(\d{1,9})""")
_THROUGH = frozenset({"copy", "convert", "bitcast", "reshape"})


def trip_count(module: Module, loop: int) -> int | None:
    """How often the body of a ``while`` runs; None where that is not known."""
    attributes = module.attributes[loop]
    known = _KNOWN.search(attributes.text)
    if known:
        return int(known[1])
    roles = dict(attributes.callees)
    ours = {module.computations[c].name: module.computations[c] for c in module.callees[loop]}
    condition, body = (ours.get(roles.get(key, ("",))[0]) for key in ("condition", "body"))
    if condition is None or body is None or not module.operands[loop]:
        return None
    place, end, direction = _compared(module, condition)
    start = _constant(module, _picked(module, module.operands[loop][0], place))
    step = _step(module, body, place)
    if start is None or end is None or not step:
        return None
    return _counted(start, end, step, direction)


def _counted(start: int, end: int, step: int, direction: str) -> int | None:
    if direction == "LE" and step > 0:
        direction, end = "LT", end + 1
    if direction == "GE" and step < 0:
        direction, end = "GT", end - 1
    if (direction, step > 0) not in (("LT", True), ("GT", False)):
        return None
    return max(0, -(-(end - start) // step))


def _compared(module: Module, condition: Computation) -> tuple[int, int | None, str]:
    """The place of the counter in the loop's tuple, its bound, and the direction."""
    root = condition.root
    direction = module.attributes[root].get("direction") or ""
    if module.opcodes[root] != "compare" or len(module.operands[root]) != 2:
        return -1, None, ""
    counter, bound = module.operands[root]
    if _constant(module, counter) is not None:
        counter, bound = bound, counter
        direction = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, "")
    return _place(module, counter), _constant(module, bound), direction


def _step(module: Module, body: Computation, place: int) -> int | None:
    """What the body adds to the counter."""
    new = _picked(module, body.root, place)
    new = _past(module, new) if new is not None else None
    is_sum = new is not None and module.opcodes[new] in ("add", "subtract")
    if new is None or not is_sum or len(module.operands[new]) != 2:
        return None
    x, y = module.operands[new]
    if module.opcodes[new] == "subtract":
        x, y = y, x
        step = _constant(module, x)
        return -step if step is not None and _place(module, y) == place else None
    for counter, step in ((x, _constant(module, y)), (y, _constant(module, x))):
        if step is not None and _place(module, counter) == place:
            return step
    return None


def _past(module: Module, i: int) -> int:
    while module.opcodes[i] in _THROUGH and module.operands[i]:
        i = module.operands[i][0]
    return i


def _place(module: Module, i: int) -> int:
    """Which element of a computation's one parameter an instruction is; -1 for none."""
    i = _past(module, i)
    if module.opcodes[i] != "get-tuple-element" or not module.operands[i]:
        return -1
    if module.opcodes[module.operands[i][0]] != "parameter":
        return -1
    return int(module.attributes[i].get("index") or -1)


def _picked(module: Module, i: int, place: int) -> int | None:
    """Element `place` of a tuple that is made on the spot."""
    i = _past(module, i)
    operands = module.operands[i]
    is_there = module.opcodes[i] == "tuple" and 0 <= place < len(operands)
    return operands[place] if is_there else None


def _constant(module: Module, i: int | None) -> int | None:
    if i is None:
        return None
    i = _past(module, i)
    text = module.payloads.get(i, "").strip()
    if module.opcodes[i] != "constant" or not text.lstrip("-").isdecimal() or len(text) > 18:
        return None
    return int(text)
