"""Conclude which known graph a cache hit ran, from measures that cost next to nothing."""

from __future__ import annotations

from dataclasses import dataclass

from xlagraph.capture.counters import Ran

TRUST = 4
"""After so many readings of one size at one place, the place stands for the size."""
RECHECK = 64
"""Every so many hits that look alike, the graph's size is read again."""

Place = tuple[int, str]
Graph = tuple[str, ...]
"""The digests of the modules that a sync compiled."""


@dataclass(slots=True)
class _Habit:
    """What the hits at one place, with one count of tensors made, have been."""

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
    """The graphs compiled so far, and the habits of each place that syncs.

    Which graph a hit ran is known where the tensors that were pending had the hash of one that
    compiled, and where only one has compiled. From there on its size at this place is known, by
    which later hits are named if they can be no other graph. The size as it compiled says less:
    with two nodes for the same data a graph has the same hash, and often the first step has one
    and all others two. So a graph that compiled at the place and had no such hit can be any.
    Between two reads of the size, equal place and equal count of tensors
    made since the last sync stand for equal size, where they always did.
    """

    def __init__(self) -> None:
        self.knows_all = True
        """No graph was compiled that is not known here."""
        self._compiled: dict[Graph, tuple[Place, int]] = {}
        """Where, and the size."""
        self._by_hash: dict[str, set[Graph]] = {}
        self._by_size: dict[int, set[Graph]] = {}
        """Graphs that had it as they compiled, or in a hit that was known for sure."""
        self._hits: dict[tuple[Place, int], set[Graph]] = {}
        """Graphs of which a hit there, of that size, was known for sure."""
        self._open: dict[Place, set[Graph]] = {}
        """By where they compiled, those without such a hit: they can have any size."""
        self._habits: dict[tuple[Place, int], _Habit] = {}
        self._last: _Habit | None = None

    def of(
        self,
        place: Place,
        compiled: Graph,
        outcome: str,
        ran: Ran,
        graph_hash: str = "",
        *,
        is_first: bool = True,
    ) -> tuple[Graph, tuple[int, ...]]:
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
        if outcome not in ("compile", "hit"):
            return (), ()
        if outcome == "compile":
            size = ran.last_graph_size()
            self._compiled[compiled] = place, size
            self._by_size.setdefault(size, set()).add(compiled)
            self._open.setdefault(place, set()).add(compiled)
            if graph_hash:
                self._by_hash.setdefault(graph_hash, set()).add(compiled)
            return compiled, (size,)
        habit = self._habits.get(key) if is_first and seen.made_between >= 0 else None
        if habit is None or not habit.is_trusted or habit.uses >= RECHECK:
            before, habit = habit, _Habit(ran.last_graph_size())
            habit.follow(before)
            if is_first:
                self._habits[key] = habit
        habit.uses += 1
        if is_first:
            self._last = habit
        return self._hit(place, habit.size, graph_hash), (habit.size,)

    def may_repeat(self) -> bool:
        """Whether the last hit may stand for those to come; the next one told of is read anew."""
        if self._last is None or not self._last.is_trusted:
            return False
        self._last.uses = RECHECK
        return True

    def _hit(self, place: Place, size: int, graph_hash: str) -> Graph:
        sure = self._by_hash.get(graph_hash, set()) if graph_hash else set()
        if not sure and self.knows_all and len(self._compiled) == 1:
            sure = set(self._compiled)
        if len(sure) == 1:
            (graph,) = sure
            self._by_size.setdefault(size, set()).add(graph)
            self._hits.setdefault((place, size), set()).add(graph)
            self._open[self._compiled[graph][0]].discard(graph)
            return graph
        known, unsettled = self._hits.get((place, size), set()), self._open.get(place, set())
        if not self.knows_all or len(unsettled) > 1:
            return ()
        possible = known | unsettled or self._by_size.get(size, set())
        if len(possible) == 1 and possible <= self._by_size.get(size, set()):
            (graph,) = possible
            return graph
        return ()


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
