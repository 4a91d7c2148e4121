"""The pairs of a run that were explained: in short in memory, whole in a file, modules when asked.

However many graphs a run has, the modules of one pair are in memory at a time.
"""

from __future__ import annotations

import hashlib
import weakref
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from xlagraph.facts.named_inputs import with_inputs_named
from xlagraph.runs.cache import unpacked
from xlagraph.runs.context import context_of
from xlagraph.runs.outcome import Outcome
from xlagraph.runs.tasks import GraphPlace, Pair, Side, explain_fully

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Context, Explanation
    from xlagraph.runs.pairing import Compared, RunGraph

IN_MEMORY = 16_000_000
"""Bytes of outcomes, packed, above which they go to a file."""


class Pairs:
    """What each graph was compared with, and what came of it."""

    def __init__(
        self,
        address: str,
        graphs: Sequence[RunGraph],
        compared: Sequence[Compared],
        *,
        cached: bool,
    ) -> None:
        self.address = address
        self.graphs = tuple(graphs)
        self.compared = tuple(compared)
        self._cached = cached
        self._known: dict[int, str] = {}
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed with self
        weakref.finalize(self, self._file.close)
        self._places: dict[int, tuple[int, int]] = {}

    def context(self, number: int) -> Context:
        """What the capture knows of a graph, as the explanations take it."""
        graph = self.graphs[number]
        known = context_of(graph.process, graph.record)
        return with_inputs_named(known, graph.sketch.replaced_by())

    def key(self, number: int) -> str:
        """Names a pair in the cache: both digests, and what the capture knows of the two."""
        other = self._other(number)
        sides = [f"{self.graphs[k].record.digest}-{self._known_of(k)}" for k in (other, number)]
        return f"pair-{'-'.join(sides)}"

    def _known_of(self, number: int) -> str:
        """A digest of a graph's context, where it may be asked for in the cache."""
        if self._cached and number not in self._known:
            text = repr(self.context(number)).encode("utf-8", "replace")
            self._known[number] = hashlib.blake2b(text, digest_size=8).hexdigest()
        return self._known.get(number, "")

    def pair(self, number: int) -> Pair:
        """A graph and the one that it is compared with, as a task."""
        other = self._other(number)
        return Pair(self._side(other), self._side(number), self.key(number))

    def _side(self, number: int) -> Side:
        graph = self.graphs[number]
        place = GraphPlace(self.address, graph.record.digest, graph.letter, self._cached)
        return Side(place, self.context(number))

    def _other(self, number: int) -> int:
        other = self.compared[number].number
        assert other is not None
        return other

    def keep(self, number: int, data: bytes) -> Outcome | None:
        """Takes in the packed outcome of a pair; in short, None if it is damaged."""
        found: Outcome | None = unpacked(data, self.key(number), Outcome)
        if found is None:
            return None
        start = self._file.seek(0, 2)
        self._file.write(data)
        self._places[number] = (start, len(data))
        return found.in_short().named(*self._letters(number))

    def outcome(self, number: int) -> Outcome:
        """The whole outcome of a pair, with the instructions that it cites."""
        start, size = self._places[number]
        self._file.seek(start)
        found = unpacked(self._file.read(size), self.key(number), Outcome)
        assert isinstance(found, Outcome)
        return found.named(*self._letters(number))

    def explain(self, before: int, after: int) -> tuple[Explanation, tuple[Context, Context]]:
        """Two graphs explained with their modules, and what the capture knows of them.

        Raises:
            InputError: a module is not readable HLO.
            RunError: a module is damaged.
        """
        a, b = self._side(before), self._side(after)
        explanation = explain_fully(a, b).named(a.graph.letter, b.graph.letter)
        return explanation, (a.context, b.context)

    def files(self) -> set[str]:
        """The Python files that the graphs come from."""
        return {file for graph in self.graphs for file in graph.sketch.files}

    def _letters(self, number: int) -> tuple[str, str]:
        return self.graphs[self._other(number)].letter, self.graphs[number].letter
