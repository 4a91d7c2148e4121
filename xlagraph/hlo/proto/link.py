"""The computations of a module in one set of columns, their calls linked."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from xlagraph.errors import BytesError
from xlagraph.graph import Attributes, Computation
from xlagraph.hlo.columns import wrong_parts
from xlagraph.hlo.proto.body import LOCAL, MissingError
from xlagraph.hlo.proto.kinds import NO_ATTRIBUTES, calls_of, make_attributes
from xlagraph.hlo.proto.order import CircleError, needed_first
from xlagraph.hlo.proto.sugar import expand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.hlo.proto.body import Body
    from xlagraph.hlo.proto.kinds import Row
    from xlagraph.hlo.proto.schema import Message

_OPCODE, _ATTRIBUTES = attrgetter("opcode"), attrgetter("attributes")


@dataclass(slots=True)
class Columns:
    """The columns of `xlagraph.graph.Module`."""

    computations: list[Computation] = field(default_factory=list)
    entry: int = -1
    names: list[str] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    operands: list[tuple[int, ...]] = field(default_factory=list)
    attributes: list[Attributes] = field(default_factory=list)
    payloads: dict[int, str] = field(default_factory=dict)
    callees: dict[int, tuple[int, ...]] = field(default_factory=dict)
    controls: dict[int, tuple[int, ...]] = field(default_factory=dict)


def link(
    bodies: Sequence[Body], head: Message, schedule: Mapping[int, Sequence[int]], file: str
) -> Columns:
    """Turns ids into positions; computations stay in their order if callees come first in it.

    Raises:
        BytesError: an id names nothing, or something depends on itself.
    """
    linker = _Linker(bodies, file)
    for index, body in enumerate(linker.bodies):
        try:
            linker.append(body, index, schedule.get(body.number))
        except CircleError as error:
            name = body.names[error.place]
            raise linker.error(f"{name!r} in {body.name!r} needs itself", body) from None
        except MissingError as error:
            raise linker.error(str(error), body) from None
    linker.check_parts()
    linker.columns.entry = linker.entry(head)
    return linker.columns


class _Linker:
    def __init__(self, bodies: Sequence[Body], file: str):
        self.file = file
        self.columns = Columns()
        self._known: dict[int, dict[str, tuple[Attributes, tuple[int, ...]]]] = {}
        self._check_names(bodies)
        kept = expand(bodies, self._positions(bodies))
        self.bodies = self._callees_first(kept)
        self._indices = self._positions(self.bodies)
        self._numbers = {body.name: index for index, body in enumerate(self.bodies)}

    def error(self, message: str, body: Body) -> BytesError:
        """An error in a computation; the place is the computation's."""
        return BytesError(message, self.file, body.offset)

    def _check_names(self, bodies: Sequence[Body]) -> None:
        known: set[str] = set()
        for body in bodies:
            if not body.name or body.name in known:
                raise self.error(f"a computation without a name of its own: {body.name!r}", body)
            known.add(body.name)
            own = set(body.names)
            if len(own) != len(body.names) or "" in own:
                raise self.error(
                    f"{body.name!r} has instructions without a name of their own", body
                )
            if not body.names:
                raise self.error(f"computation {body.name!r} is empty", body)

    def _positions(self, bodies: Sequence[Body]) -> dict[int, int]:
        """Positions by id."""
        positions = {body.number: index for index, body in enumerate(bodies)}
        if len(positions) != len(bodies):
            raise self.error("two computations share an id", bodies[-1])
        return positions

    def _callees_first(self, bodies: Sequence[Body]) -> list[Body]:
        indices = self._positions(bodies)
        calls = [
            [self._callee(number, indices, body) for number in body.callees()] for body in bodies
        ]
        try:
            return [bodies[at] for at in needed_first(calls)]
        except CircleError as error:
            body = bodies[error.place]
            message = f"computation {body.name!r} calls itself, directly or through others"
            raise self.error(message, body) from None

    def _callee(self, number: int, indices: Mapping[int, int], body: Body) -> int:
        index = indices.get(number, indices.get(number & LOCAL))
        if index is None:
            raise self.error(f"{body.name!r} calls computation {number}, which is missing", body)
        return index

    def entry(self, head: Message) -> int:
        """The computation that the header names, else the last one."""
        index = self._indices.get(head.entry_computation_id)
        if index is None:
            index = self._numbers.get(head.entry_computation_name, len(self.bodies) - 1)
        return index

    def check_parts(self) -> None:
        """Makes sure that every get-tuple-element takes a part that its tuple has."""
        columns = self.columns
        parts = wrong_parts(columns.opcodes, columns.shapes, columns.operands, columns.attributes)
        for number, index, message in parts:
            name = columns.names[number]
            place = bisect_right(columns.computations, number, key=attrgetter("start")) - 1
            raise self.error(f"{name!r} takes part {index}: {message}", self.bodies[place])

    def append(self, body: Body, index: int, schedule: Sequence[int] | None) -> None:
        """Moves a body into the columns."""
        columns = self.columns
        start = len(columns.names)
        operands, places = body.place(start, schedule)
        columns.names += body.names
        columns.shapes += body.shapes
        columns.operands += operands
        parameters = self._append_rows(body, start, places)
        root = places.get(body.root, places.get(body.root & LOCAL))
        if root is None:
            raise MissingError(f"the root of {body.name!r}, {body.root}, is missing")
        if sorted(parameters) != list(range(len(parameters))):
            raise MissingError(f"parameters of {body.name!r} are not numbered 0, 1, 2, ...")
        columns.computations.append(
            Computation(
                index,
                body.name,
                start,
                len(columns.names),
                root,
                tuple(parameters[place] for place in range(len(parameters))),
                0,
                f'execution_thread="{body.thread}"' if body.thread else "",
            )
        )

    def _append_rows(self, body: Body, start: int, places: Mapping[int, int]) -> dict[int, int]:
        """Opcodes, attributes and payloads; returns parameters by their numbers."""
        columns = self.columns
        columns.opcodes += map(_OPCODE, body.rows)
        columns.attributes += map(_ATTRIBUTES, body.rows)
        parameters: dict[int, int] = {}
        for at in body.special:
            number, row = start + at, body.rows[at]
            payload = row.kind.payload
            if payload is not None:
                columns.payloads[number] = payload
                if row.opcode == "parameter":
                    if int(payload) in parameters:
                        raise MissingError(f"{body.name!r} has two parameters {payload}")
                    parameters[int(payload)] = number
            if row.attributes is NO_ATTRIBUTES:
                columns.attributes[number] = self._linked(number, row, body, places)
        return parameters

    def _linked(self, number: int, row: Row, body: Body, places: Mapping[int, int]) -> Attributes:
        """The attributes of an instruction that calls, waits, or depends on its operand's type."""
        columns, kind = self.columns, row.kind
        operands = columns.operands[number]
        operand_type = columns.shapes[operands[0]].partition("[")[0] if operands else ""
        if kind.controls:
            before = columns.controls[number] = tuple(places[c] for c in kind.controls)
            names = tuple(columns.names[place] for place in before)
            attributes, callees = self._make(row, operand_type, body, names)
        else:
            known = self._known.setdefault(id(row), {})
            if operand_type not in known:
                known[operand_type] = self._make(row, operand_type, body, ())
            attributes, callees = known[operand_type]
        if callees:
            columns.callees[number] = callees
        return attributes

    def _make(
        self, row: Row, operand_type: str, body: Body, controls: tuple[str, ...]
    ) -> tuple[Attributes, tuple[int, ...]]:
        kind = row.kind
        indices = (self._callee(callee, self._indices, body) for callee in kind.callees)
        names = [self.bodies[index].name for index in indices]
        calls = calls_of(kind.calls_as or kind.opcode, names, operand_type)
        attributes = make_attributes(kind, row.metadata, calls, controls, operand_type)
        return attributes, tuple(self._numbers[name] for _, group in calls for name in group)
