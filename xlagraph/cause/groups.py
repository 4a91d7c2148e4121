"""Compiles with one reason, over all graphs of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import count
from xlagraph.cause.growth import (
    growing,
    lines_of,
    main_line,
    told_as_growth,
    told_as_loop,
    uneven_loops,
)
from xlagraph.cause.places import at
from xlagraph.cause.run_model import CauseGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.cause.run_model import GraphNode
    from xlagraph.cause.turns import Turns

FIRST, GROWTH, LOOP = "first-graph", "growing-graph", "loop"
WITHOUT_LINE = frozenset({"bucket-carry", "bucket-composition"})
"""Kinds that are one reason wherever they show: their lines are those of a library's hooks."""
LATE_FIRST = (
    "first graphs since the capture began: the process had compiled before, so they may be "
    "warm-up, or a problem that began earlier"
)


def group_nodes(
    nodes: Sequence[GraphNode], turns: Turns, *, began_late: bool
) -> tuple[CauseGroup, ...]:
    """One group for each reason: kind and source line of a module's main cause.

    `turns`: what ran at each place of the program.
    `began_late`: the process had compiled before the capture began.
    """
    told = {digest: (LOOP, line) for digest, line in uneven_loops(nodes).items()}
    told |= {digest: (GROWTH, line) for digest, line in growing(nodes, turns).items()}
    grouped: dict[tuple[str, str], list[GraphNode]] = {}
    for node in nodes:
        grouped.setdefault(told.get(node.digest) or _reason(node), []).append(node)
    groups = [_group(kind, line, members) for (kind, line), members in grouped.items()]
    if began_late:
        groups = [replace(g, title=LATE_FIRST) if g.kind == FIRST else g for g in groups]
    return tuple(sorted(groups, key=lambda g: (g.expected, -g.seconds, g.title)))


def _reason(node: GraphNode) -> tuple[str, str]:
    explanation = node.explanation
    if explanation is None:
        if node.warm_up:
            return (FIRST, node.call_site if node.another_part else "")
        return ("early-execution" if node.sync_kind == "value" else "unlike-graph", node.call_site)
    if not explanation.causes:
        if node.warm_up and not explanation.diff.same:
            return (FIRST, "")
        return ("same-graph" if explanation.diff.same else "unexplained", "")
    cause = explanation.causes[0]
    if node.warm_up and not cause.expected:
        return (FIRST, "")
    return (cause.kind, "" if cause.kind in WITHOUT_LINE else main_line(cause))


def _group(reason: str, line: str, members: list[GraphNode]) -> CauseGroup:
    proved = (node for node in members if node.explanation and node.explanation.proved)
    main = next(proved, members[0])  # the first: what compiled longest changes from run to run
    explanation = main.explanation
    cause = explanation.causes[0] if explanation and explanation.causes else None
    if reason == FIRST:
        cause = None
    elif cause and reason in RETOLD:
        cause = RETOLD[reason](cause, members)
    return CauseGroup(
        kind=cause.kind if cause else reason,
        title=cause.title if cause else _title(reason, line, main, len(members)),
        cause=cause,
        further=_further(members) if cause else (),
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        seconds=sum(node.compile_seconds for node in members),
        expected=all(node.warm_up for node in members),
        proved=bool(cause) and all(node.explanation.proved for node in members if node.explanation),
    )


def _further(members: Sequence[GraphNode]) -> tuple[Cause, ...]:
    """The causes behind the first one of each graph: who mends that alone still recompiles."""
    found = {
        (cause.kind, main_line(cause)): cause
        for node in members
        if node.explanation
        for cause in node.explanation.causes[1:]
        if not cause.expected
    }
    return tuple(found.values())


def _title(kind: str, line: str, main: GraphNode, number: int) -> str:
    """What is said of graphs that no cause explains."""
    if kind == FIRST:
        if not line:
            return "first graphs: setting up, and the first step of the program"
        graphs = "graph" if number == 1 else "graphs"
        return (
            f"first {graphs} of another part of the program{at((line,))}: nothing had run there "
            "before"
        )
    if main.explanation:
        return main.explanation.verdict.rstrip(".")
    place = at((main.call_site,) if main.call_site else ())
    if kind == "early-execution":
        return f"a value was read{place}: a graph of its own runs there, unlike those before"
    return f"where others had run{place}, a graph ran that is like none captured before it"


def _told_as_reads(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """Several values that were read early at one line, told together."""
    if len(members) == 1 or any(node.sync_kind != "value" for node in members):
        return cause
    return replace(
        cause,
        title=f"values were read early{at(lines_of(cause))}: each of "
        f"{count(len(members), 'graph')} is the part of a step that one of them needs",
    )


RETOLD: Mapping[str, Callable[[Cause, Sequence[GraphNode]], Cause]] = {
    GROWTH: told_as_growth,
    LOOP: told_as_loop,
    "early-execution": _told_as_reads,
}
"""Reasons that are told otherwise over a run than by one of its steps."""
