"""What a run's explanation says first: what was lost and why, where, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.verdict import Verdict
from xlagraph.facts.shapes.filled_spans import is_of_span
from xlagraph.message import Quoted, count, duration, join, say
from xlagraph.rules.inputs.second_input import SECOND_INPUT
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.shapes.growing_input import GROWING_INPUT
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.runs.causes.taken import values_taken
from xlagraph.runs.kinds import FIRST_GRAPH
from xlagraph.runs.model import Meant, failures
from xlagraph.runs.steps.spent import together
from xlagraph.tensors import Role, Tensor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import Message
    from xlagraph.run.reader import Run
    from xlagraph.run.records import SyncRecord
    from xlagraph.runs.causes.taken import Taken
    from xlagraph.runs.model import CauseGroup, GraphNode

NOTES, NOTES_BESIDE = 4, 2
"""So many lines at most tell of what is meant: where nothing is a problem, and beside one."""
OF_VALUES = (INPUT_SHAPE, GROWING_INPUT, PYTHON_INDEX, PYTHON_SIZE, CONSTANT_VALUE)
"""Kinds of which it helps to know which values were taken."""
STAGES = 3
"""A program in which so many phases began is one of stages."""
MAX_BESIDE = 2
"""Further causes of the same graphs that are named."""
ONCE = (Meant.CHOICE, Meant.PHASE, Meant.STAGES)
"""What compiled for good, so that mending it saves nothing any more."""
LEFT = (Meant.EARLY, Meant.SETTLED)
"""What came early and no more, of which nobody knows that it was meant."""
OF_A_CHANGE = {"in some steps only": "from then on, or until then", "in some steps": "from then on"}
"""Words that speak of steps, and those that speak of a change that stays."""
CHOSEN = say("Nothing to do where the sizes are a choice, such as length buckets.")
MANY_SIZES = say("Pad to one size that all fit in, or a few.")
"""What to do where there is no odd batch that may be dropped."""
READ = say(
    "Each of these steps reads a number there, and the lines below make a size of it: one largest "
    "size for all steps, and a mask, need no number read."
)


def stable_after(
    syncs: Sequence[SyncRecord], steps: int, aside: Collection[str] = frozenset()
) -> int | None:
    """The last step that compiled, 0 if none did; None if that is the last step of all.

    `aside`: digests of graphs that do not count. A compile whose graph is not stored counts.
    """
    compiling = (s for s in syncs if s.outcome == "compile")
    counted = (s.step for s in compiling if not s.graphs or any(g not in aside for g in s.graphs))
    compiled = max(counted, default=-1)
    return None if compiled >= steps - 1 else max(compiled, 0)


def run_verdict(
    run: Run,
    groups: Sequence[CauseGroup],
    graphs: Sequence[GraphNode],
    stable: int | None,
    steps: int,
    unseen: int,
    parts: Sequence[Message] = (),
    *,
    began_late: bool,
) -> Verdict:
    """The verdict, and what it could not take into account.

    Args:
        run: the run.
        groups: the reasons, problems first.
        graphs: those of the groups.
        stable: the step after which nothing compiled.
        steps: how many there were.
        unseen: compiles whose module is not stored.
        parts: what the sorts of step are called that have graphs by design.
        began_late: the process had compiled before the capture began.
    """
    unread = sum(process.unread_lines for process in run.processes)
    missing = [f"{count(unseen, 'compile')} without a stored graph"] if unseen else []
    missing += [f"{count(unread, 'record')} that cannot be read"] if unread else []
    problems = [group for group in groups if not group.expected]
    warm_up = [group for group in groups if group.expected]
    notes = [f"Not explained: {' and '.join(missing)}."] if missing else []
    if began_late:
        notes.append(
            "The process had compiled before the capture began, and nothing is known of that"
            + (": the first graphs here may be no warm-up." if warm_up else ".")
        )
    if not problems:
        failed = failures(run)
        if failed:
            what = _failed(warm_up, failed[0], steps)
        elif parts and stable is not None and not began_late:
            what = _by_design(warm_up, parts, stable, steps)
        else:
            what = say(_none(warm_up, stable, steps, began_late=began_late))
        if unseen:
            what = say(notes.pop(0))
        # beside kinds of step that are known nothing is to be told of what is not
        told = [one for one in warm_up if not (parts and one.meant is Meant.SETTLED)]
        return Verdict(what, notes=(*_meant(told, NOTES, graphs), *map(say, notes)))
    first = problems[0]
    taken = values_taken(first, graphs) if first.kind in OF_VALUES else None
    return Verdict(
        what=_what(problems),
        where=_where(first),
        fix=_fix(first, taken),
        notes=(
            *_beside(problems, taken),
            *_others(problems),
            *_seldom(warm_up),
            *_meant(warm_up, NOTES_BESIDE, graphs, with_fix=False),
            *map(say, notes),
        ),
    )


def _where(first: CauseGroup) -> Message:
    """Where the cause is; of a size that comes of a number that is read, where that is first."""
    if not first.read:
        return first.place.in_short
    return say(first.read, ", of whose number the size may come; seen at ", first.place.in_short)


def _fix(first: CauseGroup, taken: Taken | None) -> Message:
    """What to change; where there are many sizes, none of them is an odd one to drop."""
    if first.kind is INPUT_SHAPE and taken and first.cause and not first.cause.short_fix:
        if taken.grows:
            return say("Give it its largest size from the start, and mask the rest.")
        return MANY_SIZES
    return first.fix_in_short


def _beside(problems: Sequence[CauseGroup], taken: Taken | None) -> Iterator[Message]:
    """What else to know of the first cause: what it does beside the time, and what to choose."""
    first = problems[0]
    if first.effect:
        yield first.effect
        own = _own_time(problems)
        yield say(f"{_lost(problems)}{f', {own} by this' if own else ''}.")
    if first.read:
        yield READ
    if first.cause and first.cause.seen:
        yield first.cause.seen.message
    elif taken:
        yield say(taken.message.sentence, ".")


def _spent(groups: Sequence[CauseGroup]) -> str:
    compiles = sum(group.compiles for group in groups)
    return f"{count(compiles, 'compile')}, {together([group.spent for group in groups])}"


def _failed(groups: Sequence[CauseGroup], error: str, steps: int) -> Message:
    return say(
        f"No problem seen in {count(steps, 'step')}: {_spent(groups)} of warm-up; but ",
        Quoted(error),
        " ended the program, so it is not known to be stable.",
    )


def _by_design(
    groups: Sequence[CauseGroup], parts: Sequence[Message], stable: int, steps: int
) -> Message:
    graphs = {digest for group in groups for digest in group.graphs}
    return say(
        f"{count(len(graphs), 'graph')} by design ({'among them: ' if len(parts) == 1 else ''}",
        join(parts, 6),
        f"); stable since step {stable + 1}: {_spent(groups)}, none in the "
        f"{count(steps - 1 - stable, 'step')} since.",
    )


def _none(groups: Sequence[CauseGroup], stable: int | None, steps: int, *, began_late: bool) -> str:
    spent = _spent(groups)
    if stable is None:
        warm_up = "" if began_late else " of warm-up"
        return f"No problem seen: {spent}{warm_up}; the run ended while it compiled."
    if not any(group.compiles for group in groups):
        return "Stable: nothing compiled."
    head = "No problem seen" if began_late else "Stable after warm-up"
    if any(group.meant for group in groups):
        head = "Stable"
    after = count(steps - 1 - stable, "step")
    return f"{head}: {spent}, the last in step {stable}; none in the {after} after it."


def _meant(
    groups: Sequence[CauseGroup],
    most: int,
    graphs: Sequence[GraphNode],
    *,
    with_fix: bool = True,
) -> Iterator[Message]:
    """Changes that are taken to be made on purpose, in so many lines: the dearest, and the rest.

    `with_fix`: with what to do if they are not, which beside a problem would be read as another.
    """
    told = [one for one in groups if one.meant not in (Meant.NOT, Meant.SELDOM)]
    begun = _begun(told)
    asked = [
        one
        for one in told
        if not (_settles(one) or _is_of_a_kind(one) or _goes_on_beginning(one, begun))
        and not (_is_one_size(one, told) or _was_copied(one, graphs))
    ]
    found = [one for one in asked if one.meant not in LEFT]
    if len(begun) >= STAGES:
        stages = [one for one in found if one.meant is Meant.PHASE]
        found = [one for one in found if one.meant is not Meant.PHASE]
        yield from _as_stages(stages)
    named = found if len(found) <= most else found[: most - 1]
    yield from (_note(one, with_fix=with_fix) for one in named)
    rest = found[len(named) :]
    if rest:
        yield say(f"{len(rest)} more such changes stand in the list of causes: {_spent(rest)}.")
    if left := [one for one in asked if one.meant in LEFT]:
        yield _as_settled(left)


def _as_settled(groups: Sequence[CauseGroup]) -> Message:
    """That graphs came early and no more; what each differs in says nothing of what to do."""
    steps = [step for one in groups for step in one.steps]
    many = sum(len(one.graphs) for one in groups) > 1
    which = "graphs that none like them followed" if many else "a graph that none like it followed"
    return say(
        f"Settled since step {max(steps)}: {_spent(groups)}, of {which}; what "
        f"{'they differ' if many else 'it differs'} in stands in the list of causes.",
    )


def _begun(groups: Iterable[CauseGroup]) -> frozenset[int]:
    """The steps in which a phase began, none of which goes on with one that began just before."""
    steps = {step for one in groups if one.meant is Meant.PHASE for step in one.steps}
    return frozenset(step for step in steps if step - 1 not in steps)


def _goes_on_beginning(group: CauseGroup, begun: Collection[int]) -> bool:
    """Whether what changed came but a step after a phase began, as where its state comes in."""
    return group.meant is Meant.PHASE and all(step - 1 in begun for step in group.steps)


def _from_then(group: CauseGroup) -> Message:
    """What a change is of, behind the step that it came in."""
    return group.in_short.clause.respelled({" in some steps only": ""})


def _as_stages(groups: Sequence[CauseGroup]) -> Iterator[Message]:
    """Changes that each came once in a program of several stages."""
    if groups:
        shown = (
            say("from step ", str(one.steps[0]), " on ", _from_then(one), one.place.within)
            for one in sorted(groups, key=lambda one: one.steps)
        )
        yield say("Stages: ", join(shown, 4, "; "), f" ({_spent(groups)}).")


def _settles(group: CauseGroup) -> bool:
    """Whether it came early and is what comes once: there is nothing to say of it."""
    return group.meant is Meant.EARLY and group.cause is not None and group.cause.expected


def _was_copied(group: CauseGroup, graphs: Sequence[GraphNode]) -> bool:
    """Whether tensors shared their buffers until the first update, as copies that begin alike."""
    if group.kind is not SECOND_INPUT:
        return False
    known = {node.digest: node for node in graphs}
    before = [known.get(known[one].nearest) for one in group.graphs if one in known]
    return all(node is not None and not node.hits for node in before)


def _is_one_size(group: CauseGroup, others: Iterable[CauseGroup]) -> bool:
    """Whether a size that came early is one of those that are told to come in turn at its line."""
    at = [one.place.line for one in others if one.meant is Meant.SIZES]
    is_early = group.kind is INPUT_SHAPE and group.meant is Meant.EARLY
    return is_early and group.place.line in at


def _is_of_a_kind(group: CauseGroup) -> bool:
    """Whether a change is no more than that steps of another kind ran: there is nothing to do.

    Their first graphs, weights of their own in place of others, as two heads have them in turn, or
    copies of the same blocks, as an average of weights runs.
    """
    if group.kind is FIRST_GRAPH:
        return True
    if group.kind is INPUT_SHAPE:
        return any(tensor.role is Role.PARAMETER for tensor in group.place.tensors)
    return group.kind is SKIPPED_BLOCK and group.cause is not None and _is_copy(group.cause)


def _is_copy(cause: Cause) -> bool:
    """Whether the blocks that run are those that do not, within one module more."""
    named = [
        {part.path for part in one.text.parts if isinstance(part, Tensor)} for one in cause.evidence
    ]
    blocks = [paths for paths in named if paths][:2]
    short, *longer = sorted(blocks, key=lambda paths: sum(map(len, paths))) or [set()]
    return [{path.partition(".")[2] for path in paths} for paths in longer] == [short]


def _note(group: CauseGroup, *, with_fix: bool) -> Message:
    """When a change came, what it cost, and what else to do."""
    begin = say(f"step{'s' if len(group.steps) > 1 else ''} ", join(map(str, group.steps), 4))
    if group.meant in (Meant.PHASE, Meant.STAGES):
        when = say("Changed in ", begin, " and stayed so")
    elif group.meant is Meant.SIZES:
        when = say("In turn since ", begin)
    elif group.meant is Meant.ODD:
        when = say("Since ", begin)
    elif group.meant is Meant.CHOICE:
        when = say("One of two in each step since ", begin)
    else:
        when = say("In a fixed order since ", begin)
    told = group.in_short.clause
    told = told.respelled(OF_A_CHANGE) if group.meant in (Meant.PHASE, Meant.STAGES) else told
    what = say(when, ": ", told, group.place.within)
    cost = f"; {count(group.compiles, 'compile')}, {group.spent}."
    if group.meant in ONCE or not with_fix:
        return say(what, cost)  # each compiled for good: its fix stands in the list
    if group.meant is Meant.SIZES:
        return say(what, cost, " ", CHOSEN)
    otherwise = "To save it" if group.meant is Meant.ODD else "If not on purpose"
    return say(what, cost, f" {otherwise}: ", group.fix_in_short.clause)


def _seldom(groups: Sequence[CauseGroup]) -> Iterator[Message]:
    """That more came once or twice beside the first cause; what it is stands in the list."""
    seldom = [group for group in groups if group.meant is Meant.SELDOM]
    if seldom:
        which = "is" if sum(group.compiles for group in seldom) == 1 else "are"
        yield say(f"What came seldom beside it ({_spent(seldom)}) {which} listed below.")


def _what(problems: Sequence[CauseGroup]) -> Message:
    """How much was lost, and the costliest cause; that alone if it does more harm than that."""
    first = problems[0]
    is_suspected = bool(first.cause and not first.proved)
    if first.effect:
        return say(first.in_short.sentence, f"{'; suspected' if is_suspected else ''}.")
    if own := _own_time(problems):
        head = f"{first.compiles:,} of {extra_compiles(problems)} lost {own}"
    else:
        head = _lost(problems)
    return say(f"{head}{'; suspected' if is_suspected else ''}: ", first.in_short.clause, ".")


def _lost(problems: Sequence[CauseGroup]) -> str:
    """``3 compiles beyond warm-up lost 4.2 s``."""
    spent = together([group.spent for group in problems])
    lost = f" lost {spent}" if spent.wall_seconds else " (not timed)" if spent.is_unknown else ""
    return extra_compiles(problems) + lost


def _own_time(problems: Sequence[CauseGroup]) -> str:
    own = own_seconds(problems)
    return duration(own) if own else ""


def own_seconds(problems: Sequence[CauseGroup]) -> float:
    """What the first of several causes took; 0 where there is but one, or that is not known."""
    return problems[0].spent.wall_seconds if len(problems) > 1 else 0.0


def extra_compiles(problems: Sequence[CauseGroup]) -> str:
    """``3 compiles beyond warm-up``."""
    return f"{count(sum(group.compiles for group in problems), 'compile')} beyond warm-up"


def lost_time(problems: Sequence[CauseGroup]) -> str:
    """The time that all of them took."""
    return str(together([group.spent for group in problems]))


def _others(problems: Sequence[CauseGroup]) -> Iterator[Message]:
    """What the three lines leave out: further causes, where they are, and which are not proved."""
    main, *rest = problems
    first_there = {one: group for one in main.second for group in rest if _is_told_as(group, one)}
    rest = [group for group in rest if group not in first_there.values()]
    if rest:
        shown = (
            say(
                group.in_short.clause,
                group.place.within,
                f" ({count(group.compiles, 'compile')}, {group.spent}",
                ")" if group.proved or not group.cause else "; suspected, not proved)",
            )
            for group in rest
        )
        number = count(len(rest), "other cause")
        yield say(f"{number}: ", join(shown, 3, "; "), ".")
    for one in main.second:
        own = first_there.get(one)
        more = f", and the first of others ({_spent([own])})" if own else ""
        head = f"A second cause in the same graphs{more}: "
        yield say(head, _named(one), ". ", _fix_of_second(one))
    if main.elsewhere:
        yield main.same_number
    told = str(_named(main))
    further = [_alike(main, one) for one in main.frequent if str(_named(one)) != told]
    if further:
        left = len(further) - MAX_BESIDE
        more = f" and {count(left, 'further cause')}" if left > 0 else ""
        named = join(further[:MAX_BESIDE], MAX_BESIDE, "; ")
        yield say("Beside it in the same graphs: ", named, more, ".")


def _is_told_as(group: CauseGroup, cause: Cause) -> bool:
    """Whether graphs have a cause as their first one that others have as their second."""
    return group.kind is cause.kind and str(_named(group)) == str(_named(cause))


def _fix_of_second(cause: Cause) -> Message:
    """What to change too; a size that is a cause of its own is another one in every step."""
    is_of_sizes = cause.kind is INPUT_SHAPE and not cause.short_fix
    return say("Fix: ", MANY_SIZES if is_of_sizes else cause.fix_in_short)


def _alike(main: CauseGroup, other: Cause) -> Message:
    """A further cause, and whether what mends the first is to be done there as well."""
    is_alike = main.cause and is_of_span(main.cause) and is_of_span(other)
    return say(_named(other), " (the same fix goes for it)" if is_alike else "")


def _named(cause: Cause | CauseGroup) -> Message:
    return say(cause.in_short.clause, cause.place.within)
