"""Compiles with one reason, over all graphs of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.kinds import Kind
from xlagraph.cause.model import Cause, Seen
from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.message import GraphName, count, join, say, without_stop
from xlagraph.rules.early_execution import EARLY_EXECUTION
from xlagraph.rules.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.growing_input import GROWING_INPUT
from xlagraph.rules.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.few_sizes import as_few_sizes, as_stages
from xlagraph.runs.growth import (
    as_growth,
    as_loop,
    growing,
    growing_inputs,
    main_line,
    uneven_loops,
)
from xlagraph.runs.kinds import (
    BY_DESIGN,
    FIRST_GRAPH,
    GROWING_GRAPH,
    SAME_GRAPH,
    UNEXPLAINED,
    UNLIKE_GRAPH,
)
from xlagraph.runs.lists import AsList
from xlagraph.runs.meant import Meant
from xlagraph.runs.model import CauseGroup, GraphNode, by_cost
from xlagraph.runs.pending import AsPending
from xlagraph.runs.spent import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xlagraph.message import Message, Part, SourceLine
    from xlagraph.run.reader import Run
    from xlagraph.runs.lists import LongerList
    from xlagraph.runs.pending import PendingWork
    from xlagraph.runs.turns import Turns

    Retell = Callable[[Cause, Sequence[GraphNode]], Cause]

OF_SIZES: dict[Meant, Retell] = {Meant.SIZES: as_few_sizes, Meant.STAGES: as_stages}
"""How a size is said that is meant."""
LATE_FIRST = say(
    "first graphs since the capture began: the process had compiled before, so they may be "
    "warm-up, or a problem that began earlier"
)


class Reason(NamedTuple):
    """What graphs of one group have in common."""

    kind: Kind
    line: SourceLine | None = None
    retell: Retell | None = None
    """How a single step's cause is said for the run."""
    how: str = ""
    """Tells groups of one kind apart that have no cause: ``small``, ``settled``."""


def group_nodes(
    nodes: Sequence[GraphNode],
    turns: Turns,
    lists: Sequence[LongerList] = (),
    pending: Sequence[PendingWork] = (),
    *,
    began_late: bool,
) -> tuple[CauseGroup, ...]:
    """One group for each reason: kind and source line of a module's main cause.

    `turns`: what ran at each place of the program.
    `lists`, `pending`: what grows there, if it is not seen from its single graphs.
    `began_late`: the process had compiled before the capture began.
    """
    over_run: dict[str, Reason] = {}
    for digest, line in uneven_loops(nodes).items():
        over_run[digest] = Reason(EXTRA_SUBGRAPH, line, as_loop)
    for digest, line in growing_inputs(nodes, turns).items():
        over_run[digest] = Reason(GROWING_INPUT, line)
    for line, grown in growing(nodes, turns).items():
        over_run |= _grown(line, grown)
    over_run |= _entailed(nodes)
    over_run |= _of_sizes(nodes)
    over_run |= _rests(nodes)
    over_run |= _beside_sizes(nodes, over_run)
    for longer in lists:
        over_run |= _listed(longer, nodes, over_run)
    for work in pending:
        over_run |= dict.fromkeys(work.graphs, Reason(GROWING_GRAPH, work.line, AsPending(work)))
    grouped: dict[Reason, list[GraphNode]] = {}
    for node in nodes:
        grouped.setdefault(over_run.get(node.digest) or _reason(node), []).append(node)
    groups = [_group(reason, members) for reason, members in grouped.items()]
    if began_late:
        groups = [replace(g, title=LATE_FIRST) if g.kind is FIRST_GRAPH else g for g in groups]
    return tuple(sorted(groups, key=by_cost))


def _grown(line: SourceLine | None, grown: Sequence[GraphNode]) -> dict[str, Reason]:
    """Digest to reason of those of these growing graphs whose main cause it is."""

    def retell(cause: Cause, _: Sequence[GraphNode]) -> Cause:
        return as_growth(cause, grown)

    causes = {n.digest: n.explanation.causes[0] for n in grown if n.explanation}
    return {
        digest: Reason(GROWING_GRAPH, line, retell)
        for digest, cause in causes.items()
        if main_line(cause) == line and (cause.kind.may_grow or cause.kind.is_piece)
    }


