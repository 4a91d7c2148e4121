"""Conclude which known graph a cache hit ran, from measures that cost next to nothing."""

from __future__ import annotations

from dataclasses import dataclass

from xlagraph.capture.counters import Ran

TRUST = 4
"""After so many readings of one size at one place, the place stands for the size."""
RECHECK = 64
"""Every so many hits that look alike, the graph's size is read again."""

Place = tuple[int, str]


@dataclass(slots=True)
class _Habit:
    """What the hits at one place, with one count of tensors made, have been."""

    digests: tuple[str, ...]
    size: int
    readings: int = 1
    """Equal ones so far; none counts any more once two differed, as where graphs alternate."""
    is_mixed: bool = False
    uses: int = 0
    """Hits since the last reading."""

    @property
    def is_trusted(self) -> bool:
        return self.readings >= TRUST and not self.is_mixed

    def follow(self, before: _Habit | None) -> None:
        """Goes on from what was known of the place."""
        if before is not None:
            self.is_mixed = before.is_mixed or before.size != self.size
            self.readings = before.readings + 1


class RunningGraphs:
    """The graphs compiled so far, by size, and the habits of each place that syncs.

    A hit's graph is concluded when exactly one known graph has its size, and none was compiled
    while nobody listened. Where several have, the hash of the pending tensors decides, on steps
    where these are looked at. Between two reads of the size, equal place and equal count of
    tensors made since the last sync stand for equal size, where they always did.
    """

    def __init__(self) -> None:
        self.knows_all = True
        """No graph was compiled that is not known here."""
        self._by_size: dict[int, set[tuple[str, ...]]] = {}
        self._by_hash: dict[tuple[str, int], tuple[str, ...]] = {}
        self._habits: dict[tuple[Place, int], _Habit] = {}
        self._last: _Habit | None = None

    def of(
        self,
        place: Place,
        compiled: tuple[str, ...],
        outcome: str,
        ran: Ran,
        graph_hash: str = "",
        *,
        is_first: bool = True,
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Digests that the sync ran, as far as known, and its fingerprint.

        ``ran``: what had run when it ended. ``graph_hash``: of the tensors seen pending, on
        armed steps. Unless it ``is_first`` after the hook before, something ran unseen in
        between, and the count of tensors says nothing.
        """
        made, seen = ran.counters.tensors_made(), ran.counters.seen
        seen.made_between = made - seen.made
        key = (place, seen.made_between)
        seen.made = made
        self._last = None
        if outcome == "empty":
            return (), ()
        habit = self._habits.get(key) if is_first and seen.made_between >= 0 else None
        if outcome == "hit" and habit is not None and habit.is_trusted and habit.uses < RECHECK:
            habit.uses += 1
            self._last = habit
            return habit.digests or self._of_hash(graph_hash, habit.size), (habit.size,)
        size = ran.last_graph_size()
        if outcome == "compile":
            self._by_size.setdefault(size, set()).add(compiled)
            self._by_hash[graph_hash, size] = compiled
            # A new graph of a known size makes what was concluded from that size unsure.
            self._habits = {one: held for one, held in self._habits.items() if held.size != size}
            return compiled, (size,)
        known = self._by_size.get(size, set())
        digests = next(iter(known)) if len(known) == 1 and self.knows_all else ()
        if is_first:
            self._last = self._habits[key] = _Habit(digests, size)
            self._last.follow(habit)
        return digests or self._of_hash(graph_hash, size), (size,)

    def may_repeat(self) -> bool:
        """Whether the last hit may stand for those to come; the next one told of is read anew."""
        if self._last is None or not self._last.is_trusted:
            return False
        self._last.uses = RECHECK
        return True

    def _of_hash(self, graph_hash: str, size: int) -> tuple[str, ...]:
        return self._by_hash.get((graph_hash, size), ()) if graph_hash else ()


class DynamoGraphs:
    """Which modules a dynamo graph hash stands for: these hits are known, not concluded."""

    def __init__(self) -> None:
        self._last: object = None
        self._known: dict[object, tuple[str, ...]] = {}

    def hashed(self, graph_hash: object) -> None:
        """The bridge has asked for a hash; the warm-up that follows compiles its graph."""
        self._last = graph_hash

    def warmed(self, digests: tuple[str, ...]) -> None:
        """The warm-up has compiled these."""
        if self._last is not None and digests:
            self._known[self._last] = digests

    def of(self, graph_hash: object) -> tuple[str, ...]:
        """The digests that a run of this hash runs, if known."""
        return self._known.get(graph_hash, ())
