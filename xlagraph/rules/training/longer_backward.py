"""Gradients that one side sends further back through values that the other detaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, is_forward, knows_lines, where
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.pieces.pieces import OUTPUT, Edge, open_edges
from xlagraph.facts.training.cotangents import (
    Reach,
    affected,
    gradients_taken,
    is_gradient,
    leaves,
    reach_of,
)
from xlagraph.facts.training.further_gradients import gives_as_much, is_derived
from xlagraph.facts.training.gradient_losses import gradient_loss
from xlagraph.facts.training.gradients import PRODUCTS
from xlagraph.facts.training.mirrored import images, mirrored
from xlagraph.facts.training.updates import formula, updates
from xlagraph.facts.values.scalars import is_one
from xlagraph.facts.values.vanishing import is_zero, vanishing
from xlagraph.message import HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

LONGER_BACKWARD = Kind(
    id="longer-backward",
    title="Gradients flow further on one side",
    section=Section.PIECES,
    meaning="A value is detached on one side and not on the other: the state of a recurrent net "
    "between two segments, a target, an advantage. All values of the forward pass are equal, "
    "but the backward pass goes on through it, and the gradients of what it was computed from have "
    "more terms. So the training differs, too.",
    before="""\
for step, (x, y) in enumerate(loader):
    hidden = torch.relu(model[0](x))
    scale = torch.sigmoid(hidden.mean(1, keepdim=True))
    if step < 4:
        scale = scale.detach()
    update(loss_fn(model[2](hidden * scale), y))
""",
    after="""\
for step, (x, y) in enumerate(loader):
    hidden = torch.relu(model[0](x))
    scale = torch.sigmoid(hidden.mean(1, keepdim=True)).detach()
    update(loss_fn(model[2](hidden * scale), y))
