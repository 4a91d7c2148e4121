"""Causes that are gradients which one side sends further, though both compute the same loss."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import mark
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.slices import IDLE, made_of
from xlagraph.cause.sources import is_forward, knows_lines, line_behind, line_of, where
from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.training.cotangents import affected
from xlagraph.facts.training.gradients import PRODUCTS
from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.notation import names_in
from xlagraph.facts.values.results import THROUGH
from xlagraph.facts.values.scalars import SPREADS, through
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, Code, HloName, count, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.shapes.sizes import ATTRIBUTE
from xlagraph.rules.training.clipping import CLIPPING
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.evaluate.alike import AlikeOutputs
    from xlagraph.graph import Module
    from xlagraph.message import Side, SourceLine

OWN = (*BRANCHES, OTHER_OPERAND, REORDERED_OPERANDS)
"""What further terms of gradients are told as, and what the loss is written otherwise as."""
MAX_INSTRUCTIONS = 20_000
"""Instructions of both up to which they are evaluated."""
MOST = 2
"""The side on which gradients flow further computes so many times more than the other alone."""
FEWEST = 5
"""Operations that further terms of gradients have at least: of fewer the rule of pieces tells."""
FEWEST_MORE = 3
"""The same of what is known to be of derivatives: two products and their sum."""
FURTHER = "gradients flow further"
"""What is said of such gradients first."""
MORE = "the backward pass computes more"
"""What is said of a piece that is known to be one of derivatives, however small it is."""
GENERAL = (
    "a gradient penalty",  # which would change the loss; second derivatives alone do not
    "a value is computed",
    "the same value is computed",
    "a piece is computed",
    "the loss is computed",
    "a piece of the loss is computed",
    MORE,
)
"""Words for pieces of which nothing else is known, or a formula alone."""
GRADIENTS_CUT = Code("create_graph=False or .detach()")
"""What cuts what is made of gradients: ``torch.autograd.grad`` has to be asked."""
SCALARS = ("f16[]", "bf16[]", "f32[]", "f64[]")


class Equal(NamedTuple):
    """What the single numbers are made of that both sides give out with the same values."""

    a: bytearray
    """One byte an instruction of A: 1 where such a number needs it."""
    b: bytearray


def with_detached(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of gradients that flow further on one side, of an equal loss.

    That no single piece need show: sums of gradients are written anew where they have more terms.
    So the values tell. Where the numbers that depend on products have the same values on both
    sides, and tensors that are made behind them have not, what one side computes more on the way to
    these can only be gradients that the other side cuts, or those of a term of the loss that is not
    given out.
    """
    main = next(iter(causes), None)
    kinds = (*BRANCHES, ACCUMULATION_COUNT)
    side = None if main is None or main.kind not in kinds else _side(diff, main)
    if main is None or side is None or not _is_general(main) or _is_edit(main, side):
        return list(causes)
    equal = _equal_as_written(diff, side) or _equal(diff)
    if equal is None or not _has_further(diff, side, equal):
        return list(causes)
    if main.kind is ACCUMULATION_COUNT and _has_data(diff, side, equal):
        return list(causes)
    told = _told(diff, side, equal, main)
    parts = [cause for cause in causes if cause is not main and _is_part(diff, cause, equal)]
    return merged([told if cause is main else cause for cause in causes], told, [told, *parts])


def cut_with(module: Module) -> Code:
    """What cuts gradients in the framework that a module comes from."""
    return Code("jax.lax.stop_gradient" if is_jitted(module) else ".detach() or no_grad()")


def _is_gradient(module: Module, value: int | None) -> bool:
    """Whether a value is made of derivatives, as forces and what is left of an equation are.

    Those have no line of their own where a module knows lines.
    """
    if value is None or not knows_lines(module):
        return False
    products = (i for i in made_of(module, value) if module.opcodes[i] in PRODUCTS)
    lines = map(partial(line_of, module), products)
    return any(line is None or line.backward_of for line in lines)


def _is_general(cause: Cause) -> bool:
    """Whether a cause says how something is computed, in whatever words, and not what it is."""
    return (
        str(cause.in_short).lower().startswith(GENERAL) or str(cause.in_short) == cause.kind.short
    )


