"""Numbers that were equal on one side, and so one constant or one parameter."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import OUTPUT, Edge, open_edges, piece_of
from xlagraph.facts.values.scalars import is_scalar_input
from xlagraph.message import Change, count, join, say
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE, given_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

REDUCING = frozenset({"reduce", "reduce-window", "select-and-scatter"})
SHARED_SCALAR = Kind(
    id="shared-scalar",
    title="A number that shared a parameter with an equal one has its own now",
    section=Section.VALUES,
    meaning="Equal Python numbers are one parameter of the graph. A learning rate that equals eps, "
    "a decay that equals a momentum (pytorch/xla issue 3604): the step in which two numbers become "
    "equal, or stop being equal, has another number of parameters.",
    before="""\
for step, (x, y) in enumerate(loader):
    scale = 0.5 if step % 4 == 3 else 0.25  # in some steps the same number as below
    update((model(x) * scale).pow(2).mean() + (0.5 * model[0].weight).abs().mean())
""",
    after="""\
for step, (x, y) in enumerate(loader):
    scale = torch.tensor([0.5 if step % 4 == 3 else 0.25]).to("xla")
    update((model(x) * scale).pow(2).mean() + (0.5 * model[0].weight).abs().mean())
""",
    evidence="The parameters, and the uses.",
    fix="Equal Python numbers are one parameter. Send one in a tensor of one element, "
    "torch.tensor([value]).to(device)[0], which is a parameter of its own whatever its value. A "
    "tensor without dimensions, torch.tensor(value), is lowered like a number.",
    proof="Both sides use the parameter that both have.",
    examples=("average_of_half", "argument_of_its_own"),
    short="Python numbers are equal in some steps only",
    short_fix="Send it in one element: torch.tensor([value]).to(device)[0].",
)


def find(case: Case) -> list[Finding]:
    """Two numbers were equal on one side; here they differ.

    A use takes a number that both sides have on one side, and one of its own on the other. What
    a reduction starts from belongs to the reduction.
    """
    a, b = case.diff.a, case.diff.b
    constants: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    inputs: dict[bool, list[Edge]] = defaultdict(list)
    edges = open_edges(case)
    for edge in edges:
        a_is_lone, b_is_lone = case.a.partners[edge.p] < 0, case.b.partners[edge.q] < 0
        is_start = a.opcodes[edge.x] in REDUCING
        if edge.place == OUTPUT or is_start or a_is_lone == b_is_lone or _is_claimed(case, edge):
            continue
        (start, *way), (other, *other_way) = _way(a, edge.p), _way(b, edge.q)
        if [a.opcodes[i] for i in way] != [b.opcodes[j] for j in other_way]:
            continue
        if a.opcodes[start] == b.opcodes[other] == "constant":
            if a.payloads[start] != b.payloads[other]:
                constants[a.payloads[start], b.payloads[other]].append(edge)
        elif (
            is_scalar_input(a, start)
            and is_scalar_input(b, other)
            and (case.a.partners[start] if a_is_lone else case.b.partners[other]) < 0
        ):
            inputs[a_is_lone].append(edge)
    return [
        *(_constant_finding(case, old, new, edges) for (old, new), edges in constants.items()),
        *(
            _input_finding(case, *case.both_ways[0 if a_has_more else 1], edges)
            for a_has_more, edges in inputs.items()
        ),
        *_exchanged(case, [edge for edge in edges if not _is_claimed(case, edge)]),
    ]


def _exchanged(case: Case, edges: Sequence[Edge]) -> list[Finding]:
    """Numbers that both sides have, of which others are equal on one side than on the other.

    A number of Python cannot be taken for another one but where the two were equal: a graph knows
    them by their uses alone. Tensors with names can.
    """
    found = [edge for edge in edges if _takes_other_number(case, edge)]
    numbers = {number for edge in found for number in ((case.a, edge.p), (case.b, edge.q))}
    if not any(_is_shared(view, number) for view, number in numbers):
        return []
    if any(view.input_tensor(number) for view, number in numbers):
        return []
    return [_exchanged_finding(case, found)]


def _takes_other_number(case: Case, edge: Edge) -> bool:
    """Whether a use takes one number in A and another in B, and both have both."""
    return (
        edge.place != OUTPUT
        and is_scalar_input(case.diff.a, edge.p)
        and is_scalar_input(case.diff.b, edge.q)
        and (0 <= case.a.partners[edge.p] < edge.y or 0 <= case.b.partners[edge.q] < edge.x)
        and min(case.a.partners[edge.p], case.b.partners[edge.q]) >= 0
    )


def _is_shared(view: SideView, number: int) -> bool:
    live = view.matched.live
    return sum(live[user] for user in view.module.users[number]) > 1


def _is_claimed(case: Case, edge: Edge) -> bool:
    return edge.p in case.a.claimed or edge.q in case.b.claimed


def _way(module: Module, i: int) -> list[int]:
    """The number that a value spreads or converts, and the steps from there to the value."""
    way = [i]
    while module.opcodes[i] in ("broadcast", "reshape", "convert"):
        (i,) = module.operands[i]
        way.append(i)
    return way[::-1]


def _constant_finding(case: Case, old: str, new: str, edges: Sequence[Edge]) -> Finding:
    words = given_words(case.diff.b, [(edge.y, edge.place) for edge in edges])
    found = _finding(
        case,
        edges,
        kind=CONSTANT_VALUE,
        title=say(
            "a Python number is baked into the graph: ",
            Change(old, new, "became"),
            f" at {count(len(edges), 'place')}",
            at(_lines(case, edges)),
        ),
        evidence=say(
            "constant ",
            Change(old, new),
            "; one side has one constant for this and for another number of the same value",
        ),
    )
    return replace(found, short=words.short, fix=words.fix, short_fix=words.short_fix)


def _input_finding(case: Case, more: SideView, less: SideView, edges: Sequence[Edge]) -> Finding:
    """`more` has two parameters where `less` has one."""
    own = sorted({_way(more.module, edge.value(more))[0] for edge in edges})
    names = join(parameter_name(more, p) for p in own)
    return _finding(
        case,
        edges,
        kind=SHARED_SCALAR,
        title=say(
            "a number that shared a parameter with another one in ",
            less.side,
            " has its own in ",
            more.side,
            " (",
            names,
            ")",
            at(_lines(case, edges)),
        ),
        evidence=say(
            more.side,
            " takes in ",
            names,
            f" for {count(len(edges), 'use')} where ",
            less.side,
            " takes in a number that it uses elsewhere too: equal numbers are one parameter",
        ),
    )


def _exchanged_finding(case: Case, edges: Sequence[Edge]) -> Finding:
    names = join(dict.fromkeys(parameter_name(case.b, edge.q) for edge in edges))
    return _finding(
        case,
        edges,
        kind=SHARED_SCALAR,
        title=say(
            "other Python numbers are equal in ",
            case.b.side,
            " than in ",
            case.a.side,
            " (",
            names,
            ")",
            at(_lines(case, edges)),
        ),
        evidence=say(
            f"{count(len(edges), 'use')} of numbers that others use too take another one: ",
            "equal numbers are one parameter",
        ),
    )


def _lines(case: Case, edges: Sequence[Edge]) -> tuple[SourceLine, ...]:
    a, b = case.diff.a, case.diff.b
    own = where(b, [e.q for e in edges]) or where(a, [e.p for e in edges])
    return own or where(b, [e.y for e in edges])


def _finding(
    case: Case, edges: Sequence[Edge], *, kind: Kind, title: Message, evidence: Message
) -> Finding:
    own_a = piece_of(case.a, [e.p for e in edges]) | {e.x for e in edges}
    own_b = piece_of(case.b, [e.q for e in edges]) | {e.y for e in edges}
    lines = _lines(case, edges)

    def undo(edit: Editors) -> None:
        for edge in edges:
            one, other = case.both_ways[0 if case.a.partners[edge.p] < 0 else 1]
            value = other.partners[edge.value(other)]
            if value < edge.user(one):
                edit[one.side].set_operand(edge.user(one), edge.place, value)
            elif case.b.partners[edge.q] >= 0 and case.a.partners[edge.p] >= 0:
                edit.a.set_operand(edge.x, edge.place, case.b.partners[edge.q])
            else:  # the number that both have comes later in the text: let the own one stand for it
                own = _way(one.module, edge.value(one))[0]
                edit[one.side].replace_uses({_way(one.module, value)[0]: own})

    return Finding(
        kind=kind,
        title=title,
        evidence=(Evidence(evidence, tuple(sorted(own_a)), tuple(sorted(own_b)), lines),),
        proof=say("both sides were given the number that both have"),
        a=frozenset(own_a),
        b=frozenset(own_b),
        undo=undo,
    )


RULE = Rule(
    name="shared-scalar",
    kinds=(SHARED_SCALAR,),
    find=find,
    after=("scalar-argument",),
)
