"""Values that one side scales, or cuts off, before both use them: clipped gradients."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.pieces.pieces import OUTPUT
from xlagraph.facts.values.scalars import SPREADS, is_number, is_one, through
from xlagraph.message import count, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.graph import Module
    from xlagraph.message import Message

CLIPPING = Kind(
    id="clipping",
    title="Values are clipped on one side only",
    section=Section.PIECES,
    meaning="Gradients are clipped in some steps only: by their norm, so that each is multiplied "
    "by one number computed from all of them, or by value. A Python if that asks for a norm above "
    "a limit reads it first, which costs a graph and a wait of its own.",
    before="""\
for step, (x, y) in enumerate(loader):
    loss_fn(model(x), y).backward()
    if step >= 4:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    after="""\
for step, (x, y) in enumerate(loader):
    loss_fn(model(x), y).backward()
    limit = 0.5 if step >= 4 else 1e30  # a number of the graph: it may change
    torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    evidence="What computes the number, and what it scales.",
    fix="Clip in every step, with a limit that changes nothing where none is wanted (1e30): a "
    "Python number other than 0, 1 and -1 is a parameter of the graph, and may change.",
    proof="What scales the values is bypassed.",
    examples=("clip_late", "clip_value_late", "clip_in_python", "momentum_clipped"),
    family=Family.BRANCH,
    consequences=("output-order",),
    short="Values are clipped in some steps only",
    short_fix="Clip in every step, with a limit of 1e30 elsewhere.",
    is_piece=True,
    may_be_meant=True,
)
BY_NORM = "scales {} by a number computed from all of them, as clipping by a norm does"
UNUSED = (
    " scales nothing by it: clip in every step, between backward() and the update, with a limit of "
    "1e30 where none is wanted. Clipping that is called after the update changes nothing that is "
    "used."
)
NORM_SHORT = say("gradients are clipped by their norm in some steps only")
BY_READ = "scales {} by one number, as clipping by a norm read before does"
SCALED_SHORT = say("values are scaled by one number in some steps only")
SCALED_FIX = say("Scale, or clip, in every step; a limit of 1e30 changes nothing.")
BEFORE_UPDATE = say("Clip in every step, between backward() and the update.")
CUTS = frozenset({"clamp", "maximum", "minimum"})
SUMS = frozenset({"reduce", "all-reduce", "dot"})
KEEPS = frozenset({"convert", "copy", "bitcast", "reshape", "transpose"})
MAX_CUTS = 3
"""torch_xla's clamp is a maximum and a minimum."""
MAX_FACTORS = 4


def find(case: Case) -> list[Finding]:
    """Pieces that scale all they stand before by one number, or cut it off."""
    findings = []
    for found in _with_ones(bypasses(case)):
        if done := _scaled(found) or _cut(found):
            findings.append(_finding(found, done))
        elif (part := _scaling_part(found)) and _scaled(part) == BY_NORM:
            findings.append(_finding(part, BY_NORM))
    return findings


def _scaling_part(found: Bypass) -> Bypass | None:
    """What of a bypass scales values by one number, where no lines tell its reasons apart.

    A one that the other side multiplies by may stand where that number is.
    """
    module = found.more.module
    if found.lines:
        return None
    pairs = {edge.value(found.more): _differing(found, *_uses(found, edge)) for edge in found.uses}
    factors = {
        value: {_factor(module, *pair) for pair in of_value} for value, of_value in pairs.items()
    }
    numbers = Counter(one for several in factors.values() for one in several if one >= 0)
    number, times = next(iter(numbers.most_common(1)), (-1, 0))
    scaled = {value for value, several in factors.items() if several == {number}}
    return found.among(scaled) if times > 1 and is_number(module, number) else None


def _with_ones(found: list[Bypass]) -> list[Bypass]:
    """The pieces, with products by one taken into the clipping whose scaling they stand for.

    An update multiplies by its ``alpha`` of one: paired with that product is the first one of the
    other side, by the norm, and what that side seems to have more is the product by one.
    """
    homes = [one for one in found if _number_for_one(one) >= 0]
    first = next((one for one in homes if _scaled(one) == BY_NORM), None)
    if first is None:
        return found
    parts = [
        one
        for one in found
        if one.more is first.more
        and (_is_of_ones(one) or _number_for_one(one) == _number_for_one(first))
    ]
    whole = replace(
        first,
        uses={edge: old for one in parts for edge, old in one.uses.items()},
        piece=frozenset().union(*(one.piece for one in parts)),
        turned=frozenset().union(*(one.turned for one in parts)),
    )
    return [whole, *(one for one in found if one not in parts)]


def _is_of_ones(found: Bypass) -> bool:
    """Whether a piece multiplies by one, and does nothing else."""
    module = found.more.module
    uses = found.uses.items()
    return all(_is_times_one(module, edge.value(found.more), old) for edge, old in uses)


