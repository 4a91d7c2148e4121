"""What is found between ranks, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.collectives.program import Branch, Collective
from xlagraph.figures import count, duration, ranges
from xlagraph.message import EMPTY, GraphName, join, say
from xlagraph.ranks.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import Message
    from xlagraph.ranks.alike import Alike
    from xlagraph.ranks.cost import JobCost, Straggler
    from xlagraph.ranks.divergence import Difference
    from xlagraph.ranks.explain import Divergence, OwnNumbers, Stop
    from xlagraph.ranks.model import Matching

MAX_RANGES = 4
"""Stretches of steps that are named; more are counted."""
ASIDE = {
    Outcome.HANG: "Apart from the hang",
    Outcome.MISMATCH: "Apart from the mismatch",
}
"""Above what recompiles, where ranks wait for each other or do not match."""
_WORDS = {
    Outcome.MATCH: "Collectives match",
    Outcome.UNKNOWN: "Whether collectives match is not known",
    Outcome.HANG: "Collectives hang",
    Outcome.MISMATCH: "Collectives do not match",
}


def rank_words(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-2, 5``."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"


def step_words(steps: Sequence[int]) -> str:
    """``step 3``, ``steps 3-6``, ``23 steps from 0 to 1607``."""
    told = ranges(steps)
    if told.count(",") >= MAX_RANGES:
        return f"{len(steps):,} steps from {steps[0]} to {steps[-1]}"
    return f"{'step' if len(steps) == 1 else 'steps'} {told}"


def opcode_of(stop: Stop) -> str:
    """The collective's opcode; empty for a loop or a branch with several."""
    item = stop.wait.item
    return item.opcode if isinstance(item, Collective) else ""


def collective_words(stop: Stop) -> Message:
    """``all-reduce (add) of f32[12,16] for 0.weight``."""
    item = stop.wait.item
    if not isinstance(item, Collective):
        return say("a branch" if isinstance(item, Branch) else "a loop", " with collectives")
    reduction = f" ({item.reduction})" if item.reduction else ""
    shapes = join(stop.stand.shapes, 3)
    for_ = say(" for ", join(stop.stand.tensors, 3)) if stop.stand.tensors else EMPTY
    return say(f"{item.opcode}{reduction} of ", shapes, for_)


def stop_words(stop: Stop) -> Message:
    """Who stands where, and for whom they wait."""
    wait = stop.wait
    one = len(wait.ranks) == 1
    waits = f", {'waits' if one else 'wait'} for {rank_words(wait.missing)}" if wait.missing else ""
    line = say(" at ", stop.stand.lines[0]) if stop.stand.lines else EMPTY
    if line and stop.stand.callers:
        line = say(line, ", called at ", stop.stand.callers[0])
    head = f"{rank_words(wait.ranks)}, step {wait.step}, graph "
    return say(head, GraphName(stop.letter), ": ", collective_words(stop), line, waits)


def doubt_words(matching: Matching) -> Message:
    """Why something is not certain; empty where it is."""
    if matching.certain or not matching.doubts:
        return EMPTY
    return say("Not certain: ", join((one.value for one in matching.doubts), 4, "; "), ".")


def divergence_words(one: Divergence) -> Message:
    """``rank 0 ran B then A where ranks 1-7 ran A in steps 4-6``."""
    what = one.difference
    steps = step_words(what.steps)
    mine = rank_words(what.ranks)
    if what.is_end:
        return say(end_words(what))
    if not one.ran:
        return say(
            f"{mine} ran nothing in {steps}, where {rank_words(what.others)} ran ", _row(one.usual)
        )
    if not one.usual:
        return say(
            f"{mine} ran ",
            _row(one.ran),
            f" where {rank_words(what.others)} ran nothing in {steps}",
        )
    return say(
        f"{mine} ran ", _row(one.ran), f" where {rank_words(what.others)} ran ", _row(one.usual),
        f" in {steps}",
    )  # fmt: skip


def end_words(what: Difference) -> str:
    """``rank 1 finished after step 10; rank 0 ran 12 steps``."""
    longer, shorter = (what.ranks, what.others) if what.ran else (what.others, what.ranks)
    ended = f"{rank_words(shorter)} finished after step {what.steps[0] - 1}"
    ran = f"{rank_words(longer)} ran {count(what.steps[-1] + 1, 'step')}"
    return f"{ran}; {ended}" if what.ran else f"{ended}; {ran}"


