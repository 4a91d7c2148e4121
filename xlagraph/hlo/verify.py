"""The rules that a module graph keeps; call this after everything that makes one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from xlagraph.errors import GraphError, InputError
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Computation, Module

MAX_REPORTED = 20
"""Broken rules that one error lists."""
_CALLS_WITH_OPERANDS = frozenset({"call", "fusion"})


def verify(module: Module) -> None:
    """Checks a module; linear in its size.

    Raises:
        GraphError: a rule is broken; names the instruction, the rule, and what would hold.
    """
    broken = list(islice(problems(module), MAX_REPORTED))
    if broken:
        raise GraphError("\n".join(f"{module.name}: {problem}" for problem in broken))


def problems(module: Module) -> Iterator[str]:
    """What is wrong with a module, one sentence each; nothing for a sound one."""
    count = len(module.names)
    columns = (module.opcodes, module.shapes, module.operands, module.attributes)
    if any(len(column) != count for column in columns):
        yield "columns differ in length; each instruction has one entry in each"
        return
    if not 0 <= module.entry < len(module.computations):
        yield f"entry {module.entry} is no computation"
        return
    yield from _ranges(module)
    for computation in module.computations:
        yield from _computation(module, computation)
    yield from _calls(module)
    for text in set(module.shapes):
        if text:
            try:
                read_shape(text)
            except InputError as error:
                yield f"shape {text!r} cannot be read: {error.message}"


def _ranges(module: Module) -> Iterator[str]:
    start = 0
    for index, computation in enumerate(module.computations):
        name = computation.name
        if computation.index != index:
            yield f"computation {name} has index {computation.index}, stands at {index}"
        if computation.start != start or computation.stop <= computation.start:
            yield f"computation {name} has to begin at {start} and hold an instruction"
        if not computation.start <= computation.root < computation.stop:
            yield f"root of {name} is {computation.root}, outside of the computation"
        start = computation.stop
    if start != len(module.names):
        yield f"computations hold {start} instructions, the columns {len(module.names)}"
    names = [computation.name for computation in module.computations]
    if len(set(names)) != len(names):
        yield "two computations share a name"


def _computation(module: Module, computation: Computation) -> Iterator[str]:
    where = f"in {computation.name}"
    numbers = range(computation.start, min(computation.stop, len(module.names)))
    if len({module.names[number] for number in numbers}) != len(numbers):
        yield f"{where}: two instructions share a name"
    for number in numbers:
        before = (*module.operands[number], *module.controls.get(number, ()))
        if any(not computation.start <= other < number for other in before):
            yield f"{where}: {module.names[number]} uses what is not defined before it"
        opcode = module.opcodes[number]
        if opcode in ("parameter", "constant") and number not in module.payloads:
            yield f"{where}: {opcode} {module.names[number]} has no payload"
        if opcode == "get-tuple-element":
            yield from _tuple_element(module, number, where)
    declared = tuple(
        (number, module.payloads.get(number, ""))
        for number in numbers
        if module.opcodes[number] == "parameter"
    )
    expected = {number: str(place) for place, number in enumerate(computation.parameters)}
    if {number: payload.lstrip("0") or "0" for number, payload in declared} != expected:
        yield f"{where}: parameters are not numbered 0, 1, 2, ... in the parameter list"


def _tuple_element(module: Module, number: int, where: str) -> Iterator[str]:
    index = module.attributes[number].get("index") or ""
    operands = module.operands[number]
    if len(operands) != 1 or not index.isdecimal():
        yield f"{where}: {module.names[number]} needs one operand and an index"
        return
    text = module.shapes[operands[0]]
    parts = read_shape(text).parts if text.startswith("(") else ()
    if text and (len(index) > 9 or int(index) >= len(parts)):
        yield f"{where}: {module.names[number]} takes part {index} of {len(parts)}"


def _calls(module: Module) -> Iterator[str]:
    calls: dict[int, set[int]] = {}
    for number, callees in module.callees.items():
        caller = module.computation_of(number)
        name = f"{module.names[number]} in {caller.name}"
        printed = sum(len(names) for _, names in module.attributes[number].callees)
        if printed != len(callees):
            yield f"{name} calls {len(callees)} computations, its attributes name {printed}"
        if any(not 0 <= callee < len(module.computations) for callee in callees):
            yield f"{name} calls a computation that does not exist"
            continue
        calls.setdefault(caller.index, set()).update(callees)
        if module.opcodes[number] in _CALLS_WITH_OPERANDS:
            for callee in callees:
                taken = len(module.computations[callee].parameters)
                if taken != len(module.operands[number]):
                    yield f"{name} passes {len(module.operands[number])} operands for {taken}"
    if _has_circle(calls, len(module.computations)):
        yield "computations call each other in a circle"


def _has_circle(calls: dict[int, set[int]], count: int) -> bool:
    """Takes away computations that call nothing any more; a circle is what stays."""
    callers: dict[int, list[int]] = {}
    waiting = {caller: len(callees) for caller, callees in calls.items()}
    for caller, callees in calls.items():
        for callee in callees:
            callers.setdefault(callee, []).append(caller)
    free = [index for index in range(count) if not waiting.get(index)]
    done = 0
    while free:
        done += 1
        for caller in callers.get(free.pop(), ()):
            waiting[caller] -= 1
            if not waiting[caller]:
                free.append(caller)
    return done != count
