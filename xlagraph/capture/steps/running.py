"""Conclude which known graph a cache hit ran, from measures that cost next to nothing."""

from __future__ import annotations

SiteKey = tuple[int, str]
"""A call site, by the identity of its frames, and the entry."""
Graph = tuple[str, ...]
"""The digests of the modules that a sync compiled."""


class RunningGraphs:
    """The graphs compiled so far, and what is known of the hits that ran them.

    Which graph a hit ran is known where the tensors that were pending had the hash of one that
    compiled, and where only one has compiled. From there on its size at this place is known, by
    which later hits are named if they can be no other graph. The size as it compiled says less:
    with two nodes for the same data a graph has the same hash, and often the first step has one
    and all others two. So a graph that compiled at the place and had no such hit can be any.

    The hash is that of the tensors that Python could see. Where a graph gives back others, too,
    several graphs may share it, and the size must not be that of others, unless those have already
    run again under the hash that they had. Then, too, a hash that none had is of the one graph of
    that size that compiled while nobody looked.
    """

    def __init__(self) -> None:
        self.knows_all = True
        """No graph was compiled that is not known here."""
        self._compiled: dict[Graph, SiteKey] = {}
        """Where."""
        self._by_hash: dict[str, set[Graph]] = {}
        self._by_part: dict[str, set[Graph]] = {}
        """Those of which Python saw a part of the outputs, by its hash."""
        self._unhashed: set[Graph] = set()
        """Those that nobody looked at as they compiled, nor in a hit since."""
        self._by_size: dict[int, set[Graph]] = {}
        """Graphs that had it as they compiled, or in a hit that was known for sure."""
        self._hits: dict[tuple[SiteKey, int], set[Graph]] = {}
        """Graphs of which a hit there, of that size, was known for sure."""
        self._open: dict[SiteKey, set[Graph]] = {}
        """By where they compiled, those without such a hit: they can have any size."""

    def compiled(
        self, graph: Graph, site: SiteKey, size: int, graph_hash: str, *, is_whole: bool
    ) -> None:
        """A graph of ``size`` IR nodes has compiled.

        Args:
            graph: its modules' digests.
            site: where.
            size: IR nodes.
            graph_hash: of the tensors seen pending, on armed steps.
            is_whole: whether these are all that it gives back.
        """
        self._compiled[graph] = site
        self._by_size.setdefault(size, set()).add(graph)
        self._open.setdefault(site, set()).add(graph)
        if not graph_hash:
            self._unhashed.add(graph)
        elif is_whole:
            self._by_hash.setdefault(graph_hash, set()).add(graph)
        else:
            self._by_part.setdefault(graph_hash, set()).add(graph)

    def hit(self, site: SiteKey, size: int, graph_hash: str) -> None:
        """A cached graph ran: where it is known for sure which, so is its size there."""
        graph = self._sure(size, graph_hash)
        if graph is not None:
            if graph in self._unhashed and graph_hash:
                self._unhashed.discard(graph)
                self._by_hash.setdefault(graph_hash, set()).add(graph)
            self._by_size.setdefault(size, set()).add(graph)
            self._hits.setdefault((site, size), set()).add(graph)
            self._open[self._compiled[graph]].discard(graph)

    def of(self, site: SiteKey, size: int, graph_hash: str) -> Graph:
        """The digests that such a hit ran, ``()`` where more than one graph is possible."""
        graph = self._sure(size, graph_hash)
        if graph is not None:
            return graph
        known, unsettled = self._hits.get((site, size), set()), self._open.get(site, set())
        if not self.knows_all or len(unsettled) > 1:
            return ()
        possible = known | unsettled or self._by_size.get(size, set())
        if len(possible) == 1 and possible <= self._by_size.get(size, set()):
            (graph,) = possible
            return graph
        return ()

    def _sure(self, size: int, graph_hash: str) -> Graph | None:
        sure = self._of_hash(size, graph_hash) if graph_hash else set()
        if not sure and self.knows_all and len(self._compiled) == 1:
            sure = set(self._compiled)
        return next(iter(sure)) if len(sure) == 1 else None

    def _of_hash(self, size: int, graph_hash: str) -> set[Graph]:
        same = self._by_size.get(size, set())
        part = self._by_part.get(graph_hash, set())
        known = self._by_hash.get(graph_hash) or part & same
        if known:
            return known
        new = same & self._unhashed
        if any(one in self._open[self._compiled[one]] for one in same - new):
            return set()
        if part:
            return set() if new else part
        return new if self.knows_all else set()


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