def alike_words(one: Alike) -> Message:
    """`divergence_words` of several together."""
    if one.number == 1:
        return divergence_words(one.first)
    if not (one.ran and one.usual):
        return say(divergence_in_short(one))
    ran, usual = (join(map(GraphName, letters), 4) for letters in (one.ran, one.usual))
    return say(divergence_in_short(one), ": ", ran, " for ", usual)


def divergence_in_short(one: Alike) -> str:
    """The same without letters, which a reader has not met at the beginning."""
    what = one.first.difference
    mine, others = rank_words(what.ranks), rank_words(what.others)
    steps = step_words(one.steps)
    if what.is_end:
        return end_words(what)
    if not one.ran:
        return f"{mine} ran nothing in {steps} where {others} ran a graph"
    if not one.usual:
        return f"{mine} ran a graph in {steps} where {others} ran nothing"
    graph = "another graph" if one.number == 1 else "other graphs"
    return f"{mine} ran {graph} than {others} in {steps}"


def cause_words(one: Divergence) -> Message:
    """Why these ranks ran something else; empty where that is not known."""
    if not (one.explanation and one.explanation.causes):
        return EMPTY
    cause = one.explanation.causes[0]
    return say(cause.title.sentence, f" ({cause.kind})")


def own_number_words(one: OwnNumbers) -> Message:
    """That ranks differ by their own number only."""
    places = count(len(one.numbers.instructions), "place")
    return say(
        f"{rank_words(one.ranks)} run graphs that differ only by a number of the rank's own, at "
        f"{places}: {one.numbers.first:g} on rank {one.ranks[0]}, {one.numbers.step:g} more on "
        "each next one",
        say(" (", one.lines[0], ")") if one.lines else EMPTY,
        ". Each rank compiles its own",
    )


def _straggler_words(stragglers: Sequence[Straggler]) -> list[Message]:
    """Steps in which the same ranks kept the others waiting, the costliest first."""
    steps: dict[tuple[int, ...], list[Straggler]] = {}
    for one in stragglers:
        steps.setdefault(one.ranks, []).append(one)
    groups = sorted(steps.values(), key=lambda group: -sum(one.seconds for one in group))
    return [
        say(
            f"{step_words(sorted(one.step for one in group))}: {rank_words(group[0].ranks)} "
            f"compiled for {duration(sum(one.seconds for one in group))}, the others had nothing "
            "to compile"
        )
        for group in groups
    ]


def _row(letters: Sequence[str]) -> Message:
    return join(map(GraphName, letters), 6, " then ")


def matching_words(matching: Matching) -> str:
    """What came of matching collectives, in a sentence without a full stop."""
    doubts = "; ".join(doubt.value for doubt in matching.doubts)
    unsure = f" (not certain: {doubts})" if doubts and not matching.certain else ""
    if not matching.matched and matching.outcome is Outcome.MATCH:
        return f"No collectives in these graphs{unsure}"
    before = ""
    if matching.outcome is Outcome.MATCH:
        before = f": {matching.matched} of them, in order"
    elif matching.matched:
        before = f"; {count(matching.matched, 'collective')} before that matched"
    return f"{_WORDS[matching.outcome]}{before}{unsure}"


def cost_words(cost: JobCost) -> list[Message]:
    """What compiling cost the job, and then who compiled late, long or alone."""
    how = "" if cost.by_clock else ", each step by its slowest rank"
    wall, ranks = duration(cost.seconds), duration(cost.spent)
    spent = f"{wall} of wall time{how}" + (f" ({ranks} over all ranks)" if ranks != wall else "")
    said = [say(f"Compiling kept the job for {spent}.")]
    said += _straggler_words(cost.stragglers)
    said += [
        say(
            f"rank {one.rank} took {duration(one.seconds)} over a graph that takes "
            f"{duration(one.usual)} elsewhere"
        )
        for one in cost.outliers
    ]
    said += [
        say(
            f"{rank_words(one.compiled)} compiled a graph that {rank_words(one.loaded)} had in "
            "the cache"
        )
        for one in cost.missed
    ]
    return said
