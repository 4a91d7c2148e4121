"""An operation that takes another of the values that both sides have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, called_at, where
from xlagraph.diff.header import given_away
from xlagraph.facts.pieces.pieces import OUTPUT, open_edges
from xlagraph.facts.program.step_places import within_step
from xlagraph.facts.training.updates import renewed, uses_after_update
from xlagraph.message import HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.message import Message, SourceLine

MAX_SLIPS = 3
"""More uses that go elsewhere are no slips of single names."""
MAX_CITED = 20
MAX_TENSORS = 3
AFTER_UPDATE = ": used after the update in some steps"
"""What the short form of a use of new values ends in."""

OTHER_OPERAND = Kind(
    id="other-operand",
    title="An operation takes another value that both graphs have",
    section=Section.PIECES,
    meaning="Python picks one of several tensors that the graph has anyway: the one before or "
    "after normalization, the input in place of the target, one of two weights, a state before or "
    "after its update; or, in the turns of a loop, the true value or the predicted one (scheduled "
    "sampling). One operation is connected with another value; at most the derivative runs on "
    "through it.",
    before="""\
with torch.no_grad():
    for step, (x, y) in enumerate(loader):
        hidden = torch.tanh(model[0](x))
        gate = torch.sigmoid(hidden)
        picked = gate if step % 4 == 3 else hidden  # Python picks
        scores = model[2](torch.exp(hidden) * picked) + gate.sum()
        torch_xla.sync()
""",
    after="""\
pick = torch.zeros((), dtype=torch.bool, device="xla")
torch_xla.sync()
with torch.no_grad():
    for step, (x, y) in enumerate(loader):
        pick.copy_(torch.tensor(step % 4 == 3))
        hidden = torch.tanh(model[0](x))
        gate = torch.sigmoid(hidden)
        picked = torch.where(pick, gate, hidden)
        scores = model[2](torch.exp(hidden) * picked) + gate.sum()
        torch_xla.sync()
