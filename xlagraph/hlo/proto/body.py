"""A computation as its message tells it, and its ids turned into positions.

Ids of protobufs are not positions. Newer XLA numbers the instructions of each computation
anew and puts the computation's id in the upper 32 bits; references may lack these bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, compress, count
from operator import attrgetter
from typing import TYPE_CHECKING

from xlagraph.hlo.proto.kinds import Row
from xlagraph.hlo.proto.order import needed_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_IS_SPECIAL = attrgetter("is_special")
LOCAL = (1 << 32) - 1
"""The bits of an id that tell an instruction within its computation."""


class MissingError(ValueError):
    """An id that names nothing."""


@dataclass(slots=True)
class Body:
    """A computation before its calls are linked: one entry an instruction in each list."""

    name: str
    number: int
    """Its id."""
    root: int
    """The id of its root."""
    thread: str
    offset: int
    """Of its first byte in the file."""
    names: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    operands: list[list[int]] = field(default_factory=list)
    """Ids of the operands."""
    rows: list[Row] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    special: list[int] = field(default_factory=list)
    """Positions of the rows that call, wait, have a payload, or depend on their operands."""

    def find_special(self) -> None:
        """Notes which rows need a closer look; call it when `rows` has changed."""
        self.special = list(compress(count(), map(_IS_SPECIAL, self.rows)))

    def callees(self) -> list[int]:
        """The ids of the computations that its instructions call."""
        return [callee for at in self.special for callee in self.rows[at].kind.callees]

    def place(
        self, start: int, schedule: Sequence[int] | None
    ) -> tuple[list[tuple[int, ...]], Mapping[int, int]]:
        """Operands as positions from `start` on, and the position of each id.

        The order is that of the message, or that of the schedule; if it has operands behind
        their users, it is changed.

        Raises:
            CircleError: an instruction needs itself.
            MissingError: an operand is missing, or an id stands twice.
        """
        if schedule is not None:
            self._follow(schedule)
        placed = self._in_order(start)
        if placed is None:
            self._sort()
            placed = self._in_order(start)
        if placed is None:
            raise MissingError(f"two instructions of {self.name!r} share an id")
        return placed

    def _in_order(self, start: int) -> tuple[list[tuple[int, ...]], dict[int, int]] | None:
        """As `place`, or None where an id is not known before it is used."""
        places: dict[int, int] = {}
        place_of = places.__getitem__
        # Each id is known from the next instruction on.
        known = map(places.__setitem__, self.ids, count(start))
        try:
            # Most have one operand or two, and a map costs as much as two look-ups.
            made = [
                (place_of(ids[0]),)
                if len(ids) == 1
                else (place_of(ids[0]), place_of(ids[1]))
                if len(ids) == 2
                else tuple(map(place_of, ids))
                for ids, _ in zip(self.operands, chain((None,), known), strict=False)
            ]
        except KeyError:
            return None
        next(known, None)
        for at in self.special:
            number = start + at
            if any(places.get(c, number) >= number for c in self.rows[at].kind.controls):
                return None
        return (made, places) if len(places) == len(made) else None

    def _follow(self, schedule: Sequence[int]) -> None:
        """Takes the order of a schedule, where it names each instruction once."""
        places = {number & LOCAL: at for at, number in enumerate(self.ids)}
        order = [places.get(number & LOCAL, -1) for number in schedule]
        if sorted(order) == list(range(len(self.ids))):
            self._reorder(order)

    def _sort(self) -> None:
        """Makes ids local, and brings operands before their users."""
        self.ids = [number & LOCAL for number in self.ids]
        self.operands = [[number & LOCAL for number in ids] for ids in self.operands]
        self.root &= LOCAL
        self.rows = [_local(row) if row.kind.controls else row for row in self.rows]
        places = {number: at for at, number in enumerate(self.ids)}
        below = [
            [*ids, *row.kind.controls] for ids, row in zip(self.operands, self.rows, strict=True)
        ]
        for at, ids in enumerate(below):
            for number in ids:
                if number not in places:
                    message = f"{self.names[at]!r} in {self.name!r} needs instruction {number}"
                    raise MissingError(f"{message}, which is missing")
        self._reorder(needed_first([[places[number] for number in ids] for ids in below]))

    def _reorder(self, order: Sequence[int]) -> None:
        self.names = [self.names[at] for at in order]
        self.ids = [self.ids[at] for at in order]
        self.operands = [self.operands[at] for at in order]
        self.rows = [self.rows[at] for at in order]
        self.shapes = [self.shapes[at] for at in order]
        self.find_special()


def _local(row: Row) -> Row:
    controls = tuple(number & LOCAL for number in row.kind.controls)
    return Row(row.kind._replace(controls=controls), row.shape, row.metadata)