def _number_for_one(found: Bypass) -> int:
    """The number that stands where the other side has a one; -1 if a piece is more than that."""
    module = found.more.module
    uses = [(edge.value(found.more), old) for edge, old in found.uses.items()]
    pairs = [(value, old) for value, old in uses if not _is_times_one(module, value, old)]
    is_number_for_one = all(is_one(module, old) and is_number(module, v) for v, old in pairs)
    numbers = {through(module, v, SPREADS) for v, _ in pairs}
    return numbers.pop() if is_number_for_one and len(numbers) == 1 else -1


def _multiplied(found: Bypass) -> set[int]:
    """What a number is multiplied with, where it stands in place of a one."""
    module, number = found.more.module, _number_for_one(found)
    stack, values = [number] if number >= 0 else [], set[int]()
    while stack:
        i = stack.pop()
        for user in module.users[i]:
            if module.opcodes[user] in SPREADS:
                stack.append(user)
            elif module.opcodes[user] == "multiply":
                values |= {through(module, o, KEEPS) for o in module.operands[user] if o != i}
    return values


def _finding(found: Bypass, done: str) -> Finding:
    """The finding; with words of its own where both sides compute the norm, and one scales."""
    module = found.more.module
    finding = bypass_finding(found, CLIPPING, _title(found, done))
    is_of_many = done == BY_NORM and len(_scaled_values(found)) > 1
    short = NORM_SHORT if is_of_many else say()
    finding = replace(
        finding, short=short, brings=partial(_brings, found), undo=partial(_undo, found)
    )
    if done == BY_READ:
        return replace(finding, short=SCALED_SHORT, short_fix=SCALED_FIX, fix=say(CLIPPING.fix))
    if done != BY_NORM or any(module.opcodes[i] in SUMS for i in found.piece):
        return finding
    fix = say("Both compute the norm, and ", found.less.side, UNUSED)
    return replace(finding, fix=fix, short_fix=BEFORE_UPDATE)


def _undo(found: Bypass, edit: Editors) -> None:
    """Connects the values directly; where a number stands in place of a one, at all its uses."""
    module = found.more.module
    found.undo(edit)
    if _number_for_one(found) >= 0:
        ones = {edge.value(found.more): old for edge, old in found.uses.items()}
        edit[found.more.side].replace_uses({v: o for v, o in ones.items() if is_one(module, o)})


def _brings(found: Bypass, finding: Finding, _diff: Diff) -> bool:
    """Whether outputs stand in another order as the clipped values are new tensors among them."""
    return finding.reorders and any(edge.place == OUTPUT for edge in found.uses)


def _scaled_values(found: Bypass) -> set[int]:
    """What the other side uses as it is, or multiplies by one."""
    module = found.more.module
    pairs = (_differing(found, *_uses(found, edge)) for edge in found.uses)
    old = {through(module, old, KEEPS) for pair in pairs for _, old in pair}
    return _multiplied(found) or old


def _scaled(found: Bypass) -> str:
    """How every value is the old one times a number; empty if it is not."""
    module = found.more.module
    uses = [pair for edge in found.uses for pair in _differing(found, *_uses(found, edge))]
    scaled = [(value, old) for value, old in uses if not _is_times_one(module, value, old)]
    factors = {_factor(module, value, old) for value, old in scaled}
    old = {through(module, o, KEEPS) for _, o in scaled if not is_one(module, o)}
    old = old or _multiplied(found)
    if not factors or not all(factor >= 0 and is_number(module, factor) for factor in factors):
        return ""
    if all(_sums(found, factor, old) for factor in factors):
        return BY_NORM
    if not found.piece.issuperset(factors):
        return ""
    numbers = {_numbers(found, factor) for factor in factors}
    is_read = len(numbers) == 1 and any(_is_read(found, i) for i in numbers.pop())
    is_clipped = len(old) > 1 and is_read
    return BY_READ if is_clipped else ""


def _uses(found: Bypass, edge: Edge) -> tuple[int, int]:
    """A value of the piece, and what it may be made of; outputs may stand in another order."""
    value, old = edge.value(found.more), found.uses[edge]
    if edge.place != OUTPUT or _is_scaling(found, value, old):
        return value, old
    others = (other for one, other in found.uses.items() if one.place == OUTPUT)
    return value, next((other for other in others if _is_scaling(found, value, other)), old)


def _differing(found: Bypass, value: int, old: int) -> Iterator[tuple[int, int]]:
    """The values that are scaled, of two that may be made of them alike: of squares the roots.

    The square of a gradient goes into a moment, and that of the unscaled one into the norm.
    """
    module = found.more.module
    below, below_old = module.operands[value], module.operands[old]
    is_alike = module.opcodes[value] == module.opcodes[old] and len(below) == len(below_old)
    pairs = [pair for pair in zip(below, below_old, strict=False) if pair[0] != pair[1]]
    is_made = is_alike and pairs and all(_is_scaling(found, *pair) for pair in pairs)
    yield from dict.fromkeys(pairs) if is_made else [(value, old)]


