"""Graphs whose own first cause comes along with what other graphs have too.

A number that changes may equal another one by chance, or be 1; its first step may begin a sum
anew, or keep a value that nobody has read yet. Such a graph differs in both, and the larger
part of the difference says little: what other graphs differ in is what makes them compile.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.rules.initial_state import INITIAL_STATE
from xlagraph.rules.live_tensors import LIVE_TENSOR
from xlagraph.rules.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.shared_scalar import SHARED_SCALAR
from xlagraph.runs.growth import main_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.reasons import Reason

COMES_ALONG = frozenset({SHARED_SCALAR, SPECIAL_SCALAR, INITIAL_STATE, LIVE_TENSOR})
OFTEN = 3
"""So many graphs have a reason that others come of; of those that come along there are fewer."""


def of_others(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs that come of one which others have."""
    open_nodes = [node for node in nodes if not node.warm_up]
    number = Counter(known[node.digest] for node in open_nodes)
    often = {
        (reason.kind, reason.line): reason
        for reason, times in number.items()
        if times >= OFTEN and reason.kind not in COMES_ALONG
    }
    found = {}
    for node in open_nodes:
        reason = known[node.digest]
        if number[reason] >= OFTEN or reason.kind not in COMES_ALONG or reason.retell:
            continue
        causes = node.explanation.causes if node.explanation else ()
        keys = ((cause.kind, main_line(cause)) for cause in causes[1:])
        if other := next((often[key] for key in keys if key in often), None):
            found[node.digest] = other
    return found
