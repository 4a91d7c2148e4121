"""A loop that goes over its elements from the last to the first on one side."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.calls.loops import counters, of_turn
from xlagraph.facts.pieces.pieces import OUTPUT, open_edges, piece_of
from xlagraph.message import A, B, Code, count, say
from xlagraph.rules.pieces.call_option import CALL_OPTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.calls.loops import Counter
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.message import Message, Side

WORDS = Words(
    say(
        "Let the loop go in one direction in every step: the same ",
        Code("reverse="),
        " of the scan, or the same order of what it goes over. Where both directions are meant, "
        "each compiles once: give each a function of its own.",
    ),
    say("A loop runs in the other direction"),
    say("Give the scan the same ", Code("reverse="), " in every step."),
)


def find(case: Case) -> list[Finding]:
    """Uses of the last element first on one side, where the other begins with the first.

    A scan and its derivative go in opposite directions, and change them together.
    """
    turned: dict[Side, list[Edge]] = defaultdict(list)
    known = {view.side: _counted(view) for view in (case.a, case.b)}
    if not all(known.values()):
        return []
    for edge in open_edges(case):
        for more, less in case.both_ways:
            if edge.place != OUTPUT and _is_turned(edge, more, less, known[more.side]):
                turned[more.side].append(edge)
    return [_finding(case, turned)] if turned else []


def _counted(view: SideView) -> dict[int, Counter]:
    """The counters of the loops, by the instructions of their bodies."""
    module = view.module
    return {
        i: counter
        for counter in counters(module)
        for body in (module.computations[counter.body],)
        for i in range(body.start, body.stop)
    }


def _is_turned(edge: Edge, more: SideView, less: SideView, known: Mapping[int, Counter]) -> bool:
    """Whether one side takes the number of the turn, and the other that from the end."""
    counter, number = known.get(edge.user(more)), less.partners[edge.value(less)]
    if counter is None or number < 0 or more.partners[edge.value(more)] >= 0:
        return False
    module, value = more.module, edge.value(more)
    is_number = of_turn(module, number, counter.place) == (1, 0)
    return is_number and of_turn(module, value, counter.place) == (-1, counter.turns - 1)


def _finding(case: Case, turned: Mapping[Side, list[Edge]]) -> Finding:
    edges = [(view, edge) for view in (case.a, case.b) for edge in turned.get(view.side, ())]
    pieces = {
        view.side: piece_of(view, [edge.value(view) for edge in turned.get(view.side, ())])
        for view in (case.a, case.b)
    }
    own_a = pieces[A] | {edge.x for _, edge in edges}
    own_b = pieces[B] | {edge.y for _, edge in edges}
    lines = where(case.diff.b, own_b) or where(case.diff.a, own_a)

    def undo(edit: Editors) -> None:
        for view, edge in edges:
            other = case.b if view.is_a else case.a
            edit[view.side].set_operand(
                edge.user(view), edge.place, other.partners[edge.value(other)]
            )

    return Finding(
        kind=CALL_OPTION,
        title=say(_title(turned), at(lines)),
        evidence=(
            Evidence(
                say(
                    f"{count(len(edges), 'operation')} of the loop's body "
                    f"{'takes' if len(edges) == 1 else 'take'} the number of the turn on one side, "
                    "and on the other the same number from the end"
                ),
                tuple(sorted(own_a))[:50],
                tuple(sorted(own_b))[:50],
                lines,
            ),
        ),
        proof=say("both were given the number of the turn"),
        fix=WORDS.fix,
        short=WORDS.short,
        short_fix=WORDS.short_fix,
        a=frozenset(own_a),
        b=frozenset(own_b),
        undo=undo,
    )


def _title(turned: Mapping[Side, list[Edge]]) -> Message:
    if len(turned) > 1:
        return say("a loop, and its derivative, go over their elements in the other direction")
    (side,) = turned
    other = B if side is A else A
    return say(
        "a loop goes over its elements from the last to the first in ", side,
        ", and from the first to the last in ", other,
    )  # fmt: skip


RULE = Rule(
    name="loop-direction",
    kinds=(),
    find=find,
    after=("shared-scalar",),
    before=("live-tensors",),
)
