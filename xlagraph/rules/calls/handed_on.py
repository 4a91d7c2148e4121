"""Loops and functions that hand on more, since a term of what they compute needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.live import live_instructions
from xlagraph.cause.editor import ModuleEditor
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.calls.handed_on import (
    Narrowed,
    Origins,
    body_of,
    can_narrow_loop,
    is_taken_apart,
    lone_places,
    narrow,
)
from xlagraph.message import A, B, count, say
from xlagraph.rules.calls.loop_carry import LOOP_CARRY

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

    Both = tuple[Narrowed, Narrowed]

MARK = "handed on in {} alone"
ASKED = "handed on for what?"


def find(case: Case) -> list[Finding]:
    """Places in the tuples of loops, and of functions in or around them, of one side alone.

    What took its value from there takes one that the other side has not, so that a proof needs the
    cause of that, too.
    """
    changed = [(x, y) for x, y, _ in case.open_changes()]
    both = Origins(case.a), Origins(case.b)
    loops = [found for x, y in changed if (found := _loop(both, x, y))]
    if not loops:
        return []
    calls = [found for x, y in changed if (found := _function(case, both, x, y))]
    return [_finding(case, list(dict.fromkeys((*loops, *calls))))]


def _loop(both: tuple[Origins, Origins], x: int, y: int) -> Both | None:
    a, b = (origins.view.module for origins in both)
    if not a.opcodes[x] == b.opcodes[y] == "while":
        return None
    if not (can_narrow_loop(a, x) and can_narrow_loop(b, y)):
        return None
    given_a, given_b = (m.operands[body_of(m, i).root] for m, i in ((a, x), (b, y)))
    lone_a, lone_b = lone_places(*both, given_a, given_b)
    return (Narrowed((x,), lone_a), Narrowed((y,), lone_b)) if lone_a or lone_b else None


def _function(case: Case, both: tuple[Origins, Origins], x: int, y: int) -> Both | None:
    """What calls of two functions, which for the most part are one, hand in and take alone."""
    a, b = case.diff.a, case.diff.b
    if not (a.opcodes[x] == b.opcodes[y] == "call" and _is_mostly_one(case, x, y)):
        return None
    calls_a, calls_b = (m.callers[m.callees[i][0]] for m, i in ((a, x), (b, y)))
    if {case.a.partners[i] for i in calls_a} != set(calls_b):
        return None
    called = [(m, i) for m, calls in ((a, calls_a), (b, calls_b)) for i in calls]
    if not all(m.opcodes[i] == "call" and is_taken_apart(m, i) for m, i in called):
        return None
    lone = {lone_places(*both, a.operands[i], b.operands[case.a.partners[i]]) for i in calls_a}
    if len(lone) != 1:
        return None
    arguments_a, arguments_b = lone.pop()
    roots = [m.computations[m.callees[i][0]].root for m, i in ((a, x), (b, y))]
    places_a = places_b = frozenset[int]()
    if a.opcodes[roots[0]] == b.opcodes[roots[1]] == "tuple":
        places_a, places_b = lone_places(*both, a.operands[roots[0]], b.operands[roots[1]])
    if not (places_a or places_b or arguments_a or arguments_b):
        return None
    return Narrowed(calls_a, places_a, arguments_a), Narrowed(calls_b, places_b, arguments_b)


def _is_mostly_one(case: Case, x: int, y: int) -> bool:
    """Whether the functions called have more than half of their instructions in common."""
    a, b = case.diff.a, case.diff.b
    bodies = [m.computations[m.callees[i][0]] for m, i in ((a, x), (b, y))]
    common = sum(
        1
        for i in range(bodies[0].start, bodies[0].stop)
        if bodies[1].start <= case.a.partners[i] < bodies[1].stop
    )
    return all(2 * common > c.stop - c.start for c in bodies)


def _finding(case: Case, found: list[Both]) -> Finding:
    both = ((case.a, [one for one, _ in found]), (case.b, [other for _, other in found]))

    def undo(edit: Editors) -> None:
        for view, what in both:
            for one in what:
                narrow(edit[view.side], one, MARK.format(view.side))

    (own_a, lines_a), (own_b, lines_b) = (_cited(view, what) for view, what in both)
    lines = lines_b or lines_a
    title = say("loops and functions hand on other values in ", A, " than in ", B, at(lines))
    numbers = [sum(len(w.places) + len(w.arguments) for w in what) for _, what in both]
    evidence = say(
        f"{count(numbers[0], 'place')} of their tuples and arguments in ", A,
        " alone, ", f"{numbers[1]} in ", B, " alone",
    )  # fmt: skip
    return Finding(
        kind=LOOP_CARRY,
        title=title,
        evidence=(Evidence(evidence, tuple(own_a)[:50], tuple(own_b)[:50], lines),),
        proof=say("what one side alone hands on was taken out"),
        a=frozenset(own_a),
        b=frozenset(own_b),
        undo=undo,
        incidental=all(_is_needed(view.module, one) for view, what in both for one in what),
    )


def _cited(view: SideView, found: list[Narrowed]) -> tuple[list[int], tuple[SourceLine, ...]]:
    """The loops and calls with what takes their values, and the lines of the loops."""
    module = view.module
    owners = [i for one in found for i in one.owners]
    loops = [i for i in owners if module.opcodes[i] == "while"]
    taken = [u for one in found if one.places for i in one.owners for u in module.users[i]]
    return sorted({*owners, *taken}), where(module, loops)


def _is_needed(module: Module, what: Narrowed) -> bool:
    """Whether all that is handed on there is for some use: no place of it is dead by itself."""
    for k in what.places:
        if not _leaves_a_use(module, Narrowed(what.owners, frozenset((k,)))):
            return False
    for n in what.arguments:
        if not _leaves_a_use(module, Narrowed(what.owners, arguments=frozenset((n,)))):
            return False
    return True


def _leaves_a_use(module: Module, what: Narrowed) -> bool:
    editor = ModuleEditor(module)
    narrow(editor, what, ASKED)
    edited = editor.build()
    live = live_instructions(edited)
    return any(live[i] for i, mark in edited.payloads.items() if mark.startswith(ASKED))


RULE = Rule(
    name="handed-on",
    kinds=(),
    find=find,
    after=("loop-carry",),
    before=("sharding",),
    rematches=True,
)
