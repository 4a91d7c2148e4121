"""Compiles with one reason, over all graphs of a run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.finding import count
from xlagraph.cause.places import at
from xlagraph.cause.run_model import CauseGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.cause.run_model import GraphNode

GROWING_KINDS = frozenset(
    {"live-tensor", "extra-subgraph", "replaced-subgraph", "repeated-expression"}
)
WITHOUT_LINE = frozenset({"bucket-carry", "bucket-composition"})
"""Kinds that are one reason wherever they show: their lines are those of a library's hooks."""
GROWTHS = 3
"""So many graphs in a row, each larger than the one before, are growth."""
GROWTH_FIX = (
    "Something is kept from step to step and used, or kept alive, again: keep plain numbers "
    "(fetched after the sync) or detached tensors on the host instead, or update one running "
    "tensor in place."
)
LATE_FIRST = (
    "first graphs since the capture began: the process had compiled before, so they may be "
    "warm-up, or a problem that began earlier"
)


def group_nodes(
    nodes: Sequence[GraphNode], first_step: int, *, began_late: bool
) -> tuple[CauseGroup, ...]:
    """One group for each reason: kind and source line of a module's main cause.

    `first_step`: the first step of the training loop; what begins later is another part.
    `began_late`: the process had compiled before the capture began.
    """
    grown = _growing(nodes)
    grouped: dict[tuple[str, str], list[GraphNode]] = {}
    for node in nodes:
        is_grown = node.digest in grown
        reason = ("growing-graph", grown[node.digest]) if is_grown else _reason(node, first_step)
        grouped.setdefault(reason, []).append(node)
    groups = [_group(kind, line, members) for (kind, line), members in grouped.items()]
    if began_late:
        groups = [replace(g, title=LATE_FIRST) if g.kind == "first-graph" else g for g in groups]
    return tuple(sorted(groups, key=lambda g: (g.expected, -g.seconds, g.title)))


def main_line(cause: Cause) -> str:
    """The first source line that a cause cites, or ``""``."""
    lines = next((e.sources for e in cause.evidence if e.sources), ())
    return lines[0] if lines else ""


def _growing(nodes: Sequence[GraphNode]) -> dict[str, str]:
    """Digest to line of the graphs that grow, one after the other, at one line."""
    chains: dict[tuple[str, int, str], list[GraphNode]] = {}
    for node in nodes:
        explanation = node.explanation
        if node.warm_up or explanation is None or not explanation.causes:
            continue
        cause = explanation.causes[0]
        if cause.kind in GROWING_KINDS:
            chains.setdefault((node.call_site, node.rank, main_line(cause)), []).append(node)
    found: dict[str, str] = {}
    for (_, _, line), chain in chains.items():
        sizes = [node.instructions for node in chain]
        grows = all(x < y for x, y in pairwise(sizes))
        if len(chain) >= GROWTHS and grows:
            found.update({node.digest: line for node in chain})
    return found


def _reason(node: GraphNode, first_step: int) -> tuple[str, str]:
    explanation = node.explanation
    if explanation is None:
        if node.warm_up:
            is_read = node.sync_kind == "value"  # other graphs may follow from the first step
            is_later = node.step > first_step + (0 if is_read else 1)
            return ("first-graph", node.call_site if is_later else "")
        return ("early-execution" if node.sync_kind == "value" else "unlike-graph", node.call_site)
    if not explanation.causes:
        if node.warm_up and not explanation.diff.same:
            return ("first-graph", "")
        return ("same-graph" if explanation.diff.same else "unexplained", "")
    cause = explanation.causes[0]
    if node.warm_up and not cause.expected:
        return ("first-graph", "")
    return (cause.kind, "" if cause.kind in WITHOUT_LINE else main_line(cause))


def _group(kind: str, line: str, members: list[GraphNode]) -> CauseGroup:
    main = max(members, key=lambda node: node.compile_seconds)
    explanation = main.explanation
    cause = explanation.causes[0] if explanation and explanation.causes else None
    if kind == "first-graph":
        cause = None
        title = "first graphs: setting up, and the first step of the program"
        if line:
            title = (
                f"first {'graph' if len(members) == 1 else 'graphs'} of another part of the "
                f"program{at((line,))}: nothing had run there before"
            )
    elif kind == "growing-graph" and cause:
        cause = _growth(cause, members)
        title = cause.title
    elif cause:
        title = cause.title
    elif explanation:
        title = explanation.verdict.rstrip(".")
    else:
        place = at((main.call_site,) if main.call_site else ())
        title = (
            f"a value was read{place}: a graph of its own runs there, unlike those before"
            if kind == "early-execution"
            else f"where others had run{place}, a graph ran that is like none captured before it"
        )
    return CauseGroup(
        kind=kind,
        title=title,
        cause=cause,
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        seconds=sum(node.compile_seconds for node in members),
        expected=all(node.warm_up for node in members),
        proved=bool(cause) and all(node.explanation.proved for node in members if node.explanation),
    )


def _growth(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single step, told as what it is over the run."""
    sizes = [node.instructions for node in members]
    more = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    line = main_line(cause)
    return replace(
        cause,
        kind="growing-graph",
        title=f"the graph grows with every step{at((line,))}: {count(len(members), 'graph')}, each "
        f"about {count(round(more), 'instruction')} larger than the one before",
        fix=GROWTH_FIX,
    )
