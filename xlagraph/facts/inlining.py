"""A module with its calls put in line.

JAX lowers a jitted function inside another as a call; ``inline=True``, or a function traced in
another way, puts its instructions in the caller's place. XLA inlines calls by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.structure import call_order
from xlagraph.graph import Computation, Module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Attributes

MAX_INSTRUCTIONS = 100_000
"""Instructions up to which calls are put in line: copies of copies can be very many."""


def inline_both(edit: Editors) -> None:
    """Puts the calls of both modules in line, where that is not too much."""
    for editor in edit:
        flat = inlined(editor.build())
        if flat is not None:
            editor.become(flat)


def inlined(module: Module) -> Module | None:
    """The module with every ``call`` replaced by a copy of what it calls.

    Computations that nothing calls any more are left out. None where the result would have
    more than `MAX_INSTRUCTIONS`.
    """
    writer = _Writer(module)
    return writer.module() if writer.write() else None


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

    def write(self) -> bool:
        """Copies what the entry needs; False if it becomes too much."""
        kept = self._kept()
        for c in call_order(self.old):
            if c in kept and not self._write_computation(self.old.computations[c]):
                return False
        return True

    def _kept(self) -> set[int]:
        """The entry and what is called other than by ``call``."""
        found: set[int] = set()
        pending = [(self.old.entry, True)]
        seen: set[tuple[int, bool]] = set()
        calls: dict[int, list[int]] = {}
        for i in self.old.callees:
            calls.setdefault(self.old.computation_of(i).index, []).append(i)
        while pending:
            c, is_kept = pending.pop()
            if (c, is_kept) in seen:
                continue
            seen.add((c, is_kept))
            if is_kept:
                found.add(c)
            for i in calls.get(c, ()):
                is_call = self.old.opcodes[i] == "call"
                pending += [(d, not is_call) for d in self.old.callees[i]]
        return found

    def _write_computation(self, computation: Computation) -> bool:
        start = len(self.names)
        parameters: list[int] = []
        places = self._copy(computation, None, parameters)
        if places is None:
            return False
        self.numbers[computation.index] = len(self.computations)
        by_number = sorted(parameters, key=lambda i: int(self.payloads[i]))
        self.computations.append(
            replace(
                computation,
                index=len(self.computations),
                start=start,
                stop=len(self.names),
                root=places[computation.root],
                parameters=tuple(by_number),
                lines=(),
            )
        )
        return True

    def _copy(
        self, computation: Computation, given: tuple[int, ...] | None, parameters: list[int]
    ) -> Mapping[int, int] | None:
        """Copies instructions; what is `given` stands for the parameters of a call's target."""
        old, places = self.old, dict[int, int]()
        for i in range(computation.start, computation.stop):
            if given is not None and old.opcodes[i] == "parameter":
                places[i] = given[int(old.payloads[i])]
                continue
            operands = tuple(places[o] for o in old.operands[i])
            if old.opcodes[i] == "get-tuple-element" and operands[0] in self.returned:
                index = int(old.attributes[i].get("index") or 0)
                places[i] = self.operands[operands[0]][index]
                continue
            if old.opcodes[i] == "call" and i not in old.controls:
                target = old.computations[old.callees[i][0]]
                inner = self._copy(target, operands, parameters)
                if inner is None:
                    return None
                places[i] = inner[target.root]
                if self.opcodes[places[i]] == "tuple":
                    self.returned.add(places[i])
                continue
            places[i] = self._append(i, operands, places)
            if len(self.names) > MAX_INSTRUCTIONS:
                return None
            if old.opcodes[i] == "parameter":
                parameters.append(places[i])
        return places

    def _append(self, i: int, operands: tuple[int, ...], places: Mapping[int, int]) -> int:
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
