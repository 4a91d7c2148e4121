"""Which comparisons of a run go on its page: the most telling first, as far as the size allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.report.model import PairHead
from xlagraph.report.module_data import module_data
from xlagraph.report.pack import pack
from xlagraph.report.pair_page import pair_data
from xlagraph.report.run_page import cards_of
from xlagraph.report.wording import ShownPair
from xlagraph.runs.steady import comparisons, steady_comparisons
from xlagraph.runs.steps.alternation import cycle_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Context
    from xlagraph.graph import Module
    from xlagraph.report.model import CauseCard
    from xlagraph.report.names import Names
    from xlagraph.runs.model import RunExplanation
    from xlagraph.runs.steady import Comparison

PAGE_BYTES = 250_000
"""What the page takes without modules and pairs: template, style, scripts, overview."""
MAX_MISSES = 3
"""Pairs that turned out too large; after so many the others are not even packed."""
CUTS_NAMED = 6


class ShownPairs:
    """Packed pairs and modules, and what was left out."""

    def __init__(self, explained: RunExplanation, names: Names, max_bytes: int):
        self.blobs: dict[str, str] = {}
        self.heads: list[PairHead] = []
        self.left_out: list[str] = []
        self.cards: dict[int, CauseCard] = {}
        """Those of reasons that a pair on the page stands for, by their places."""
        self._names = names
        self._room = max_bytes - PAGE_BYTES
        known = {one.labels for one in comparisons(explained)}
        steady = steady_comparisons(explained)
        note = cycle_words(explained.alternating, explained.alternating_since)
        for one in steady:
            new = one.labels not in known
            identifier = "~".join(one.labels) if new else one.after.letter
            self._add(one, identifier, note)
        taken = {one.labels for one in steady}
        for one in _by_worth(explained):
            if one.labels not in taken:
                self._add(one, one.after.letter)
        noted = [head for head in self.heads if head.note]
        rest = [head for head in self.heads if not head.note]
        rest.sort(key=lambda head: (len(head.identifier), head.identifier))
        self.heads = noted + rest

    @property
    def cuts(self) -> list[str]:
        """What was left out, in words."""
        number = len(self.left_out)
        if not number:
            return []
        named = ", ".join(self.left_out[:CUTS_NAMED])
        more = f" and {number - CUTS_NAMED} more" if number > CUTS_NAMED else ""
        return [f"the pair views {named}{more}"]

    def _add(self, one: Comparison, identifier: str, note: str = "") -> None:
        title = " → ".join(one.labels)
        if len(self.left_out) >= MAX_MISSES:
            self.left_out.append(title)
            return
        explanation, contexts = one.explain()
        modules = (explanation.diff.a, explanation.diff.b)
        self._names.learn(modules)
        view = ShownPair(self._names, explanation, one.labels, identifier)
        pair = pair_data(view, one.labels, contexts)
        packed = {f"pair-{identifier}": pack(pair.to_json())} | self._modules(
            one.labels, modules, contexts
        )
        size = sum(len(text) for text in packed.values())
        if size > self._room:
            self.left_out.append(title)
            return
        self._room -= size
        what = view.said(explanation.verdict.what)
        self.blobs.update(packed)
        self.heads.append(PairHead(identifier, title, what, view.opening(), note))
        if one.after.nearest == one.before.digest:
            first = next(iter(explanation.causes), None)
            self.cards.update(cards_of(one.explained, one.after, view, first))

    def _modules(
        self,
        labels: tuple[str, str],
        modules: tuple[Module, Module],
        contexts: tuple[Context, Context],
    ) -> dict[str, str]:
        """Those of two modules that the page does not have yet."""
        return {
            f"module-{letter}": pack(module_data(module, self._names, context).to_json())
            for letter, module, context in zip(labels, modules, contexts, strict=True)
            if f"module-{letter}" not in self.blobs
        }


def _by_worth(explained: RunExplanation) -> Sequence[Comparison]:
    """The one that each problem's card shows, then the costliest, warm-up last."""
    shown = {group.shown for group in explained.groups if not group.expected}
    return sorted(
        comparisons(explained),
        key=lambda one: (
            one.after.warm_up,
            one.after.digest not in shown,
            -one.after.spent.wall_seconds,
        ),
    )