def _listed(
    longer: LongerList, nodes: Sequence[GraphNode], known: Mapping[str, Reason]
) -> dict[str, Reason]:
    """Digest to reason of the graphs of a list that grows.

    None where more is known of steps that have one graph each.
    """
    members = [node for node in nodes if node.digest in longer.graphs and not node.warm_up]
    if not longer.is_cut and any(node.digest in known for node in members):
        return {}
    causes = (n.explanation.causes[0] for n in members if n.explanation and n.explanation.causes)
    lines = Counter(line for line in map(main_line, causes) if line and not line.is_library)
    common = lines.most_common(1)
    reason = Reason(GROWING_GRAPH, common[0][0] if common else None, AsList(longer))
    return {node.digest: reason for node in members}


def with_source(groups: Sequence[CauseGroup], run: Run) -> tuple[CauseGroup, ...]:
    """The groups, each place with the lines around it that the run has stored."""
    found = []
    for group in groups:
        line, cause = group.place.line, group.cause
        made = group.place.made
        above = made.lines[0] if made else 0
        source = run.source(line.file, line.line, above) if line else None
        place = replace(group.place, source=source or ())
        cause = replace(cause, place=place) if cause else None
        found.append(replace(group, place=place, cause=cause))
    return tuple(found)


def introduced(groups: Sequence[CauseGroup], nodes: Sequence[GraphNode]) -> tuple[CauseGroup, ...]:
    """The groups, with each letter said to be a graph, and of which step, where it stands first."""
    steps = {node.letter: node.step for node in nodes}
    found = []
    for group in groups:
        title = (
            group.title if group.expected and not group.cause else _introduced(group.title, steps)
        )
        cause = replace(group.cause, title=title) if group.cause else None
        found.append(replace(group, title=title, cause=cause))
    return tuple(found)


def _introduced(title: Message, steps: Mapping[str, int]) -> Message:
    parts: list[Message | Part] = []
    known: set[str] = set()
    for part, after in zip_longest(title.parts, title.parts[1:], fillvalue=""):
        is_new = isinstance(part, GraphName) and part.letter in steps and part.letter not in known
        if is_new and isinstance(part, GraphName):
            known.add(part.letter)
            is_owner = isinstance(after, str) and after.startswith("'s")
            step = "" if is_owner else f" (step {steps[part.letter]})"
            parts.append(say("graph ", part, step))
        else:
            parts.append(part)
    return say(*parts)


def _entailed(nodes: Sequence[GraphNode]) -> dict[str, Reason]:
    """Digest to reason of graphs that come of buckets which other graphs carry over the step.

    Tensors waited in buckets as they were synced too: what waits is updated in a later step, and
    only then gets its optimizer state.
    """
    first = {
        node.digest: node.explanation.causes[0].kind
        for node in nodes
        if not node.warm_up and node.explanation and node.explanation.causes
    }
    return {
        node.digest: Reason(kind)
        for kind in set(first.values())
        for node in nodes
        if node.waits and node.digest in first and first[node.digest].id in kind.entails
    }


def _of_sizes(nodes: Sequence[GraphNode]) -> dict[str, Reason]:
    """Graphs in which a piece comes or goes with the size of an input that others have too.

    A slice of the whole is no slice, and what is never filled up is not padded.
    """
    causes = {
        node: node.explanation.causes for node in nodes if node.explanation and not node.warm_up
    }
    lines = {
        main_line(found[0]) for found in causes.values() if found and found[0].kind is INPUT_SHAPE
    }
    return {
        node.digest: Reason(INPUT_SHAPE, main_line(cause))
        for node, found in causes.items()
        for cause in found[1:]
        if found[0].kind.is_piece and cause.kind is INPUT_SHAPE and main_line(cause) in lines
    }


