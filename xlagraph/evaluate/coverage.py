"""Which operands were seen to count: values that no argument has reached are not compared.

A branch that is never taken, and a bound that nothing exceeds, say nothing of what they depend on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from xlagraph.evaluate.step import Step
    from xlagraph.graph import Module


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


_SEEN: dict[str, tuple[int, Callable[[Sequence[Any], Any], int]]] = {
    "abs": (3, _of_sign),
    "clamp": (7, _of_clamp),
    "compare": (3, _of_compare),
    "maximum": (3, _of_larger),
    "minimum": (3, _of_smaller),
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

    def counts(self, module: Module, changed: Collection[int]) -> bool:
        """Whether outputs were seen to depend on all of these instructions that they depend on."""
        asked = _reached(module, _all) & {*changed}
        if any(self._is_of_one_sign(module, i) for i in asked):
            return False
        return asked <= _reached(module, self._edges)

    def _is_of_one_sign(self, module: Module, i: int) -> bool:
        return module.opcodes[i] in ("abs", "sign") and self._seen.get(i, 0) != 3

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


def _reached(module: Module, edges: Callable[[Module, int], Iterable[int]]) -> set[int]:
    """What is reached from the outputs."""
    root = module.entry_computation.root
    found, pending = {root}, [root]
    while pending:
        for i in edges(module, pending.pop()):
            if i not in found:
                found.add(i)
                pending.append(i)
    return found
