"""What is wrong between ranks in three lines: what, where, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.verdict import Verdict
from xlagraph.figures import count
from xlagraph.message import EMPTY, GraphName, join, say
from xlagraph.ranks.alike import alike
from xlagraph.ranks.batches import as_many_turns
from xlagraph.ranks.kinds import COLLECTIVE_HANG, COLLECTIVE_MISMATCH, RANK_DIVERGENCE
from xlagraph.ranks.model import STOPS, Outcome, Reason
from xlagraph.ranks.words import (
    collective_words,
    divergence_in_short,
    doubt_words,
    opcode_of,
    rank_words,
    step_words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.message import Message, SourceLine
    from xlagraph.ranks.ended import LastStep
    from xlagraph.ranks.explain import Divergence, Stop
    from xlagraph.ranks.model import Matching

GOES_ON = frozenset({Reason.ELEMENT_TYPE, Reason.REDUCTION})
"""Ways not to match that no runtime looks at: the sizes agree."""


def ranks_verdict(
    matching: Matching,
    stops: Sequence[Stop],
    ended: Sequence[LastStep],
    divergences: Sequence[Divergence],
    around: Mapping[int, str],
) -> Verdict | None:
    """The three lines for what is wrong between ranks; None where nothing is.

    `around`: the texts of `verdict_line` and of the lines around it, by number.
    """
    if matching.outcome in STOPS:
        return _stopped(matching, stops, ended, divergences, around)
    if not divergences:
        return None
    whole, *more = alike(divergences, by_cause=False)
    first = divergences[0]
    notes = [say(f"{count(len(more), 'more difference')} between ranks.")]
    where, fix = _divergent_place(first), say(RANK_DIVERGENCE.short_fix)
    if _is_caused(first) and first.explanation:
        fix = first.explanation.verdict.fix
    elif first.difference.is_end and ended:
        where, fix = _end_places((), ended) or where, _as_many(ended, around)
    return Verdict(
        what=say(say(divergence_in_short(whole)).sentence, "."),
        where=where,
        fix=fix,
        notes=tuple(notes) if more else (),
    )


def verdict_line(
    matching: Matching,
    stops: Sequence[Stop],
    ended: Sequence[LastStep],
    divergences: Sequence[Divergence],
) -> SourceLine | None:
    """The line that the verdict names first; None where it names none."""
    if matching.outcome in STOPS:
        odd = _odd(stops)
        rest = [stop for stop in stops if stop.wait.is_root and stop is not odd]
        stood = _telling([odd, *rest][:2], odd)
        return next((one.place for one in ended if one.place), stood)
    if not divergences:
        return None
    first = divergences[0]
    if _is_caused(first) and first.explanation:
        return first.explanation.causes[0].place.line
    return next((one.place for one in ended if one.place and first.difference.is_end), first.line)


def _odd(stops: Sequence[Stop]) -> Stop:
    """Where the fewest ranks stand of those that cause the rest."""
    return min((one for one in stops if one.wait.is_root), key=lambda one: len(one.wait.ranks))


def _stopped(
    matching: Matching,
    stops: Sequence[Stop],
    ended: Sequence[LastStep],
    divergences: Sequence[Divergence],
    around: Mapping[int, str],
) -> Verdict:
    odd = _odd(stops)
    others = [stop for stop in stops if stop.wait.is_root and stop is not odd]
    shown = [odd, *others][:2]
    doubts = doubt_words(matching)
    notes = (_collectives(shown), doubts) if doubts else (_collectives(shown),)
    if matching.outcome is Outcome.MISMATCH:
        why = _why(odd, divergences) if _are_exchanged(shown) else None
        fix = why.explanation.verdict.fix if why and why.explanation else EMPTY
        return Verdict(
            _mismatch(matching, shown),
            _places(shown),
            fix or say(COLLECTIVE_MISMATCH.short_fix),
            (*notes, _why_words(why)) if why else notes,
        )
    may = "hangs" if matching.certain else "may hang"
    head = f"The job {may} in step {odd.wait.step}: "
    if ended:
        told, fix = _ended([odd, *others], ended, around)
        return Verdict(say(head, told, "."), _end_places(shown, ended), fix, notes)
    what = say(head, join(map(_waits, shown), 2, "; "), ".")
    kind = COLLECTIVE_HANG if matching.reason is Reason.ENDED else COLLECTIVE_MISMATCH
    return Verdict(what, _places(shown), say(kind.short_fix), notes)


def _mismatch(matching: Matching, shown: Sequence[Stop]) -> Message:
    odd, *others = shown
    fails = "gives wrong values" if matching.reason in GOES_ON else "hangs or fails"
    does = fails if matching.certain else f"probably {fails}"
    head = f"The job {does} in step {odd.wait.step}: "
    if _are_exchanged(shown):
        mine, other = (join(stop.stand.tensors, 1) for stop in (odd, others[0]))
        first = f"{opcode_of(odd)} of "
        on = (f" on {rank_words(stop.wait.ranks)}" for stop in (odd, others[0]))
        return say(head, first, mine, next(on), ", of ", other, next(on), ".")
    return say(
        f"{head}{rank_words(odd.wait.ranks)} "
        f"{'runs' if len(odd.wait.ranks) == 1 else 'run'} another collective",
        *(f" than {rank_words(stop.wait.ranks)}" for stop in others),
        ".",
    )


def _are_exchanged(stops: Sequence[Stop]) -> bool:
    """Whether two sides are at one kind of collective, each for tensors that have names."""
    opcodes = {opcode_of(stop) for stop in stops}
    return len(stops) == 2 and len(opcodes) == 1 and all(stop.stand.tensors for stop in stops)


def _why(odd: Stop, divergences: Sequence[Divergence]) -> Divergence | None:
    """What makes the graphs of the step differ, where it is known for sure."""
    for one in divergences:
        if odd.wait.step in one.difference.steps and _is_caused(one):
            return one if one.explanation and one.explanation.proved else None
    return None


def _why_words(one: Divergence) -> Message:
    """Why the graphs of these ranks differ."""
    if one.explanation is None:
        return EMPTY
    cause = one.explanation.causes[0].in_short.clause
    return say(f"Why the graph of {rank_words(one.difference.ranks)} differs: ", cause, ".")


def _ended(
    stops: Sequence[Stop], ended: Sequence[LastStep], around: Mapping[int, str]
) -> tuple[str, Message]:
    """That ranks have nothing more to run for which others wait, and what to change."""
    gone = [rank for one in ended for rank in one.ranks]
    waiting = {rank for stop in stops for rank in stop.wait.ranks}
    verb = "waits" if len(waiting) == 1 else "wait"
    wait = f"{rank_words(sorted(waiting))} {verb} for {'it' if len(gone) == 1 else 'them'}"
    steps = {one.step for one in ended}
    if max(steps) >= min(stop.wait.step for stop in stops):
        has = "has" if len(gone) == 1 else "have"
        what = f"{rank_words(gone)} {has} no more collectives to run; {wait}"
        return what, say(COLLECTIVE_HANG.short_fix)
    what = f"{rank_words(gone)} finished after {step_words(sorted(steps))}; {wait}"
    return what, _as_many(ended, around)


def _as_many(ended: Sequence[LastStep], around: Mapping[int, str]) -> Message:
    """How ranks that ended early take as many steps as the others."""
    loop = next((one.loop for one in ended if one.place), None)
    typed = as_many_turns(around, loop.line) if loop else EMPTY
    if loop and typed:
        return say(f"Replace line {loop.line}, or give all ranks as many steps:", typed)
    gone = rank_words([rank for one in ended for rank in one.ranks])
    return say(f"Give {gone} as many batches as the others (equal shards, drop_last).")


def _end_places(stops: Sequence[Stop], ended: Sequence[LastStep]) -> Message:
    """Where ranks ended; where others wait for them stands with the ranks."""
    first = next((one for one in ended if one.place), None)
    if first is None or first.place is None:
        return _places(stops) if stops else EMPTY
    mine = rank_words(first.ranks)
    ended_here = f"{mine} ran no further step after this line"
    if first.loop:
        ended_here = f"the loop that {mine} left"
    return say(first.place, f": {ended_here}")


def _waits(stop: Stop) -> Message:
    wait = stop.wait
    verb = "waits" if len(wait.ranks) == 1 else "wait"
    return say(f"{rank_words(wait.ranks)} {verb} for {rank_words(wait.missing)}")


def _collectives(stops: Sequence[Stop]) -> Message:
    """At which collective each of them stands."""
    each = (
        say(
            rank_words(stop.wait.ranks),
            " stands at " if len(stop.wait.ranks) == 1 else " stand at ",
            collective_words(stop),
        )
        for stop in stops
    )
    return say(join(each, len(stops), "; ").sentence, ".")


def _places(stops: Sequence[Stop]) -> Message:
    """Where each side stands; of a function that several places call, those that called it."""
    standing = [_telling(stops, stop) for stop in stops]
    if len({str(line) for line in standing}) == 1:
        here = ": both sides stand here" if len(stops) > 1 else ""
        return say(_through(stops[0]) if here else _place(stops[0]), here)
    each = (
        say(line or _place(stop), f" ({rank_words(stop.wait.ranks)})")
        for line, stop in zip(standing, stops, strict=True)
    )
    return join(each, len(stops), "; ")


def _telling(stops: Sequence[Stop], stop: Stop) -> SourceLine | None:
    """The line of a side that tells it from the others, the innermost such one.

    Where all sides stand at one line, which the same line called, that one.
    """
    lines = _frames(stop)
    others = {str(line) for one in stops if one is not stop for line in _frames(one)}
    own = next((line for line in lines if str(line) not in others), None)
    return own or next(iter(lines[1:]), None) or next(iter(lines), None)


def _through(stop: Stop) -> Message:
    """Where a function with a collective was called, and its line."""
    callers = stop.stand.callers[:1]
    if not (callers and stop.stand.lines):
        return _place(stop)
    return say(callers[0], ", through ", stop.stand.lines[0])


def _frames(stop: Stop) -> tuple[SourceLine, ...]:
    return (*stop.stand.lines[:1], *stop.stand.callers)


def _place(stop: Stop) -> Message:
    """The line of a collective, with where its function was called."""
    if not stop.stand.lines:
        return say("graph ", GraphName(stop.letter))
    callers = stop.stand.callers[:1]
    return say(stop.stand.lines[0], *(say(", called at ", one) for one in callers))


def _divergent_place(one: Divergence) -> Message:
    if _is_caused(one) and one.explanation:
        return one.explanation.verdict.where
    return say(one.line) if one.line else EMPTY


def _is_caused(one: Divergence) -> bool:
    return bool(one.explanation and one.explanation.causes)
