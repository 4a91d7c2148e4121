"""Which operands were seen to count: values that no argument has reached are not compared.

A branch that is never taken, and a bound that nothing exceeds, say nothing of what they depend on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlagraph.evaluate.never import (
    asks_nothing,
    behind,
    constant_of,
    given_as,
    is_neutral,
    is_never_negative,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from xlagraph.evaluate.step import Step
    from xlagraph.graph import Module

_OF_DEVICE = frozenset({"partition-id", "replica-id"})


def _bits(*flags: Any) -> int:
    return sum(bool(np.any(flag)) << k for k, flag in enumerate(flags))


def _of_select(operands: Sequence[Any], _: Any) -> int:
    which = operands[0]
    return _bits(which, ~which)


def _of_larger(operands: Sequence[Any], _: Any) -> int:
    return _bits(operands[0] > operands[1], operands[0] < operands[1])


def _of_smaller(operands: Sequence[Any], _: Any) -> int:
    return _bits(operands[0] < operands[1], operands[0] > operands[1])


def _of_clamp(operands: Sequence[Any], _: Any) -> int:
    low, x, high = operands
    return _bits(x < low, (x > low) & (x < high), x > high)


def _of_compare(_: Sequence[Any], made: Any) -> int:
    return _bits(made, ~made)


def _of_sign(operands: Sequence[Any], _: Any) -> int:
    if operands[0].dtype.kind == "c":
        return 3
    return _bits(operands[0] > 0, operands[0] < 0)


def _of_remainder(operands: Sequence[Any], made: Any) -> int:
    return _bits(made != operands[0])


_BOUNDS = frozenset({"clamp", "maximum", "minimum"})
_FORMS = frozenset(
    {"bitcast", "broadcast", "call", "clamp", "compare", "concatenate", "conditional", "convert"}
    | {"copy", "gather", "reshape", "select", "slice", "transpose", "tuple", "while"}
)
"""What computes nothing, or has a coverage of its own."""
_SPREADS = frozenset({"bitcast", "broadcast", "convert", "copy", "reshape", "transpose"})
_SEEN: dict[str, tuple[int, Callable[[Sequence[Any], Any], int]]] = {
    "abs": (3, _of_sign),
    "clamp": (7, _of_clamp),
    "compare": (3, _of_compare),
    "maximum": (3, _of_larger),
    "minimum": (3, _of_smaller),
    "remainder": (1, _of_remainder),
    "select": (3, _of_select),
    "sign": (3, _of_sign),
}
"""All that can be seen of an opcode, and what tells it."""


class Coverage:
    """What was seen of a program's instructions, over all its evaluations."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._branches: dict[int, set[int]] = {}
        self._before: tuple[dict[int, int], dict[int, set[int]]] = ({}, {})

    def settle(self, *, keep: bool) -> None:
        """Keeps, or forgets, what was seen since it was settled last."""
        if keep:
            branches = {i: set(taken) for i, taken in self._branches.items()}
            self._before = (dict(self._seen), branches)
        else:
            seen, branches = self._before
            self._seen = dict(seen)
            self._branches = {i: set(taken) for i, taken in branches.items()}

    def note(self, step: Step, operands: Sequence[Any], made: Any) -> None:
        """Takes in one evaluation of an instruction."""
        if step.opcode in _SEEN:
            whole, of = _SEEN[step.opcode]
            seen = self._seen.get(step.number, 0)
            if seen != whole:
                self._seen[step.number] = seen | of(operands, made)

    def note_branch(self, step: Step, branch: int) -> None:
        """Takes in that a branch was taken, or a loop's body was."""
        self._branches.setdefault(step.number, set()).add(branch)

    def unseen(self, module: Module, changed: Collection[int], *, in_rows: bool) -> set[int]:
        """Those of these instructions that outputs depend on, and were not seen to.

        What no input reaches is always as it was seen: it counts as one value, and a branch that it
        leaves out counts nowhere.
        """
        varies = varying(module, in_rows=in_rows)

        def edges(module: Module, i: int) -> Iterable[int]:
            if i not in varies:
                return ()
            is_choice = module.opcodes[i] in ("conditional", "select")
            is_fixed = is_choice and module.operands[i][0] not in varies
            if is_fixed:
                return self._edges(module, i)
            return (o for o in _all(module, i) if not is_neutral(module, i, o, in_rows=in_rows))

        of_changed = _users(module, {*changed} - varies, varies)
        asked = _reached(module, edges) & {*changed, *of_changed}
        of_one_sign = {i for i in asked & varies if self._is_of_one_sign(module, i)}
        return of_one_sign | (asked - _reached(module, self._edges))

    def cut_off(self, module: Module, changed: Collection[int], *, in_rows: bool) -> set[int]:
        """Those of these instructions that take in what a bound has always cut off.

        As the logarithm of counts that are at least 1: where such a term stands, in a sum or in a
        quotient of one, makes no difference as long as it is 0.
        """
        cut = varying(module, in_rows=in_rows) - self._not_cut_off(module)
        own = (i for i in changed if module.opcodes[i] not in _FORMS)
        return {i for i in own if not cut.isdisjoint(module.operands[i])}

    def _not_cut_off(self, module: Module) -> set[int]:
        """What inputs reach, through bounds where they were seen not to be exceeded."""
        entry = module.entry_computation
        found = {*range(len(module))} - {*range(entry.start, entry.stop)} | {*entry.parameters}
        for i in range(entry.start, entry.stop):
            is_bound = module.opcodes[i] in _BOUNDS
            if not found.isdisjoint(self._edges(module, i) if is_bound else _all(module, i)):
                found.add(i)
        return found

    def wraps_all(self, module: Module) -> bool:
        """Whether each remainder of what inputs reach was seen to be another number than that."""
        own = {i for i, opcode in enumerate(module.opcodes) if opcode == "remainder"}
        unseen = {i for i in own if not self._seen.get(i, 0)}
        return not unseen or unseen.isdisjoint(_reached(module, _all) & varying(module))

    def one_way(self, module: Module) -> frozenset[int]:
        """The comparisons that were never true, or always, wherever the module was evaluated."""
        compares = (i for i, opcode in enumerate(module.opcodes) if opcode == "compare")
        return frozenset(i for i in compares if self._seen.get(i, 0) in (1, 2))

    def _is_of_one_sign(self, module: Module, i: int) -> bool:
        is_asked = module.opcodes[i] in ("abs", "sign") and self._seen.get(i, 0) != 3
        return is_asked and not is_never_negative(module, module.operands[i][0])

    def _edges(self, module: Module, i: int) -> Iterable[int]:
        """The operands that were seen to count, and the results of what was called."""
        operands, seen = module.operands[i], self._seen.get(i, 0)
        match module.opcodes[i]:
            case "conditional":
                taken = self._branches.get(i, set())
                which = operands[:1] if len(taken) > 1 else ()
                called = [_root(module, module.callees[i][k]) for k in taken]
                return (*which, *(operands[k + 1] for k in taken), *called)
            case "while":
                condition, body = _condition_and_body(module, i)
                called = [_root(module, condition)]
                return (
                    *operands,
                    *called,
                    *((_root(module, body),) if i in self._branches else ()),
                )
            case "select":
                return _picked(operands, (seen == 3, seen & 1, seen & 2))
            case "clamp":
                return _picked(operands, (seen & 1, seen & 2, seen & 4))
            case "maximum" | "minimum" if i in self._seen:
                return _picked(operands, (seen & 1, seen & 2))
            case "compare" if i in self._seen and seen != 3:
                return ()
            case _:
                return _all(module, i)