def _is_scaling(found: Bypass, value: int, old: int) -> bool:
    factor = _factor(found.more.module, value, old)
    return factor >= 0 and is_number(found.more.module, factor)


def _is_read(found: Bypass, i: int) -> bool:
    """Whether a number may be a norm, read before: an input that the other side does not have.

    A fixed number is none (the elements of a mean), nor is one that both sides go by, as the steps
    of a bias correction.
    """
    return is_input(found.more.module, i) and found.more.partners[i] < 0


def _is_times_one(module: Module, value: int, old: int) -> bool:
    """Whether `value` is `old` times one, as with an update's `alpha`: nothing is scaled.

    The product by one that the other side has too stands where this side's scaling is.
    """
    factor = _factor(module, value, old)
    return factor >= 0 and not is_one(module, old) and is_one(module, factor)


def _factor(module: Module, value: int, old: int) -> int:
    """What `old` is multiplied or divided by to give `value`; -1 if it is not.

    In place of a one stands the number itself by which something is scaled. It may also be scaled
    by more than one number, and only where a norm is above a limit.
    """
    if is_one(module, old) and is_number(module, value):
        return through(module, value, SPREADS)
    value, old = through(module, value, KEEPS), through(module, old, KEEPS)
    for _ in range(MAX_FACTORS):
        below = module.operands[value]
        if _is_choice(module, value):
            others = [o for o in below[1:] if through(module, o, KEEPS) != old]
            if len(others) != 1:
                return -1
            value = through(module, others[0], KEEPS)
            continue
        if module.opcodes[value] not in ("multiply", "divide"):
            return -1
        x, y = below
        if through(module, x, KEEPS) == old:
            return through(module, y, SPREADS)
        if module.opcodes[value] == "multiply" and through(module, y, KEEPS) == old:
            return through(module, x, SPREADS)
        if not is_number(module, y):
            return -1
        value = through(module, x, KEEPS)
    return -1


def _is_choice(module: Module, i: int) -> bool:
    """Whether one of two values is chosen; by `jnp.where` in a computation of its own."""
    callees = module.callees.get(i, ()) if module.opcodes[i] == "call" else ()
    ends = [module.computations[callee].root for callee in callees] or [i]
    return len(module.operands[i]) == 3 and all(module.opcodes[end] == "select" for end in ends)


def _sums(found: Bypass, factor: int, old: set[int]) -> bool:
    """Whether a number is computed, by sums, from all of these values: both sides may have them."""
    module, stack, seen = found.more.module, [factor], {factor}
    left, is_sum = set(old), False
    while stack and left:
        i = stack.pop()
        is_sum = is_sum or module.opcodes[i] in SUMS
        below = set(module.operands[i]) - seen
        ends = {o for o in below if through(module, o, KEEPS) in old}
        left -= {through(module, o, KEEPS) for o in ends}
        stack += below - ends
        seen |= below
    return is_sum and not left


def _numbers(found: Bypass, factor: int) -> frozenset[int]:
    """What a number of the piece is computed from: inputs, and what both sides have."""
    module, stack, seen = found.more.module, [factor], {factor}
    while stack:
        below = [o for o in module.operands[stack.pop()] if o not in seen]
        stack += [o for o in below if o in found.piece]
        seen.update(below)
    ends = (i for i in seen if not module.operands[i] or i not in found.piece)
    return frozenset(i for i in ends if module.opcodes[i] != "constant")


def _cut(found: Bypass) -> str:
    """Whether every value is the old one cut off at a number, in words."""
    module = found.more.module
    ends = ((edge.value(found.more), old) for edge, old in found.uses.items())
    return (
        "cuts {} off, as clipping by value does" if all(_is_cut(module, *e) for e in ends) else ""
    )


def _is_cut(module: Module, value: int, old: int) -> bool:
    old, cuts = through(module, old, KEEPS), 0
    value = through(module, value, KEEPS)
    while value != old and module.opcodes[value] in CUTS and cuts < MAX_CUTS:
        whole = [o for o in module.operands[value] if not is_number(module, o)]
        value, cuts = through(module, whole[0] if whole else value, KEEPS), cuts + 1
    return value == old and cuts > 0


def _title(found: Bypass, done: str) -> Message:
    more, less = found.more.side, found.less.side
    number = count(len(_scaled_values(found)), "value")
    text = f" {done.format(number)}, and "
    return say(more, text, less, " does not: ", found.words, at(found.lines))


RULE = Rule(
    name="clipping",
    kinds=(CLIPPING,),
    find=find,
    after=("optimizer-option",),
)