def _is_edit(cause: Cause, side: Side) -> bool:
    """Whether formulas of the same values show that the side that computes less takes in more.

    What cuts gradients takes nothing in; it is another value, of a term that is not given out.
    """
    told = cause.in_short.code
    if len(told) != 2:
        return False
    more, less = (names_in(text) for text in (told if side is A else reversed(told)))
    return bool(less & more) and not less <= more


def _side(diff: Diff, main: Cause) -> Side | None:
    """The side that computes clearly more alone, if any does."""
    more_a, more_b = _work(diff.a, diff.removed), _work(diff.b, diff.added)
    is_more = str(main.in_short).lower().startswith(MORE)
    if max(more_a, more_b) < (FEWEST_MORE if is_more else FEWEST):
        return None
    return A if more_a >= MOST * more_b else B if more_b >= MOST * more_a else None


def _work(module: Module, lone: Collection[int]) -> int:
    return sum(module.opcodes[i] not in IDLE for i in lone)


def _behind(diff: Diff, side: Side, equal: Equal) -> set[int]:
    """What a side computes alone that no equal number needs."""
    lone, forward = (diff.removed, equal.a) if side is A else (diff.added, equal.b)
    return {i for i in lone if not forward[i]}


def _has_data(diff: Diff, side: Side, equal: Equal) -> bool:
    """Whether what a side computes alone takes in an array, or a part of one, that no loss needs.

    A further pass has a batch of its own; derivatives are made of what the loss is made of.
    """
    module, forward = (diff.a, equal.a) if side is A else (diff.b, equal.b)
    first = module.entry_computation.parameters
    behind = _behind(diff, side, equal)
    taken = {o for i in behind for o in module.operands[i] if o not in behind}
    return any(
        o in first and not forward[o] and not module.shapes[o].endswith("[]") for o in taken
    ) or any(module.opcodes[i] == "slice" and module.operands[i][0] in first for i in behind)


def _has_further(diff: Diff, side: Side, equal: Equal) -> bool:
    """Whether what a side computes alone can be terms of gradients.

    They take in values of the net that its loss is made of, or go into products of the backward
    pass. What an optimizer, or a clip, computes takes in gradients and weights, behind these.
    """
    module, forward = (diff.a, equal.a) if side is A else (diff.b, equal.b)
    behind = _behind(diff, side, equal)
    value = _parting(module, behind, forward)
    if value is not None and _has_product(module, value):
        return True
    return _goes_into_products(module, behind)


def _goes_into_products(module: Module, piece: Collection[int]) -> bool:
    starts = [i for i in piece if module.opcodes[i] not in IDLE]
    reached = affected(module, starts, {module.entry_computation.root})
    return any(module.opcodes[i] in PRODUCTS for i in reached)


def _equal(diff: Diff) -> Equal | None:
    """What equal numbers are made of, where both give out such, and other tensors behind them.

    Single numbers that are weights have gradients, and new values, that differ as those of others.
    """
    a, b = diff.a, diff.b
    numbers = _numbers(a)
    if not numbers or len(a) + len(b) > MAX_INSTRUCTIONS or _renewed(a) != _renewed(b):
        return None
    found = _alike_outputs(diff)
    if found is None:
        return None
    equal = {k: n for k in numbers if (n := found.partners[k]) is not None and found.telling[k]}
    weights = sum(_is_number(a, p) and _is_added_to(a, p, k) for p, k in renewed(a).items())
    further = (k for k in range(len(a.outputs)) if found.telling[k] and k not in equal)
    is_less = any(found.partners[k] is None for k in further)
    if not equal or len(numbers) - len(equal) > 2 * weights or not is_less:
        return None
    forward = _made_of(diff, equal)
    sides = (
        (a, forward.a, diff.differing_in_a),
        (b, forward.b, diff.differing_in_b),
    )
    for (module, needed, differing), one_way in zip(sides, found.one_way, strict=True):
        if any(needed[i] for i in differing.intersection(_fixed(module, one_way))):
            return None
    return forward


def _numbers(module: Module) -> list[int]:
    """The positions of the numbers that a module gives out and computes by products."""
    values = enumerate(module.outputs)
    return [k for k, v in values if _is_number(module, v) and _has_product(module, v)]


def _made_of(diff: Diff, equal: Mapping[int, int]) -> Equal:
    """What these outputs are made of, A's positions with B's."""
    forward = Equal(bytearray(len(diff.a)), bytearray(len(diff.b)))
    mark(diff.a, forward.a, [diff.a.outputs[k] for k in equal])
    mark(diff.b, forward.b, [diff.b.outputs[n] for n in equal.values()])
    return forward