def deep_forms_of(module: Module, some: Iterable[int]) -> set[tuple[str, ...]]:
    """Which operations are among some instructions, with what makes their operands."""
    return {
        (module.opcodes[i], *sorted(module.opcodes[behind(module, o, _SPREADS)] for o in below))
        for i in some
        for below in [module.operands[i]]
    }


def forms_of(module: Module, some: Iterable[int]) -> set[tuple[str, str, str]]:
    """Which operations are among some instructions, whatever the sizes they work on.

    A bound that no argument reaches is the same one in two modules if both have it in this form,
    however often: one may call a function that the other has put in line.
    """
    return {
        (
            "" if constant else module.opcodes[i],
            module.shapes[i].partition("[")[0],
            constant or module.attributes[i].get("direction") or "",
        )
        for i in some
        for constant in [constant_of(module, i)]
    }


def _picked(operands: Sequence[int], flags: Sequence[int | bool]) -> list[int]:
    return [operand for operand, flag in zip(operands, flags, strict=True) if flag]


def _root(module: Module, computation: int) -> int:
    return module.computations[computation].root


def _condition_and_body(module: Module, i: int) -> tuple[int, int]:
    first, second = module.callees[i]
    is_condition = module.attributes[i].callees[0][0] == "condition"
    return (first, second) if is_condition else (second, first)


