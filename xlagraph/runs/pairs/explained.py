"""The pairs of a run that were explained: in short in memory, whole in a file, modules when asked.

However many graphs a run has, the modules of one pair are in memory at a time.
"""

from __future__ import annotations

import hashlib
import weakref
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from xlagraph.runs.pairs.cache import unpacked
from xlagraph.runs.pairs.outcome import Outcome, explanation_of
from xlagraph.runs.pairs.tasks import GraphPlace, PairTask, Side, explain_fully, modules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Context, Explanation
    from xlagraph.runs.compare import Pair
    from xlagraph.runs.graphs.captured import CapturedGraph

IN_MEMORY = 16_000_000
"""Bytes of outcomes, packed, above which they go to a file."""


class Pairs:
    """What came of each comparison; graphs go by their numbers."""

    def __init__(self, address: str, graphs: Sequence[CapturedGraph], *, cached: bool) -> None:
        self.address = address
        self.graphs = tuple(graphs)
        self._cached = cached
        self._known: dict[int, str] = {}
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed with self
        weakref.finalize(self, self._file.close)
        self._places: dict[Pair, tuple[int, int]] = {}

    def key(self, pair: Pair) -> str:
        """Names a pair in the cache: both digests, and what the capture knows of the two."""
        return f"pair-{'-'.join(map(self.name, pair))}"

    def name(self, number: int) -> str:
        """Names a graph in the cache, with what the capture knows of it."""
        return f"{self.graphs[number].record.digest}-{self._known_of(number)}"

    def _known_of(self, number: int) -> str:
        """A digest of a graph's context, where it may be asked for in the cache."""
        if self._cached and number not in self._known:
            text = repr(self.graphs[number].context()).encode("utf-8", "replace")
            self._known[number] = hashlib.blake2b(text, digest_size=8).hexdigest()
        return self._known.get(number, "")

    def __contains__(self, pair: Pair) -> bool:
        return pair in self._places

    def task(self, pair: Pair) -> PairTask:
        """A pair as work for a worker process."""
        before, after = pair
        return PairTask(self.side(before), self.side(after), self.key(pair))

    def side(self, number: int) -> Side:
        """One graph, and what the capture knows of it."""
        graph = self.graphs[number]
        place = GraphPlace(self.address, graph.record.digest, graph.letter, self._cached)
        return Side(place, graph.context())

    def keep(self, pair: Pair, data: bytes) -> Outcome | None:
        """Takes in the packed outcome of a pair; in short, None if it is damaged."""
        found: Outcome | None = unpacked(data, self.key(pair), Outcome)
        if found is None:
            return None
        start = self._file.seek(0, 2)
        self._file.write(data)
        self._places[pair] = (start, len(data))
        return found.in_short().named(*self._letters(pair))

    def outcome(self, pair: Pair) -> Outcome:
        """The whole outcome of a pair, with the instructions that it cites.

        Raises:
            KeyError: it was not explained.
        """
        start, size = self._places[pair]
        self._file.seek(start)
        found = unpacked(self._file.read(size), self.key(pair), Outcome)
        assert isinstance(found, Outcome)
        return found.named(*self._letters(pair))

    def explain(self, pair: Pair) -> tuple[Explanation, tuple[Context, Context]]:
        """Two graphs explained with their modules, and what the capture knows of them.

        Of a pair that was explained the causes are known, and the modules are compared again.

        Raises:
            InputError: a module is not readable HLO.
            RunError: a module is damaged.
        """
        a, b = map(self.side, pair)
        if pair in self:
            read = modules.read(a.graph), modules.read(b.graph)
            again = explanation_of(self.outcome(pair), *read, a.context, b.context)
        else:
            again = explain_fully(a, b).named(*self._letters(pair))
        return again, (a.context, b.context)

    def files(self) -> set[str]:
        """The Python files that the graphs come from."""
        return {file for graph in self.graphs for file in graph.sketch.files}

    def _letters(self, pair: Pair) -> tuple[str, str]:
        before, after = pair
        return self.graphs[before].letter, self.graphs[after].letter
