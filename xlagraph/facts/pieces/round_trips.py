"""Values that one side alone converts to another type, and back behind a few operations."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Words
from xlagraph.cause.sources import where
from xlagraph.facts.pieces.propagation import together
from xlagraph.facts.values.telling import MOVING
from xlagraph.message import A, count, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.facts.pieces.propagation import Propagation
    from xlagraph.graph import Module
    from xlagraph.message import Message, Side

COLLECTIVES = (
    "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute",
)  # fmt: skip
BESIDE = MOVING | {"add", "divide", "multiply", "subtract"}
"""What a mean over devices takes beside its sum, and what puts values in their places."""
_UNTOLD = frozenset({
    "bitcast", "broadcast", "constant", "copy", "get-tuple-element", "parameter", "reshape",
    "transpose", "tuple",
})  # fmt: skip
"""What makes, moves or spreads values."""
COLLECTIVE_FIX = say(
    "Convert before the collective in both, or in neither: it moves fewer bytes in the narrow "
    "type, and rounds what every device gives, and each sum of theirs."
)


class RoundTrip(NamedTuple):
    """What one side alone does in another type, from one conversion to the one back."""

    side: Side
    own: str
    to: str
    operations: frozenset[str]
    """The opcodes in between, without those that make, move or spread values."""

    @property
    def collective(self) -> str:
        """The collective that runs in the other type, where nothing but that and a mean does."""
        ran = [name for name in COLLECTIVES if name in self.operations]
        return ran[0] if len(ran) == 1 and self.operations - {*ran} <= BESIDE else ""


def round_trip(case: Case, found: Propagation) -> RoundTrip | None:
    """What one side does between conversions of its own, where it converts all of it back."""
    if bool(found.lone_a) == bool(found.lone_b):
        return None
    view, casts = (case.a, found.lone_a) if found.lone_a else (case.b, found.lone_b)
    module = view.module
    if any(module.opcodes[i] != "convert" for i in casts):
        return None
    types = {(_type(module, module.operands[i][0]), _type(module, i)) for i in casts}
    first = {(_type(module, module.operands[i][0]), _type(module, i)) for i in _starts(view, found)}
    if len(first) != 1:
        return None
    ((own, to),) = first
    if types != {(own, to), (to, own)}:
        return None
    home = {module.computation_of(i).start for i in casts}
    members = found.pairs.keys() if view.side is A else found.pairs.values()
    between = (i for i in members if module.computation_of(i).start in home)
    return RoundTrip(
        view.side, own, to, frozenset(module.opcodes[i] for i in between) - _UNTOLD
    )  # fmt: skip


def of_one_kind(case: Case, found: Sequence[Propagation]) -> list[Propagation]:
    """Those as one that do the same in the same other type, at one line, to a value each."""
    alike: dict[object, list[Propagation]] = defaultdict(list)
    for number, one in enumerate(found):
        trip = round_trip(case, one)
        view = case.a if trip and trip.side is A else case.b
        key = (trip, where(view.module, _starts(view, one))) if trip else number
        alike[key].append(one)
    return [group[0] if len(group) == 1 else together(group) for group in alike.values()]


def told(case: Case, found: Propagation) -> tuple[Message, Words] | None:
    """A title, and what is said in short, where a collective runs in the other type.

    Or where several values go there and back that never meet.
    """
    trip = round_trip(case, found)
    if trip is None or not (trip.collective or _is_apart(case, found)):
        return None
    number = len(_starts(case.a if trip.side is A else case.b, found))
    values = f"{count(number, 'value')} {'is' if number == 1 else 'are'}"
    if trip.collective:
        way = f"converted to {trip.to} before {trip.collective} and back behind it"
    else:
        way = f"converted to {trip.to} and back"
    title = say(f"{values} {way} in ", trip.side, " only")
    words = Words(
        fix=COLLECTIVE_FIX if trip.collective else say(),
        short=title.sentence,
        short_fix=say("Convert before the collective in both, or in neither.")
        if trip.collective
        else say(),
    )
    return title, words


def _is_apart(case: Case, found: Propagation) -> bool:
    """Whether the values that are converted are never taken in together."""
    view, members = (
        (case.a, {*found.lone_a, *found.pairs})
        if found.lone_a
        else (case.b, {*found.lone_b, *found.pairs.values()})
    )
    module, starts = view.module, _starts(view, found)
    if len(starts) < 2:
        return False
    of: dict[int, int] = {i: i for i in starts}
    for i in sorted(members):
        above = {of[o] for o in module.operands[i] if o in of}
        if len(above) > 1:
            return False
        if above:
            of.setdefault(i, above.pop())
    return True


def _starts(view: SideView, found: Propagation) -> list[int]:
    """The conversions of this side alone that nothing of its own feeds."""
    casts = found.lone_a if view.side is A else found.lone_b
    begun = (x if view.side is A else y for x, y in found.origins)
    return sorted(i for i in begun if i in casts)


def _type(module: Module, i: int) -> str:
    return module.shapes[i].partition("[")[0]
