"""Calls put in line: every ``call`` replaced by a copy of what it calls, as XLA's CallInliner does.

JAX lowers a jitted function inside another as a call; ``inline=True``, or a function traced in
another way, puts its instructions in the caller's place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xlagraph.canon.structure import call_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Attributes, Computation, Module

MAX_STEPS = 300_000
"""Instructions and calls up to which copies are made: copies of copies can be very many."""


def inlined(module: Module) -> Module | None:
    """The module with every ``call`` replaced by a copy of what it calls.

    A call that control edges tie to others stays. Computations that nothing calls any more are
    left out; copies keep their names. None where it would take more than `MAX_STEPS`.
    """
    writer = _Writer(module)
    return writer.module() if writer.write() else None


@dataclass(slots=True)
class _Copy:
    """A computation on its way into the new module."""

    computation: Computation
    given: tuple[int, ...] | None
    """What stands for the parameters of a call's target; None where they are copied."""
    call: int
    """The instruction of the copy above whose place this one takes; -1 where there is none."""
    rest: Iterator[int]
    places: dict[int, int] = field(default_factory=dict)
    """Old instruction to new one."""


class _Writer:
    """Writes computations anew, callees first."""

    def __init__(self, module: Module):
        self.old = module
        self.names: list[str] = []
        self.opcodes: list[str] = []
        self.shapes: list[str] = []
        self.operands: list[tuple[int, ...]] = []
        self.attributes: list[Attributes] = []
        self.payloads: dict[int, str] = {}
        self.callees: dict[int, tuple[int, ...]] = {}
        self.controls: dict[int, tuple[int, ...]] = {}
        self.computations: list[Computation] = []
        self.numbers: dict[int, int] = {}
        self.returned: set[int] = set()
        """Tuples that calls gave back: their parts are used directly."""
        self.steps = 0
        self.tied = {c for cs in module.controls.values() for c in cs}.union(module.controls)

    def write(self) -> bool:
        """Copies what the entry needs; False if it becomes too much."""
        kept = self._kept()
        return all(
            self._write_computation(self.old.computations[c])
            for c in call_order(self.old)
            if c in kept
        )

    def module(self) -> Module:
        """What was written."""
        return replace(
            self.old,
            computations=tuple(self.computations),
            entry=self.numbers[self.old.entry],
            names=self.names,
            opcodes=self.opcodes,
            shapes=self.shapes,
            operands=self.operands,
            attributes=self.attributes,
            payloads=self.payloads,
            callees=self.callees,
            controls=self.controls,
        )

    def _is_inlined(self, i: int) -> bool:
        return self.old.opcodes[i] == "call" and i not in self.tied

    def _kept(self) -> set[int]:
        """The entry, and what is called in another way than by a call that is put in line."""
        calls: dict[int, list[int]] = {}
        for i in self.old.callees:
            calls.setdefault(self.old.computation_of(i).index, []).append(i)
        found: set[int] = set()
        seen: set[tuple[int, bool]] = set()
        pending = [(self.old.entry, True)]
        while pending:
            c, is_kept = pending.pop()
            if (c, is_kept) in seen:
                continue
            seen.add((c, is_kept))
            if is_kept:
                found.add(c)
            for i in calls.get(c, ()):
                pending += [(d, not self._is_inlined(i)) for d in self.old.callees[i]]
        return found

    def _write_computation(self, computation: Computation) -> bool:
        start = len(self.names)
        places = self._copy(computation)
        if places is None:
            return False
        self.numbers[computation.index] = len(self.computations)
        self.computations.append(
            replace(
                computation,
                index=len(self.computations),
                start=start,
                stop=len(self.names),
                root=places[computation.root],
                parameters=tuple(places[p] for p in computation.parameters),
                lines=(),
            )
        )
        return True

    def _copy(self, computation: Computation) -> dict[int, int] | None:
        """Copies a computation with its calls in line; a stack of copies, no recursion."""
        stack = [_started(computation, None, -1)]
        while True:
            copy = stack[-1]
            i = next(copy.rest, -1)
            if i < 0:
                stack.pop()
                if not stack:
                    return copy.places
                self._returned(stack[-1], copy)
                continue
            self.steps += 1
            if self.steps > MAX_STEPS:
                return None
            operands = tuple(copy.places[o] for o in self.old.operands[i])
            if self._is_inlined(i):
                target = self.old.computations[self.old.callees[i][0]]
                stack.append(_started(target, operands, i))
            else:
                copy.places[i] = self._place(copy, i, operands)

    def _returned(self, above: _Copy, copy: _Copy) -> None:
        """Lets a call stand for what its target's copy gives back."""
        root = copy.places[copy.computation.root]
        above.places[copy.call] = root
        if self.opcodes[root] == "tuple":
            self.returned.add(root)

    def _place(self, copy: _Copy, i: int, operands: tuple[int, ...]) -> int:
        """Where an old instruction stands now: an argument, a part of a tuple, or a copy."""
        old = self.old
        if copy.given is not None and old.opcodes[i] == "parameter":
            return copy.given[int(old.payloads[i])]
        if old.opcodes[i] == "get-tuple-element" and operands[0] in self.returned:
            return self.operands[operands[0]][int(old.attributes[i].get("index") or 0)]
        return self._append(i, operands, copy.places)

    def _append(self, i: int, operands: tuple[int, ...], places: dict[int, int]) -> int:
        old, new = self.old, len(self.names)
        self.names.append(old.names[i])
        self.opcodes.append(old.opcodes[i])
        self.shapes.append(old.shapes[i])
        self.operands.append(operands)
        self.attributes.append(old.attributes[i])
        if i in old.payloads:
            self.payloads[new] = old.payloads[i]
        if i in old.callees:
            self.callees[new] = tuple(self.numbers[c] for c in old.callees[i])
        if i in old.controls:
            self.controls[new] = tuple(places[o] for o in old.controls[i])
        return new


def _started(computation: Computation, given: tuple[int, ...] | None, call: int) -> _Copy:
    return _Copy(computation, given, call, iter(range(computation.start, computation.stop)))