def _equal_as_written(diff: Diff, side: Side) -> Equal | None:
    """The same where nothing that the numbers are made of differs in writing, but terms behind it.

    Values may not tell: of a weight that is 0 far from where it counts the gradient is 0 too. What
    scales gradients, as a clip does, gives products, and cuts no term.
    """
    a, b = diff.a, diff.b
    numbers = _numbers(a)
    partners = {slot.a: slot.b for slot in diff.outputs if slot.a in numbers}
    both = {k: n for k, n in partners.items() if k is not None and n is not None}
    if not numbers or len(both) < len(numbers) or _renewed(a) != _renewed(b):
        return None
    forward = _made_of(diff, both)
    sides = (forward.a, diff.differing_in_a), (forward.b, diff.differing_in_b)
    if any(needed[i] for needed, differing in sides for i in differing):
        return None
    module, behind = (a if side is A else b), _behind(diff, side, forward)
    given = [i for i in behind if not behind.issuperset(module.users[i])]
    ends = {module.opcodes[through(module, i, SPREADS)] for i in given}
    return forward if ends and ends <= {"add", "subtract"} else None


def _is_added_to(module: Module, number: int, outputs: Iterable[int]) -> bool:
    """Whether something is added to a number, scaled perhaps, in one of these outputs.

    A loss is multiplied with a number that is no weight.
    """
    front = [module.outputs[k] for k in outputs]
    for i in front:  # grows while it is read
        operands = module.operands[i]
        if i == number or (module.opcodes[i] == "multiply" and number in operands):
            return i not in module.outputs
        if module.opcodes[i] in ("add", "subtract", "convert"):
            front += (o for o in operands if o not in front)
    return False


def _fixed(module: Module, one_way: frozenset[int]) -> list[int]:
    """What depends on inputs by comparisons alone that had one outcome; linear."""
    entry = module.entry_computation
    free, told = bytearray(len(module)), bytearray(len(module))
    for i in range(entry.start, entry.stop) if one_way else ():
        above = module.operands[i]
        is_free = module.opcodes[i] == "parameter" or any(free[o] for o in above)
        told[i] = any(told[o] for o in above) or (is_free and i in one_way)
        free[i] = is_free and i not in one_way
    return [i for i in range(entry.start, entry.stop) if told[i] and not free[i]]


def _is_number(module: Module, value: int) -> bool:
    return bare_shape(module, value) in SCALARS


def _alike_outputs(diff: Diff) -> AlikeOutputs | None:
    from xlagraph.evaluate.alike import alike_outputs  # numpy is loaded where it is needed

    return alike_outputs(diff)


def _has_product(module: Module, value: int) -> bool:
    return any(module.opcodes[i] in PRODUCTS for i in made_of(module, value))


def _renewed(module: Module) -> Counter[int]:
    """The sizes of the tensors that get new values: a frozen weight gets none."""
    inputs = (p for p in renewed(module) if not module.shapes[p].endswith("[]"))
    return Counter(read_shape(module.shapes[p]).elements for p in inputs)


def _is_part(diff: Diff, cause: Cause, equal: Equal) -> bool:
    """Whether a cause is of the loss, written otherwise, or of what goes into its gradients.

    Gradients that are given out stand in another form where they have more terms.
    """
    if cause.kind is ATTRIBUTE:  # of a sum among the derivatives, of one side at least
        return not (any(equal.a[i] for i in cause.a) and any(equal.b[i] for i in cause.b))
    if cause.kind is not CLIPPING:
        return cause.kind in (*OWN, LIVE_TENSOR)
    sides = (diff.a, cause.a, equal.a), (diff.b, cause.b, equal.b)
    return any(
        _goes_into_products(module, piece) or any(forward[i] for i in piece)
        for module, piece, forward in sides
    )


