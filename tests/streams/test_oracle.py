"""Random programs: what the analysis finds is what a brute-force search for paths finds."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from streams.oracle import Oracle, bytes_of
from streams.programs import program

from xlagraph.streams.order import Order

if TYPE_CHECKING:
    from xlagraph.streams.accesses import Conflict
    from xlagraph.streams.backward import Backward
    from xlagraph.streams.clocks import Stream
    from xlagraph.streams.memory import Unordered

Record = dict[str, Any]
ACTIONS = st.tuples(*[st.integers(0, 300)] * 4)


class Met:
    """Keeps what the analysis meets."""

    def __init__(self) -> None:
        self.conflicts: list[Conflict] = []
        self.frees: set[int] = set()

    def conflict(self, found: Conflict) -> None:
        self.conflicts.append(found)

    def unordered_free(self, found: Unordered) -> None:
        self.frees.add(found.freed.line)

    def unordered_gradient(self, backward: Backward, by: Record, stream: Stream) -> None:
        raise AssertionError((backward, by, stream))


def follow(records: list[Record]) -> Met:
    met = Met()
    order = Order(met)
    order.feed(enumerate(copy.deepcopy(records), 2))
    return met


def touched(record: Record, *, writes: bool) -> set[int]:
    """The bytes of an access."""
    return set().union(*(bytes_of(item) for item in record["w" if writes else "r"]))


def pairs(met: Met, *, certain: bool) -> dict[tuple[int, int], set[int]]:
    """For each line and byte: the earlier lines that the analysis names."""
    found: dict[tuple[int, int], set[int]] = {}
    for one in met.conflicts:
        if (one.doubt == "") == certain:
            both = touched(one.earlier, writes=one.earlier_writes) & touched(
                one.later, writes=one.later_writes
            )
            for byte in both & set(range(one.start, one.end)):
                found.setdefault((one.later["line"], byte), set()).add(one.earlier["line"])
    return found


@settings(max_examples=400, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_races_are_those_of_the_oracle(numbers: list[tuple[int, int, int, int]]) -> None:
    records = program(numbers)
    met = follow(records)
    unsure = Oracle(records).races()
    sure = Oracle(records, one_host=True).races()
    named, doubted = pairs(met, certain=True), pairs(met, certain=False)
    # No false finding: every pair that is named is unordered.
    for place, earlier in named.items():
        assert earlier <= sure.get(place, set())
    for place, earlier in doubted.items():
        assert earlier <= unsure[place]
    # No miss: every access that races is named, with at least one that it races with.
    assert named.keys() == sure.keys()
    assert named.keys() | doubted.keys() == unsure.keys()


@settings(max_examples=400, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_frees_without_order_are_those_of_the_oracle(
    numbers: list[tuple[int, int, int, int]],
) -> None:
    records = program(numbers)
    assert follow(records).frees == Oracle(records).unordered_frees()
