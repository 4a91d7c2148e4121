"""Compiles with one reason, over all graphs of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Kind
from xlagraph.cause.model import Cause, Seen
from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import GraphName, count, join, say, without_stop
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.shapes.growing_input import GROWING_INPUT
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.alike import follows_size, further_lines, moving_alike, worded_alike
from xlagraph.runs.causes.carried import AsCarried
from xlagraph.runs.causes.conditions import AsRead
from xlagraph.runs.causes.drawn import AsDrawn
from xlagraph.runs.causes.growth import BAKED, AsLoop, main_line
from xlagraph.runs.causes.lists import AsList
from xlagraph.runs.causes.pending import AsPending
from xlagraph.runs.causes.shuffled import ORDERED, AsShuffled, shuffled_beside
from xlagraph.runs.causes.spans import with_spans
from xlagraph.runs.causes.uneven_turns import AsRecursion, AsUneven
from xlagraph.runs.causes.unrolled import AsUnrolled
from xlagraph.runs.kinds import BY_DESIGN, FIRST_GRAPH, UNEXPLAINED
from xlagraph.runs.model import CauseGroup, GraphNode, Meant, ranked
from xlagraph.runs.reasons import OF_SIZES, SIZES, Reason, main_cause, reasons_of
from xlagraph.runs.second import (
    FREQUENT,
    comes_along,
    follows_another,
    goes_with_size,
    is_made_as_large,
    key_of,
    second_causes,
)
from xlagraph.runs.steps.spent import together

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from xlagraph.message import Message, Part, SourceLine
    from xlagraph.run.reader import Run
    from xlagraph.runs.causes.lists import LongerList
    from xlagraph.runs.causes.pending import PendingWork
    from xlagraph.runs.causes.unrolled import UnrolledLoop
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.steps.turns import Turns

NEARLY_ALL = 0.75
"""Of so many of its graphs the explanations are proved where a reason is called proved."""
ACCOUNTING = (AsDrawn, AsLoop, AsRead, AsRecursion, AsShuffled, AsUneven, AsUnrolled)
"""What says of a cause beside it that it comes of the same."""
OF_NUMBERS = frozenset({*BAKED, CONSTANT_VALUE, INPUT_SHAPE})
"""What is one number or size, beside which an order may change as well."""
LATE_FIRST = say(
    "first graphs since the capture began: the process had compiled before, so they may be "
    "warm-up, or a problem that began earlier"
)


def group_nodes(
    nodes: Sequence[GraphNode],
    turns: Turns,
    lists: Sequence[LongerList] = (),
    pending: Sequence[PendingWork] = (),
    unrolled: Sequence[UnrolledLoop] = (),
    program: ProgramText | None = None,
    *,
    began_late: bool,
) -> tuple[CauseGroup, ...]:
    """One group for each reason: kind and source line of a module's main cause.

    `turns`: what ran at each place of the program.
    `lists`, `pending`: what grows there, if it is not seen from its single graphs.
    `unrolled`: the loops whose turns stand in one graph.
    `program`: what is known of its text.
    `began_late`: the process had compiled before the capture began.
    """
    program = program or ProgramText()
    reasons = reasons_of(nodes, turns, lists, pending, unrolled, program)
    groups = groups_by(reasons, nodes, began_late=began_late)
    return tuple(_with_order(group, nodes, program) for group in groups)


def _with_order(group: CauseGroup, nodes: Sequence[GraphNode], program: ProgramText) -> CauseGroup:
    """The group of a number or a size, with an order that Python changes in its graphs as well."""
    if group.kind not in OF_NUMBERS or group.expected:
        return group
    members = [node for node in nodes if node.digest in group.graphs]
    beside = [(n, c) for n in members if n.explanation for c in n.explanation.causes[1:]]
    second = shuffled_beside(beside, members, program)
    if not second:
        return group
    left = tuple(one for one in group.frequent if one.kind not in ORDERED)
    return replace(group, second=(*group.second, *second), frequent=left)


def groups_by(
    reasons: Mapping[str, Reason], nodes: Sequence[GraphNode], *, began_late: bool
) -> tuple[CauseGroup, ...]:
    """One group for each of these reasons; `reasons` by digest."""
    grouped: dict[tuple[Reason, bool], list[GraphNode]] = {}
    for node in nodes:
        grouped.setdefault((reasons[node.digest], _is_expected(node)), []).append(node)
    groups = [_group(reason, members) for (reason, _), members in grouped.items()]
    loops = [
        group.place
        for (reason, _), group in zip(grouped, groups, strict=True)
        if isinstance(reason.retell, AsLoop)
    ]
    kinds = {group.kind for group in groups if not group.expected}
    groups = [_without_effects(group, kinds, loops) for group in groups]
    groups = [_without_sizes(group, groups) for group in groups]
    groups = with_spans(groups, nodes)
    if began_late:
        groups = [replace(g, title=LATE_FIRST) if g.kind is FIRST_GRAPH else g for g in groups]
    return ranked(groups)


def _without_effects(
    group: CauseGroup, kinds: Collection[Kind], loops: Sequence[Place]
) -> CauseGroup:
    """The group, of what is often beside it only that which follows nothing that is told.

    What numbers set right behind a size follows from that, as what is made as large as it.
    """
    is_of_size = group.kind in SIZES
    told = frozenset({group.kind, *(one.kind for one in group.second)})
    left = tuple(
        one
        for one in group.frequent
        if not (follows_another(one, kinds, loops) or comes_along(one, told, group.place))
        and not (is_of_size and is_made_as_large(one, group.place))
    )
    return group if left == group.frequent else replace(group, frequent=left)


def _without_sizes(group: CauseGroup, groups: Sequence[CauseGroup]) -> CauseGroup:
    """The group of an input's size, without what is made in other sizes where another one tells.

    What a mask keeps of it has another size there, and so has all that is made for that. What
    stands at the line that takes the input in is as large as the layers there make it.
    """
    if group.kind is not INPUT_SHAPE:
        return group
    others = {other.place.line for other in groups if other is not group and other.kind in SIZES}
    made = [one for one in group.frequent if one.kind is PYTHON_SIZE]
    if not any(one.place.line in others for one in made):
        cited = group.cause.evidence if group.cause else ()
        taken = {line[:2] for evidence in cited for line in evidence.sources}
        made = [one for one in made if one.place.line and one.place.line[:2] in taken]
    return replace(group, frequent=tuple(one for one in group.frequent if one not in made))


def _is_expected(node: GraphNode) -> bool:
    """Whether it is warm-up by its cause: what comes later for the same reason is none."""
    causes = node.explanation.causes if node.explanation else ()
    return node.warm_up and bool(causes) and main_cause(node).expected


def with_source(groups: Sequence[CauseGroup], run: Run) -> tuple[CauseGroup, ...]:
    """The groups, each place with the lines around it that the run has stored."""
    found = []
    for group in groups:
        place, cause = _sourced(group.place, run), group.cause
        cause = replace(cause, place=place) if cause else None
        second = [replace(one, place=_sourced(one.place, run)) for one in group.second]
        rest = (one for one in group.further if one not in group.second)
        further = (*second, *rest)
        found.append(
            replace(group, place=place, cause=cause, second=tuple(second), further=further)
        )
    return tuple(found)


def _sourced(place: Place, run: Run) -> Place:
    line, made = place.line, place.made
    above = made.lines[0] if made else 0
    source = run.source(line.file, line.line, above) if line else None
    return replace(place, source=source or ())


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


def _group(reason: Reason, members: list[GraphNode]) -> CauseGroup:
    kind, line, retell, how = reason
    main = _representative(kind, line, members)
    is_over_run = isinstance(retell, (AsCarried, AsList, AsPending))
    explanation = main.explanation
    causes = explanation.causes if explanation else ()
    cause = main_cause(main, kind, line) if causes else None
    if (
        kind in (FIRST_GRAPH, BY_DESIGN)
        or how
        or (kind is EARLY_EXECUTION and cause and cause.kind is not kind)
    ):
        cause = None
    elif cause and retell:
        cause = retell(cause, members)
    elif isinstance(retell, AsDrawn):
        cause = retell.alone(members)
    if cause and cause.seen:
        cause = replace(cause, seen=_seen(cause, cause.seen, members))
    # of sizes that are meant what else differs comes of the step that each is compared with
    is_told = cause and main.meant not in OF_SIZES
    found = _further(kind, line, members) if is_told else []
    if isinstance(retell, ACCOUNTING):
        found = [(one, times) for one, times in found if not retell.accounts_for(one)]
    twins = worded_alike(cause, members) if cause and is_told and not retell else ()
    found = [(one, k) for one, k in found if key_of(one) not in set(map(key_of, twins))]
    own = key_of(main_cause(main, kind, line)) if found else (kind, line)
    found = [(one, k) for one, k in found if not follows_size(own, one, members)]
    second = second_causes(own, (one for one, _ in found), members)
    found = [
        (one, k)
        for one, k in found
        if not (_is_their_order(one, second) or goes_with_size(one, second))
    ]
    asked = [n.explanation for n in members if n.explanation and not _is_cut(kind, n)]
    whole = [outcome for outcome in asked if outcome.proved]
    is_own = explanation is None or explanation.proved or _is_cut(kind, main)
    further = [(one, k) for one, k in found if one not in second and not is_over_run]
    alike = moving_alike(own, cause.kind if cause else kind, (one for one, _ in further), members)
    further = [(one, k) for one, k in further if one not in alike]
    return CauseGroup(
        kind=cause.kind if cause else kind,
        title=cause.title if cause else _title(kind, line, main, members),
        cause=cause,
        further=(*second, *(one for one, _ in further)),
        frequent=tuple(one for one, k in further if k >= FREQUENT * len(members)),
        second=second,
        alike=further_lines(line, (*alike, *twins)),
        own_numbers=any(main_line(one) != line for one in twins),
        follows=tuple(_follows(kind, members)) if cause else (),
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        spent=together([node.spent for node in members]),
        expected=all(node.warm_up for node in members),
        meant=_meant(members),
        steps=tuple(sorted({node.step for node in members})),
        compared=_compared(explanation, whole, len(asked)),
        place=cause.place if cause else _place(reason, main),
        shown=main.digest if cause else "",
        proved=bool(cause) and is_own and len(whole) >= NEARLY_ALL * len(asked),
    )


def _is_their_order(cause: Cause, others: Sequence[Cause]) -> bool:
    """Whether it is the order of outputs at a line of one of some causes.

    What differs in size there pairs with another output.
    """
    return cause.kind is OUTPUT_ORDER and main_line(cause) in map(main_line, others)


def _compared(explanation: Outcome | None, whole: Sequence[Outcome], asked: int) -> Message:
    """What a proof is about: the outputs compared, and of most of the graphs how many."""
    compared = explanation.compared if explanation else say()
    few = f"{len(whole)} of {count(asked, 'graph')}" if len(whole) < asked else ""
    return say(compared, ", in " if compared and few else "", few)


def _place(reason: Reason, main: GraphNode) -> Place:
    """Where what no cause explains begins, as far as it is known; else where the step ends."""
    is_left = reason.kind is UNEXPLAINED and not reason.how and main.explanation
    return (
        main.explanation.left
        if main.explanation and is_left and reason.line
        else Place(main.call_site)
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


def _representative(kind: Kind, line: SourceLine | None, members: Sequence[GraphNode]) -> GraphNode:
    """The first whose explanation is proved: what compiled longest changes from run to run.

    Its main cause is of the group's kind, and at the group's line, if there is one that is.
    """
    explained = [node for node in members if node.explanation and node.explanation.causes]
    causes = {node: main_cause(node, kind, line) for node in explained}
    own = [node for node, cause in causes.items() if cause.kind is kind]
    there = [node for node, cause in causes.items() if line and main_line(cause) == line]
    both = [node for node in own if node in there]
    candidates = both or own or there or explained or members
    proved = (node for node in candidates if node.explanation and node.explanation.proved)
    return next(proved, candidates[0])


def _further(
    kind: Kind, line: SourceLine | None, members: Sequence[GraphNode]
) -> list[tuple[Cause, int]]:
    """The causes behind the first one of each graph, and of how many; those of most graphs first.

    The order of the outputs comes last: it most often goes back to another of them.
    Who mends the first alone still recompiles. What comes of it anyway is none; nor is what the
    first graphs of a growing input differ in.
    """
    graphs: defaultdict[tuple[Kind, SourceLine | None], set[str]] = defaultdict(set)
    alike: defaultdict[tuple[Kind, SourceLine | None], list[Cause]] = defaultdict(list)
    for node in members:
        if not node.explanation or not node.explanation.causes or _is_beside(kind, node):
            continue
        if kind is GROWING_INPUT and node.explanation.causes[0].kind is not kind:
            continue
        own = key_of(main_cause(node, kind, line))
        for cause in node.explanation.causes:
            key = key_of(cause)
            if key == own or cause.expected or cause.kind.id in kind.entails or _is_empty(cause):
                continue
            graphs[key].add(node.digest)
            alike[key].append(cause)
    ordered = sorted(graphs, key=lambda key: (key[0] is OUTPUT_ORDER, -len(graphs[key])))
    return [(_typical(alike[key]), len(graphs[key])) for key in ordered]


def _typical(causes: Sequence[Cause]) -> Cause:
    """The last of those that are told in the words of most of them."""
    number = Counter(str(cause.in_short) for cause in causes)
    return max(reversed(causes), key=lambda cause: number[str(cause.in_short)])


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
    cut = [node for node in members if _is_cut(kind, node)]
    if cut:
        yield say(
            "graphs " if len(cut) > 1 else "graph ",
            join((say(GraphName(node.letter)) for node in cut), 8),
            " ran as the number was read there: parts of steps that it cuts",
        )
    beside = [node for node in members if _is_beside(kind, node)]
    if beside:
        yield say(
            "graphs " if len(beside) > 1 else "graph ",
            join((say(GraphName(node.letter)) for node in beside), 8),
            " compiled only in steps in which this size was a new one: parts of the same steps",
        )


def _is_cut(kind: Kind, node: GraphNode) -> bool:
    """Whether a graph is counted with a number of its line only because that is read there."""
    causes = node.explanation.causes if node.explanation else ()
    is_read = node.begins_reading or (bool(causes) and causes[0].kind is EARLY_EXECUTION)
    return kind in BAKED and is_read


def _is_beside(kind: Kind, node: GraphNode) -> bool:
    """Whether a graph is counted with a size only because it compiles where that one changes."""
    causes = node.explanation.causes if node.explanation else ()
    own = (*SIZES, *BAKED) if kind in BAKED else SIZES
    return kind in SIZES and not any(cause.kind in own for cause in causes)


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
            spread = max(node.step for node in members) - min(node.step for node in members)
            what = (
                "the first step of the program" if spread <= 1 else "the first steps of each kind"
            )
            return say(f"first graphs: setting up, and {what}")
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
