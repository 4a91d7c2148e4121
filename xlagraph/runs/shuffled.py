"""Graphs that differ in the order in which a loop goes through a list that Python shuffles."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import Code, count, say
from xlagraph.rules.other_operand import OTHER_OPERAND
from xlagraph.rules.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.runs.drawn import MANY, own_frames
from xlagraph.runs.draws import draws_around

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.enclosing import ProgramText
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode

ORDERED = frozenset({OTHER_OPERAND, REORDERED_OPERANDS, REPLACED_SUBGRAPH})
"""What a graph looks like in which the same is done in another order."""
FIX = say(
    "Python puts what the loop goes through into another order, and every order is a graph of its "
    "own. Take one order in every step, sorted or as it comes; or stack the tensors, send the "
    "order as data, and take them by it: ",
    Code("torch.stack(parts).index_select(0, order)"),
    ".",
)


@dataclass(frozen=True, slots=True)
class AsShuffled:
    """Says the cause of a single graph as the order that Python shuffles."""

    shuffle: SourceLine

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with what is shuffled."""
        graphs = count(len(members), "graph")
        return replace(
            cause,
            title=say(
                "Python shuffles", at((self.shuffle,)), f" what is computed in turn: {graphs}"
            ),
            fix=FIX,
            short=say("Python shuffles the order of operations"),
            short_fix=say("Keep one order, or send it as a tensor and index."),
        )


def shuffled(
    causes: Iterable[tuple[GraphNode, Cause]], program: ProgramText
) -> dict[str, AsShuffled]:
    """Digest to what is said of graphs that differ in an order that Python has shuffled.

    Args:
        causes: graphs with their main cause.
        program: what is known of its text.
    """
    found: defaultdict[AsShuffled, list[str]] = defaultdict(list)
    for node, cause in causes:
        frame = next(iter(own_frames(cause)), None)
        lines = program.lines.get(frame.file, {}) if frame else {}
        if frame is None or frame.line not in lines or cause.kind not in ORDERED:
            continue
        line = draws_around(lines, frame.line).shuffled(frame.line)
        if line is not None:
            found[AsShuffled(frame._replace(line=line))].append(node.digest)
    return {
        digest: one for one, digests in found.items() if len(digests) >= MANY for digest in digests
    }