""",
    evidence="The operation, and what it takes on both sides.",
    fix="Take the same tensor in every step, or let the device pick: torch.where, or an index into "
    "stacked tensors.",
    proof="The operation takes in B what it takes in A.",
    examples=("another_operand",),
    only_proved=True,
    short="An operation takes another tensor in some steps",
    short_fix="Take the same tensor, or pick with torch.where.",
    may_be_meant=True,
)

OTHER_UPDATES = "Other tensors are updated: "
"""What the short form of updates of other tensors begins with."""
UPDATES_FIX = say(
    "Each graph updates other tensors, by the same operations: layers, adapters or networks are "
    "trained in turn. Let every step update all of them: multiply the gradients of those that "
    "shall stay by 0, taken in as a tensor, in place of setting them to None. A few sets in turn "
    "compile once each, and nothing is wrong with that."
)
UPDATES_SHORT_FIX = say("Update all in every step; multiply their gradients by 0 or 1.")


def find(case: Case) -> list[Finding]:
    """Uses of a value that has a partner, where the other side uses another that has one, too.

    A few may be single slips. Many are one exchange (another set of weights), which is seen only
    where all are known by other uses, alike on both sides: else the pairing may have gone astray.
    So are those beside other causes, and there they are inputs, before or after their update.
    """
    a, b = case.a, case.b
    edges = [
        edge
        for edge in open_edges(case)
        if edge.place != OUTPUT
        and a.partners[edge.p] >= 0
        and b.partners[edge.q] >= 0
        and not (a.matched.closed[edge.p] or b.matched.closed[edge.q])
        and a.module.shapes[edge.p] == b.module.shapes[edge.q]
    ]
    if a.claimed or b.claimed:
        late = uses_after_update(case, edges)
        edges = [
            edge
            for edge in edges
            if (_are_inputs(case, edge) and _is_known(case, edge)) or edge in late
        ]
    elif len(edges) > MAX_SLIPS and not all(_is_known(case, edge) for edge in edges):
        return []
    if not edges or not all(_can_undo(case, edge) for edge in edges):
        return []
    is_one = len(edges) > MAX_SLIPS or all(_are_inputs(case, edge) for edge in edges)
    return [_finding(case, group) for group in ([edges] if is_one else [[e] for e in edges])]


def _are_inputs(case: Case, edge: Edge) -> bool:
    return all(
        edge.value(view) in view.module.entry_computation.parameters for view in (case.a, case.b)
    )


def _is_known(case: Case, edge: Edge) -> bool:
    """Whether other operations use either value on both sides, so that it is surely paired."""
    return _used_alike(case, edge.p) and _used_alike(case, case.b.partners[edge.q])


def _used_alike(case: Case, value: int) -> bool:
    """Whether a user of A's value has a partner that uses the value's partner in its place."""
    a, b = case.a, case.b
    return any(
        a.partners[user] >= 0
        and (value, a.partners[value])
        in zip(a.module.operands[user], b.module.operands[a.partners[user]], strict=False)
        for user in a.module.users[value]
    )


def _can_undo(case: Case, edge: Edge) -> bool:
    """Whether either side can take what the other one does: operands come first.

    Inputs may stand behind: then it is undone if that completes a proof.
    """
    is_first = case.a.partners[edge.p] < edge.y or case.b.partners[edge.q] < edge.x
    return is_first or _are_inputs(case, edge)


def _finding(case: Case, edges: Sequence[Edge]) -> Finding:
    a, b = case.a, case.b
    users = {edge.y for edge in edges}
    lines = _lines(b, users) or _lines(a, {edge.x for edge in edges})
    later = _takes_updated(case, edges)
    words = _of_other_updates(case) if len(edges) > MAX_SLIPS else Words()
    if later:
        words = Words(short=say(_updated(case, edges, 1), AFTER_UPDATE))

    def undo(edit: Editors) -> None:
        for edge in edges:
            in_b = a.partners[edge.p]
            if in_b < edge.y:
                edit.b.set_operand(edge.y, edge.place, in_b)
            else:
                edit.a.set_operand(edge.x, edge.place, b.partners[edge.q])

    return Finding(
        kind=OTHER_OPERAND,
        title=_of_update(case, later, edges, lines) if later else _title(case, edges, lines),
        evidence=_evidence(case, edges, lines),
        proof=say(
            "it was given the same value on both sides"
            if len(edges) == 1
            else "all were given the same values on both sides"
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        a=frozenset(edge.x for edge in edges),
        b=frozenset(users),
        undo=undo,
    )


def _title(case: Case, edges: Sequence[Edge], lines: tuple[SourceLine, ...]) -> Message:
    taken = [_taken(case, edge) for edge in edges]
    if len(edges) == 1:
        return say(taken[0], at(lines))
    users = len({edge.y for edge in edges})
    number = say(count(users, "operation"), f" {'takes' if users == 1 else 'take'} other values")
    return say(number, at(lines), ": ", join(taken, between="; "))


def _takes_updated(case: Case, edges: Sequence[Edge]) -> SideView | None:
    """The side that uses new values of inputs where the other one uses the inputs as they came."""
    late = uses_after_update(case, edges)
    views = {late[edge].side: late[edge] for edge in edges if edge in late}
    is_one = len(late) == len({*edges}) and len(views) == 1
    return next(iter(views.values())) if is_one else None


def _of_update(
    case: Case, later: SideView, edges: Sequence[Edge], lines: tuple[SourceLine, ...]
) -> Message:
    """``B uses input 3 (f32[8,4]) after its update, A before it: at add in B``."""
    names = _updated(case, edges, MAX_TENSORS)
    number = count(len({edge.y for edge in edges}), "operation")
    which = "its update" if len(edges) == 1 else "their update"
    told = (f" after {which}, ", later.side.other, " before it, in ", number, at(lines))
    return say(later.side, " uses ", names, *told)


def _updated(case: Case, edges: Sequence[Edge], most: int) -> Message:
    """The inputs of A that one side uses as they came."""
    a, b = case.a, case.b
    inputs = {
        edge.p if edge.p in a.module.entry_computation.parameters else b.partners[edge.q]
        for edge in edges
    }
    return join([parameter_name(a, p) for p in sorted(inputs)], most)


def _of_other_updates(case: Case) -> Words:
    """What is said where each side updates tensors that the other one only reads; else nothing."""
    only = {view.side: _updates_alone(view, other) for view, other in case.both_ways}
    if not all(only.values()):
        return Words()
    told = [
        say(join([parameter_name(view, p) for p in only[view.side]], 1), " in ", view.side)
        for view in (case.a, case.b)
    ]
    return Words(UPDATES_FIX, say(OTHER_UPDATES, join(told, 2, ", ")), UPDATES_SHORT_FIX)


def _updates_alone(view: SideView, other: SideView) -> list[int]:
    """The tensors, by instruction, that this side updates and the other one only reads."""
    theirs = frozenset(_updates(other))
    paired = (p for p in _updates(view) if view.partners[p] >= 0)
    return [p for p in paired if view.partners[p] not in theirs]


def _updates(view: SideView) -> list[int]:
    """The inputs that give their buffers away, or else those whose new values are given back."""
    module, given = view.module, given_away(view.module)
    parameters = module.entry_computation.parameters
    updated = [parameters[n] for n in sorted(given)] if given else sorted(renewed(module))
    return [p for p in updated if not bare_shape(module, p).endswith("[]")]


def _lines(view: SideView, users: Iterable[int]) -> tuple[SourceLine, ...]:
    members = sorted(users)
    called = called_at(view.module, members)
    is_own = len(called) == 1 and not called[0].is_library
    return (within_step(view, members, called[0]),) if is_own else called


def _evidence(
    case: Case, edges: Sequence[Edge], lines: tuple[SourceLine, ...]
) -> tuple[Evidence, ...]:
    """The operations, each with what it takes."""
    a, b = case.a, case.b
    each = tuple(
        Evidence(
            say(
                "both sides have both; " if len(edges) == 1 else "",
                f"operand {edge.place} of ",
                HloName(b.module.names[edge.y], b.module.opcodes[edge.y]),
            ),
            (edge.x, edge.p),
            (edge.y, edge.q),
            where(b.module, [edge.y]) or where(a.module, [edge.x]),
        )
        for edge in edges[:MAX_CITED]
    )
    if len(edges) == 1:
        return each
    taken = count(len({(edge.p, edge.q) for edge in edges}), "value")
    return (
        Evidence(say(f"{taken} exchanged for others that both sides have"), sources=lines),
        *each,
    )


def _taken(case: Case, edge: Edge) -> Message:
    """``dot takes input 7 (f32[8,4]) in B and input 3 (f32[8,4]) in A``."""
    a, b = case.a, case.b
    opcode, own, other = b.module.opcodes[edge.y], _name(b, edge.q), _name(a, edge.p)
    return say(opcode, " takes ", own, " in ", b.side, " and ", other, " in ", a.side)


def _name(view: SideView, i: int) -> Message:
    module = view.module
    if i in module.entry_computation.parameters:
        return parameter_name(view, i)
    return say(HloName(module.names[i], module.opcodes[i]), f" ({short_shape(module, i)})")


RULE = Rule(
    name="other-operand",
    kinds=(OTHER_OPERAND,),
    find=find,
    after=("replaced-subgraph",),
    before=("extra-effect",),
    first_round_only=True,
)