def _beside_sizes(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Graphs of a step that are like another one of it, at a line where those change their size.

    Of two lists that grow together one graph is compared with the list before, and the other one
    with the first: what they differ in is no reason to compile again.
    """
    by_digest = {node.digest: node for node in nodes}
    lines = {
        reason.line
        for node in nodes
        if not node.warm_up
        and (reason := known.get(node.digest) or _reason(node)).kind is PYTHON_SIZE
    }
    found = {}
    for node in nodes:
        beside, looped = by_digest.get(node.nearest), known.get(node.digest)
        if not beside or not looped or looped.kind is not EXTRA_SUBGRAPH:
            continue
        is_beside = (beside.step, beside.call_site) == (node.step, node.call_site)
        if is_beside and looped.line in lines:
            found[node.digest] = Reason(PYTHON_SIZE, looped.line)
    return found


def _rests(nodes: Sequence[GraphNode]) -> dict[str, Reason]:
    """What was left of a step whose values were read before it ended, with the last read."""
    reads: dict[tuple[int, int], Reason] = {}
    for node in nodes:
        if node.sync_kind == "value" and not node.warm_up:
            reason = _reason(node)
            if reason.kind is EARLY_EXECUTION:
                reads[node.rank, node.step] = reason
    sizes = {node.digest: node.instructions for node in nodes}
    return {
        node.digest: reads[node.rank, node.step]
        for node in nodes
        if node.sync_kind == "step"
        and not node.warm_up
        and (node.rank, node.step) in reads
        and node.instructions < sizes.get(node.nearest, 0)
    }


def _reason(node: GraphNode) -> Reason:
    explanation = node.explanation
    if node.by_design:
        return Reason(BY_DESIGN)
    if node.is_small:
        return Reason(FIRST_GRAPH, how="small")
    if node.meant is Meant.SETTLED:
        return Reason(UNEXPLAINED, how=Meant.SETTLED)
    if explanation is None:
        return _reason_of_first(node)
    if not explanation.causes:
        if node.warm_up and not explanation.same:
            return Reason(FIRST_GRAPH)
        return Reason(SAME_GRAPH if explanation.same else UNEXPLAINED)
    cause = _main_cause(node)
    if node.warm_up and not node.meant and not cause.expected:
        return Reason(FIRST_GRAPH)
    if node.begins_reading and cause.kind is not EARLY_EXECUTION:
        return Reason(EARLY_EXECUTION, node.call_site, _as_reads)
    line = None if cause.kind.anywhere else main_line(cause)
    if node.meant in OF_SIZES:
        return Reason(cause.kind, line or node.call_site, OF_SIZES[node.meant])
    return Reason(cause.kind, line, _as_reads if cause.kind is EARLY_EXECUTION else None)


def _reason_of_first(node: GraphNode) -> Reason:
    """Why a graph compiled that was compared with none."""
    if node.warm_up:
        return Reason(FIRST_GRAPH, node.call_site if node.another_part else None)
    if node.sync_kind == "value":
        return Reason(EARLY_EXECUTION, node.call_site, _as_reads)
    return Reason(UNLIKE_GRAPH, node.call_site)


def _group(reason: Reason, members: list[GraphNode]) -> CauseGroup:
    kind, line, retell, how = reason
    main = _representative(kind, members, line if isinstance(retell, AsList) else None)
    is_over_run = isinstance(retell, (AsList, AsPending))
    explanation = main.explanation
    causes = explanation.causes if explanation else ()
    cause = _main_cause(main, kind) if causes else None
    if (
        kind in (FIRST_GRAPH, BY_DESIGN)
        or how
        or (kind is EARLY_EXECUTION and cause and cause.kind is not kind)
    ):
        cause = None
    elif cause and retell:
        cause = retell(cause, members)
    if cause and cause.seen:
        cause = replace(cause, seen=_seen(cause, cause.seen, members))
    return CauseGroup(
        kind=cause.kind if cause else kind,
        title=cause.title if cause else _title(kind, line, main, members),
        cause=cause,
        further=_further(kind, members) if cause and not is_over_run else (),
        follows=tuple(_follows(kind, members)) if cause else (),
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        spent=together([node.spent for node in members]),
        expected=all(node.warm_up for node in members),
        meant=_meant(members),
        steps=tuple(sorted({node.step for node in members})),
        compared=explanation.compared if explanation else say(),
        place=cause.place if cause else Place(main.call_site),
        shown=main.digest if cause else "",
        proved=bool(cause) and all(node.explanation.proved for node in members if node.explanation),
    )


def _seen(cause: Cause, seen: Seen, members: Sequence[GraphNode]) -> Seen:
    """What is known over all graphs of the number that this cause wants one of."""
    outcomes = (node.explanation for node in members if node.explanation)
    alike = (
        one.seen
        for outcome in outcomes
        for one in outcome.causes
        if one.seen and main_line(one) == main_line(cause)
    )
    return reduce(Seen.joined, alike, seen)


def _meant(members: Sequence[GraphNode]) -> Meant:
    """How the change comes that all of them have, if it is made on purpose."""
    is_no_problem = all(node.warm_up for node in members)
    found = (node.meant for node in members if node.meant and is_no_problem)
    return next(found, Meant.NOT)


def _main_cause(node: GraphNode, kind: Kind | None = None) -> Cause:
    """The first; of a change that is made on purpose the first that can be.

    `kind`: that of its group, if it is known.
    """
    causes = node.explanation.causes if node.explanation else ()
    if node.meant in OF_SIZES:
        kind = INPUT_SHAPE
    elif node.meant and node.meant is not Meant.SETTLED:
        return next(one for one in causes if one.kind.may_be_meant and not one.expected)
    return next((one for one in causes if one.kind is kind), causes[0])


def _representative(
    kind: Kind, members: Sequence[GraphNode], line: SourceLine | None = None
) -> GraphNode:
    """The first whose explanation is proved: what compiled longest changes from run to run.

    `line`: that of its main cause, if there is one that has it.
    """
    explained = [node for node in members if node.explanation and node.explanation.causes]
    own = [node for node in explained if _main_cause(node, kind).kind is kind]
    there = [node for node in explained if line and main_line(_main_cause(node, kind)) == line]
    candidates = own or there or explained or members
    proved = (node for node in candidates if node.explanation and node.explanation.proved)
    return next(proved, candidates[0])


def _further(kind: Kind, members: Sequence[GraphNode]) -> tuple[Cause, ...]:
    """The causes behind the first one of each graph: who mends that alone still recompiles.

    What comes of it anyway is none; nor is what the first graphs of a growing input differ in.
    """
    found = {
        (cause.kind, main_line(cause)): cause
        for node in members
        if node.explanation
        and (kind is not GROWING_INPUT or node.explanation.causes[0].kind is kind)
        for cause in node.explanation.causes
        if cause is not _main_cause(node, kind)
        and not (cause.expected or cause.kind.id in kind.entails or _is_empty(cause))
    }
    return tuple(found.values())


def _follows(kind: Kind, members: Sequence[GraphNode]) -> Iterator[Message]:
    """What is said of the graphs whose own first cause is another one, which comes of this."""
    for node in members:
        first = node.explanation.causes[0] if node.explanation and node.explanation.causes else None
        if first and first.kind is not kind and first.kind.id in kind.entails:
            yield say(
                "graph ",
                GraphName(node.letter),
                f" (step {node.step}): ",
                first.in_short.clause,
                f" ({first.kind}); counted here, for what waited in a bucket comes a step later",
            )


def _is_empty(cause: Cause) -> bool:
    """Whether a piece accounts for no instruction that differs: values that take another way."""
    return cause.kind.is_piece and not (cause.a or cause.b)


def _title(
    kind: Kind, line: SourceLine | None, main: GraphNode, members: Sequence[GraphNode]
) -> Message:
    """What is said of graphs that no cause explains."""
    if kind is BY_DESIGN:
        parts = join((say(GraphName(one.letter), " (", one.part, ")") for one in members), 8)
        if len(members) == 1:
            return say("a kind of step with a graph of its own, by design: ", parts)
        return say("kinds of step with graphs of their own, by design: ", parts)
    if main.is_small:
        most = max(node.instructions for node in members)
        return say(
            f"small graphs beside the steps, of at most {count(most, 'instruction')}: none was new "
            "in the second half of the run"
        )
    if main.meant is Meant.SETTLED:
        whose = "their places" if len(members) > 1 else "its place"
        return say(
            f"{count(len(members), 'graph') if len(members) > 1 else 'a graph'} with which a part "
            f"of the program settled; what makes {'them' if len(members) > 1 else 'it'} differ "
            f"from those before is not proved, and none was new at {whose} since"
        )
    if kind is FIRST_GRAPH:
        if not line:
            return say("first graphs: setting up, and the first step of the program")
        return say(
            f"first {'graph' if len(members) == 1 else 'graphs'} of another part of the program",
            at((line,)),
            ": nothing had run there before",
        )
    place = at((main.call_site,) if main.call_site else ())
    if kind is EARLY_EXECUTION:
        number = count(len(members), "graph")
        return say(
            "values were read" if len(members) > 1 else "a value was read",
            place,
            f", where none had been before: {number} of the parts of the step traced so far",
        )
    if main.explanation:
        return without_stop(main.explanation.verdict.what)
    return say("where others had run", place, ", a graph ran that is like none captured before it")


def _as_reads(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """Several values that were read early at one line, said together."""
    if len(members) == 1 or any(node.sync_kind != "value" for node in members):
        return cause
    return replace(
        cause,
        title=say(
            "values were read early",
            at(cause.lines),
            f": each of {count(len(members), 'graph')} is the part of a step that one of them "
            "needs",
        ),
    )
