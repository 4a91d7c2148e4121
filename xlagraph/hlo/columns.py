"""The module under construction: columns that both ways of reading append to."""

from __future__ import annotations

import re
import sys
from itertools import compress
from typing import TYPE_CHECKING

from xlagraph.errors import InputError, Location
from xlagraph.graph import Computation, Module
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.errors import Source
    from xlagraph.graph import Attributes, StackTables


class Columns:
    """Collects computations; `finish` links calls between them and makes the module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.computations: list[Computation] = []
        self.entry = -1
        self.names: list[str] = []
        self.opcodes: list[str] = []
        self.shapes: list[str] = []
        self.operands: list[tuple[int, ...]] = []
        self.attributes: list[Attributes] = []
        self.payloads: dict[int, str] = {}
        self.controls: dict[int, tuple[int, ...]] = {}
        self.calling: list[int] = []
        """Instructions that call computations, ascending."""
        self.known_attributes: dict[str, Attributes] = {}
        self.linking_attributes: dict[str, Attributes] = {}
        """Attributes that name computations or other instructions; the rest are known ones."""
        self.known_texts: dict[str, str] = {}
        """Opcodes and shapes, each once."""
        self.checked_shapes: set[str] = set()
        self.computation_numbers: dict[str, int] = {}
        self._line = source.first_line
        self._line_offset = 0

    def line_at(self, offset: int) -> int:
        """Line number of an offset; each byte is counted once when offsets grow."""
        if offset < self._line_offset:
            return self.source.first_line + self.source.text.count("\n", 0, offset)
        self._line += self.source.text.count("\n", self._line_offset, offset)
        self._line_offset = offset
        return self._line

    def add_computation(self, computation: Computation, *, is_entry: bool) -> None:
        """Appends a computation whose instructions are in the columns already."""
        self.computation_numbers[computation.name] = computation.index
        self.computations.append(computation)
        if is_entry:
            self.entry = computation.index

    def finish(self, name: str, header: tuple[tuple[str, str], ...], tables: StackTables) -> Module:
        """Links callees and makes the module.

        Raises:
            InputError: a called computation does not exist, or computations call each other
                in a circle.
        """
        if not self.computations:
            raise InputError("expected a computation", Location(self.source, len(self.source.text)))
        callees = {number: self._callees(number) for number in self.calling}
        self._check_acyclic(callees)
        self._check_parts()
        entry = self.entry if self.entry >= 0 else len(self.computations) - 1
        return Module(
            name=name or self.computations[entry].name,
            header=header,
            computations=tuple(self.computations),
            entry=entry,
            names=self.names,
            opcodes=self.opcodes,
            shapes=self.shapes,
            operands=self.operands,
            attributes=self.attributes,
            payloads=self.payloads,
            callees=callees,
            controls=self.controls,
            tables=tables,
            file=self.source.name,
        )

    def _callees(self, number: int) -> tuple[int, ...]:
        callees: list[int] = []
        for _, names in self.attributes[number].callees:
            for name in names:
                callee = self.computation_numbers.get(name)
                if callee is None:
                    message = f"unknown computation {name!r}"
                    raise InputError(message, self._location(number, name))
                callees.append(callee)
        return tuple(callees)

    def _check_parts(self) -> None:
        """Makes sure that every get-tuple-element takes a part that its tuple has."""
        parts = wrong_parts(self.opcodes, self.shapes, self.operands, self.attributes)
        for number, index, message in parts:
            raise InputError(message, self._location(number, f"index={index}"))

    def _check_acyclic(self, callees: dict[int, tuple[int, ...]]) -> None:
        """Callees that stand before their caller need no search; others get one."""
        calls: dict[int, list[tuple[int, int]]] = {}
        caller = 0
        backward = True
        for number, called in callees.items():
            while self.computations[caller].stop <= number:
                caller += 1
            calls.setdefault(caller, []).extend((callee, number) for callee in called)
            backward = backward and max(called, default=-1) < caller
        if backward:
            return
        done: set[int] = set()
        for start in calls:
            self._search(start, calls, done)

    def _search(self, start: int, calls: dict[int, list[tuple[int, int]]], done: set[int]) -> None:
        """Depth-first search without recursion; a callee on the current path is a circle."""
        if start in done:
            return
        path = [(start, iter(calls.get(start, ())))]
        active = {start}
        while path:
            current, rest = path[-1]
            step = next(rest, None)
            if step is None:
                path.pop()
                active.discard(current)
                done.add(current)
                continue
            callee, number = step
            if callee in active:
                name = self.computations[callee].name
                message = f"computation {name!r} calls itself, directly or through others"
                raise InputError(message, self._location(number, name))
            if callee not in done:
                active.add(callee)
                path.append((callee, iter(calls.get(callee, ()))))

    def _location(self, number: int, name: str) -> Location:
        """Where an instruction names a computation; looked for only when there is an error."""
        text = self.source.text
        computation = next(c for c in self.computations if c.stop > number)
        line = computation.line_of(number)
        offset = 0
        for _ in range(line - self.source.first_line):
            offset = text.find("\n", offset) + 1
        instruction = re.compile(rf"%?{re.escape(self.names[number])}\s*=").search(text, offset)
        offset = instruction.end() if instruction else offset
        callee = re.compile(rf"(?<![\w.\-]){re.escape(name)}(?![\w.\-])").search(text, offset)
        return Location(self.source, callee.start() if callee else offset)


def wrong_parts(
    opcodes: Sequence[str],
    shapes: Sequence[str],
    operands: Sequence[tuple[int, ...]],
    attributes: Sequence[Attributes],
) -> Iterator[tuple[int, str, str]]:
    """Each get-tuple-element that takes a part its tuple lacks: position, index, message."""
    is_part = "get-tuple-element".__eq__
    counts: dict[str, int] = {}
    for number in compress(range(len(opcodes)), map(is_part, opcodes)):
        shape = shapes[operands[number][0]] if operands[number] else ""
        count = counts.get(shape, -1)
        if count < 0:
            count = counts[shape] = part_count(shape)
        index = attributes[number].get("index") or ""
        if len(index) > 9 or not index.isdecimal() or int(index) >= count:
            yield number, index, part_message(count) if index.isdecimal() else "expected an index"


def part_message(count: int) -> str:
    """What is wrong with an index into a tuple of `count` parts."""
    return f"expected an index below {count}" if count else "expected a tuple to take a part of"


def part_count(shape: str) -> int:
    """How many parts a shape has: none if it is no tuple, any number if it is not known."""
    return len(read_shape(shape).parts) if shape else sys.maxsize