def _all(module: Module, i: int) -> Iterable[int]:
    return (*module.operands[i], *(_root(module, c) for c in module.callees.get(i, ())))


def varying(module: Module, *, in_rows: bool = False) -> set[int]:
    """The instructions that an input reaches, through what is called too."""
    found = {*module.entry_computation.parameters}
    carried = _carried(module)
    asks_device = not _OF_DEVICE.isdisjoint(module.opcodes)
    before = -1
    while len(found) > before:
        before = len(found)
        for i, operands in enumerate(module.operands):
            called = [module.computations[c] for c in module.callees.get(i, ())]
            varies = module.opcodes[i] in _OF_DEVICE or not found.isdisjoint(operands)
            is_given = varies or asks_device
            element = _element(module, i)
            if element is not None:
                varies = element in found
            elif i in carried:
                varies = not found.isdisjoint(carried[i])
            elif module.opcodes[i] == "call":
                taken = zip(called[0].parameters, operands, strict=True)
                found.update(p for p, given in taken if given in found)
                varies = False
            elif varies:
                found.update(p for computation in called for p in computation.parameters)
            varies = varies or (is_given and any(c.root in found for c in called))
            if varies and not asks_nothing(module, i, in_rows=in_rows):
                found.add(i)
    return found


def _carried(module: Module) -> dict[int, tuple[int, ...]]:
    """What is asked of a loop's state, each with what it follows from.

    That is its first value, what the body makes of it, and how often the body runs: a loop's
    counter follows from no input, whatever else the loop carries.
    """
    found: dict[int, tuple[int, ...]] = {}
    for i, opcode in enumerate(module.opcodes):
        if opcode != "while":
            continue
        condition, body = _condition_and_body(module, i)
        (first,), then = module.operands[i], _root(module, body)
        if module.opcodes[first] == module.opcodes[then] == "tuple":
            states = [i]
            for computation in (condition, body):
                states += module.computations[computation].parameters
            for user in (user for state in states for user in module.users[state]):
                if module.opcodes[user] == "get-tuple-element":
                    k = int(module.attributes[user].get("index") or 0)
                    follows = (module.operands[first][k], module.operands[then][k])
                    found[user] = (*follows, _root(module, condition))
    return found


def _users(module: Module, fixed: set[int], varies: set[int]) -> set[int]:
    """What is computed of these instructions and reached by no input."""
    found = set(fixed)
    for i, operands in enumerate(module.operands):
        if i not in varies and not found.isdisjoint(operands):
            found.add(i)
    return found


def _reached(module: Module, edges: Callable[[Module, int], Iterable[int]]) -> set[int]:
    """What is reached from the outputs, also through functions to what they are given."""
    root = module.entry_computation.root
    found, pending = {root}, [root]
    while pending:
        i = pending.pop()
        if (element := _element(module, i)) is not None:
            following: Iterable[int] = (element,)
        elif module.opcodes[i] == "call":
            following = (_root(module, module.callees[i][0]),)
        else:
            is_parameter = module.opcodes[i] == "parameter"
            following = (given_as(module, i) if is_parameter else ()) or edges(module, i)
        for below in following:
            if below not in found:
                found.add(below)
                pending.append(below)
    return found


def _element(module: Module, i: int) -> int | None:
    """What a tuple that is made, or that a function gives out, has where it is asked for it."""
    if module.opcodes[i] != "get-tuple-element":
        return None
    (whole,) = module.operands[i]
    if module.opcodes[whole] == "call":
        whole = _root(module, module.callees[whole][0])
    if module.opcodes[whole] != "tuple":
        return None
    return module.operands[whole][int(module.attributes[i].get("index") or 0)]