def _told(diff: Diff, side: Side, equal: Equal, main: Cause) -> Cause:
    """What is said of gradients that flow further, and where the other side cuts them."""
    module, forward = (diff.a, equal.a) if side is A else (diff.b, equal.b)
    behind = _behind(diff, side, equal)
    value = _parting(module, behind, forward)
    product = None if value is None else _product(module, value, behind, forward)
    value = value if product is None else product.factor
    named = (
        say(" at ", HloName(module.names[value], module.opcodes[value]))
        if value is not None
        else say("")
    )
    first = say(FURTHER, " in ", side, " than in ", side.other)
    short = say(
        first,
        ", which cuts them",
        named,
        ", as by ",
        GRADIENTS_CUT if _is_gradient(module, value) else cut_with(module),
        "; the numbers given out are the same, what gradients renew is not",
    )
    size = "" if value is None else f" {short_shape(module, value)}"
    title = say(
        first, named, size, ": ", count(len(behind), "instruction"), " more behind the loss"
    )
    lines = where(module, [value]) if value is not None and product is None else ()
    taken = () if value is None else [u for u in module.users[value] if forward[u]]
    taken = taken if product is None else [product.number]
    lines = lines if any(map(is_forward, lines)) else where(module, taken)
    if product is not None and not any(map(is_forward, lines)):  # it is a derivative itself
        lines = where(module, [product.factor])
    line = next((one for one in lines if is_forward(one)), None)
    alike = say(
        "the numbers that both give out are equal for equal inputs, and new values and gradients "
        "are not: the forward pass is the same, and what is sent back is not"
    )
    aside = say("a term of the loss that is not given out would look the same")
    place = main.place
    line = line or used_at(module, behind)
    if line is not None:
        place = replace(place, line=line, stack=(), source=(), is_near=True)
    cited = (Evidence(alike, sources=lines), Evidence(aside), *main.evidence)
    return replace(
        main, kind=LONGER_BACKWARD, title=title, short=short, evidence=cited, place=place
    )


def used_at(module: Module, own: Collection[int]) -> SourceLine | None:
    """The program's line of the forward pass that derivatives of one side alone go back to.

    They are made of the values that it computes with, of two of these where it can be told.
    """
    values = {
        form
        for i in own
        for o in module.operands[i]
        if o not in own and not module.shapes[o].endswith("[]")
        for form in (o, through(module, o, THROUGH))
    }
    users = dict.fromkeys(u for value in sorted(values) for u in module.users[value])
    told = [i for i in users if i not in own and _is_of_forward(module, i)]
    taken = {i: {through(module, o, THROUGH) for o in module.operands[i]} & values for i in told}
    of_two = sorted(i for i in told if len(taken[i]) > 1)
    lines = (line_behind(module, [i]) for i in (*of_two, *told))
    return next(filter(None, lines), None)


def _is_of_forward(module: Module, i: int) -> bool:
    line = line_of(module, i)
    return line is not None and not line.backward_of


class Product(NamedTuple):
    """A product of the forward pass, and the factor that gradients go on to."""

    number: int
    factor: int


def _product(
    module: Module, value: int, behind: Collection[int], forward: bytearray
) -> Product | None:
    """The product whose other factor has gradients on one side alone: they are made of this one.

    None where gradients of one side alone are made of both.
    """
    taken = {through(module, o, THROUGH) for i in behind for o in module.operands[i]}
    forms = [value]
    for form in forms:  # grows while it is read
        for user in module.users[form]:
            if forward[user] and module.opcodes[user] in THROUGH:
                forms.append(user)
            elif forward[user] and module.opcodes[user] == "multiply":
                factors = [through(module, o, THROUGH) for o in module.operands[user]]
                other = next((o for o in factors if o != value), value)
                if other != value and other not in taken and _is_computed(module, other):
                    return Product(user, other)
    return None


def _is_computed(module: Module, value: int) -> bool:
    """Whether a value is computed, of what the module takes in."""
    made = made_of(module, value)
    return len(made) > 1 and any(module.opcodes[i] == "parameter" for i in made)


def _parting(module: Module, behind: Collection[int], forward: bytearray) -> int | None:
    """The last value of the forward pass that gradients of one side alone are multiplied with.

    One that no gradient of both sides takes in comes first, and one made of another: there they go
    on, as into a target, and what is compared with it has its gradients on both sides.
    """
    values = {
        o
        for i in behind
        for o in module.operands[i]
        if forward[o] and module.opcodes[o] not in IDLE and module.opcodes[o] != "broadcast"
    }
    own = {o for o in values if all(forward[u] or u in behind for u in module.users[o])}
    found = sorted(own or values, reverse=True)
    told = (i for i in found if any(o in values and o != i for o in made_of(module, i)))
    return next(told, next(iter(found), None))