""",
    evidence="The tensors whose gradients have more terms, and the value at which both sides part.",
    fix="Cut the gradient at the same place in every step, or in none: .detach(), torch.no_grad() "
    "or requires_grad=False stands there on one side only (in JAX jax.lax.stop_gradient). Which of "
    "both is meant is the algorithm's choice: their gradients are not the same.",
    proof="The further terms of the gradients are left out.",
    examples=("detach_late", "state_kept", "advantage_kept"),
    family=Family.BRANCH,
    consequences=("newly-updated",),
    short="Gradients flow further in some steps",
    short_fix="Detach the value in every step, or in none.",
    is_piece=True,
    may_grow=True,
    may_be_meant=True,
)
MAX_TERMS = 1000
"""Additions that are looked into for the sum of a gradient that the other side has."""


@dataclass(frozen=True, slots=True, eq=False)
class Longer:
    """A piece that only adds terms to gradients."""

    found: Bypass
    reach: Reach
    gradients: frozenset[int]
    """What it takes in from the backward pass that both sides have."""
    mirrors: tuple[int, ...] = ()
    """Values whose distance from others is a loss, which gradients reach on this side alone."""

    @property
    def starts(self) -> list[int]:
        """The instructions of the piece that take these in."""
        operands = self.found.more.module.operands
        return sorted(i for i in self.found.piece if not self.gradients.isdisjoint(operands[i]))


def find(case: Case) -> list[Finding]:
    """Pieces that compute further terms of gradients from gradients that both sides have.

    Where another piece changes the forward pass, or what its gradients begin with, that is the
    reason, and these terms follow from it, unless lines tell that the forward pass has something
    else there on the other side. So it is where they take in other tensors, and where they are of a
    loss of gradients that one side alone has.
    """
    if any(_takes_in_more(view) or _has_penalty(view) for view in (case.a, case.b)):
        return []
    found = [longer for one in bypasses(case) if (longer := _longer(one))]
    known = {edge for longer in found for edge in longer.found.uses}
    others = [edge for edge in open_edges(case) if edge not in known] if found else []
    return [
        _finding(longer)
        for longer in found
        if not _changes_more(longer, others) or _is_beside(case, longer, others)
    ]


def _is_beside(case: Case, longer: Longer, edges: Sequence[Edge]) -> bool:
    """Whether further terms are derivatives beside an edit that gives as much on both sides.

    A term more in the forward pass would have derivatives as well.
    """
    module, piece = longer.found.more.module, longer.found.piece
    if not (knows_lines(case.diff.a) and knows_lines(case.diff.b)):
        return False
    is_behind = all(is_derived(module, i) for i in piece)
    lone = case.diff.removed, case.diff.added
    return is_behind and gives_as_much(case, longer.found.more, edges, lone)


def _takes_in_more(view: SideView) -> bool:
    """Whether a side has a tensor of its own among its inputs that nothing tells of yet."""
    module, lone = view.module, set(view.open_lone())
    inputs = lone.intersection(module.entry_computation.parameters)
    return any(not module.shapes[i].endswith("[]") for i in inputs)


def _has_penalty(view: SideView) -> bool:
    """Whether what a side alone computes is a loss of gradients, with its derivatives."""
    return gradient_loss(view.module, view.open_lone()) is not None


def _changes_more(longer: Longer, edges: Sequence[Edge]) -> bool:
    """Whether these uses of other values reach more than final gradients and new values."""
    view, final = longer.found.more, longer.reach.final
    users = {edge.user(view) for edge in edges} - {view.module.entry_computation.root}
    reached = affected(view.module, users, final) - final
    reached.update({edge.value(view) for edge in edges if edge.place == OUTPUT} - final)
    is_further = any(view.module.opcodes[i] in PRODUCTS for i in reached)
    return is_further or not reached.isdisjoint(view.module.outputs)


def _longer(found: Bypass) -> Longer | None:
    view, uses = found.more, found.uses
    module = view.module
    terms = {
        edge.value(view): _further_terms(found, edge.value(view), v) for edge, v in uses.items()
    }
    further = {term for several in terms.values() for term in several}
    if not all(terms.values()):
        return None
    users = {edge.user(view) for edge in uses if edge.place != OUTPUT}
    reach = reach_of(view, users, {edge.value(view): old for edge, old in uses.items()})
    if reach is None or _takes(found, further, reach.final.intersection(uses.values())):
        return None
    turned = _images(view, found.piece, reach)
    gradients = gradients_taken(view, found.piece, reach).union(turned)
    taken = further & gradients
    left = further - taken - vanishing(module, found.piece, gradients)
    mirrors = _mirrors(view, left, reach)
    if len(mirrors) < len(left):
        return None
    return Longer(
        found, reach, frozenset(gradients), tuple(sorted({*mirrors.values(), *turned.values()}))
    )


def _images(view: SideView, piece: Collection[int], reach: Reach) -> dict[int, int]:
    """What is a gradient by one value of a difference, where both sides have that by the other.

    Each with the value that it is by.
    """
    found = images(view.module, piece)
    return {
        i: found.value
        for i, alike in found.alike.items()
        if found.value is not None
        and any(view.partners[k] >= 0 and is_gradient(view.module, k, reach) for k in alike)
    }


def _mirrors(view: SideView, terms: Collection[int], reach: Reach) -> dict[int, int]:
    """The terms that both sides have by the other value of a difference, each with its own one."""
    return {
        term: one.value
        for term in terms
        for one in mirrored(view.module, term)
        if view.partners[one.other] >= 0 and is_gradient(view.module, one.other, reach)
    }


def _further_terms(found: Bypass, value: int, old: int) -> list[int]:
    """What a sum of the piece adds to the other side's value; empty if it is no such sum.

    Where the other side has zeros all of it is more.
    """
    module = found.more.module
    if is_zero(module, old):
        return [value]
    terms, stack = [], [value]
    for i in stack:  # grows while it is read
        if i in found.piece and module.opcodes[i] == "add" and len(stack) < MAX_TERMS:
            stack += module.operands[i]
        elif i in found.piece and (factors := _without_one(found, i)):
            stack += factors
        else:
            terms.append(i)
    return [i for i in terms if i != old] if terms.count(old) == 1 else []


def _without_one(found: Bypass, i: int) -> list[int]:
    """What a product with 1 multiplies: torch lowers the factor of a sum to one."""
    module = found.more.module
    if module.opcodes[i] != "multiply":
        return []
    x, y = module.operands[i]
    return [x] if is_one(module, y) else [y] if is_one(module, x) else []


def _takes(found: Bypass, terms: set[int], old: Collection[int]) -> bool:
    """Whether further terms are computed from final gradients that they are added to.

    What scales or centres gradients does that; a backward pass has gone on by then.
    """
    module, stack, seen = found.more.module, list(terms), set(terms)
    for i in stack:  # grows while it is read
        if i in old and not is_zero(module, i):
            return True
        below = [o for o in module.operands[i] if i in found.piece and o not in seen]
        seen.update(below)
        stack += below
    return False


def _finding(longer: Longer) -> Finding:
    found, module = longer.found, longer.found.more.module
    more, less = found.more.side, found.less.side
    value = _parting(longer)
    lines = where(module, longer.starts) or found.lines
    lines = lines or where(module, [] if value is None else [value]) or _carried(longer)
    title = say(
        "gradients flow further in ",
        more,
        " than in ",
        less,
        at(lines),
        "" if value is None else say(", through ", _named(module, value)),
        ": ",
        _more_terms(longer),
    )
    alone = (" goes into the backward pass as what gradients flow through, in ", more, " alone")
    evidence = (
        () if value is None else (Evidence(say(_named(module, value), *alone), (), (), lines),)
    )
    return bypass_finding(found, LONGER_BACKWARD, title, *evidence, lines=lines)


def _carried(longer: Longer) -> tuple[SourceLine, ...]:
    """Where the forward pass makes the next value of a tensor, which it uses, and no gradient does.

    What is computed with gradients is an optimizer's new value, and an average that nothing uses
    carries none.
    """
    view, weights = longer.found.more, set(longer.reach.weights)
    module, backward = view.module, longer.found.piece | longer.gradients
    root, positions = module.entry_computation.root, updates(view.module)
    values = {
        module.outputs[k]
        for p in module.entry_computation.parameters
        if (tensor := view.input_tensor(p)) and not tensor.is_optimizer_state
        for k in positions.get(p, ())
        if view.context.outputs.get(k) == tensor
    }
    carried = [
        i
        for i in sorted(values)
        if set(module.users[i]) - {root}
        and not (made := formula(module, i)).isdisjoint(weights)
        and made.isdisjoint(backward)
    ]
    return tuple(line for line in where(module, carried) if is_forward(line))


def _more_terms(longer: Longer) -> Message:
    weights = longer.reach.weights
    if not weights:
        values = count(len(set(longer.found.uses.values())), "gradient")
        return say(f"further terms of {values}")
    named = join(parameter_name(longer.found.more, p) for p in weights)
    return say(f"further terms of the gradients of {count(len(weights), 'tensor')} (", named, ")")


def _parting(longer: Longer) -> int | None:
    """The forward value that gradients go on to on one side alone."""
    module, piece, forward = longer.found.more.module, longer.found.piece, longer.reach.forward
    if longer.mirrors:
        return longer.mirrors[0]
    values = (leaves(module, gradient, piece, forward) for gradient in sorted(longer.gradients))
    return next((value for value in values if value is not None), None)


def _named(module: Module, value: int) -> Message:
    name = HloName(module.names[value], module.opcodes[value])
    return say(name, f" ({short_shape(module, value)})")


RULE = Rule(
    name="longer-backward",
    kinds=(LONGER_BACKWARD,),
    find=find,
    after=("exchanged-inputs",),
    before=("repeated-pass",),
)
