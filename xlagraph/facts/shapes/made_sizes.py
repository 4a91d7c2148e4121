"""Where sizes begin to differ of values that both have: groups, heads, the axis of a mean."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.cause.names import attribute_changes, short_shape
from xlagraph.facts.training.gradients import FORMS, through_forms
from xlagraph.facts.values.reductions import reduction_name
from xlagraph.facts.values.scalars import number_of
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import Change, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

WITH_OPTIONS = frozenset({"convolution", "dot", "reduce", "reduce-window", "concatenate"})
"""What gives another shape of the same operands by an option that the program writes."""
GROUPS = "values are divided into other groups"
ALONG = "values are spread along another axis"
NORM_GROUPS = "a normalisation's number of groups"
NORMALIZED = "a normalisation's number of values taken together"
HEADS = "the number of heads of an attention"
NORM = "batch-norm-training"
"""What torch_xla lowers every normalisation to; a reduce may be of a softmax as well."""
SPREADS = FORMS | {"broadcast", "slice"}
FIX = say("Keep this option of the layer the same in every step; each one is a graph.")


class Maker(NamedTuple):
    """The first instruction that gives other sizes of operands of the same sizes."""

    a: int
    b: int
    what: Message


def made_by(diff: Diff, pairs: Iterable[tuple[int, int]]) -> Maker | None:
    """Which of these pairs makes the sizes; None where Python may have computed them.

    A reshape that divides as many elements in another way, or an operation with other options.
    """
    found = ((x, y, _told(diff, x, y)) for x, y in sorted(pairs) if y >= 0)
    return next((Maker(x, y, told) for x, y, told in found if told), None)


def _told(diff: Diff, x: int, y: int) -> Message | None:
    a, b = diff.a, diff.b
    opcode, sizes, others = a.opcodes[x], _dimensions(a, x), _dimensions(b, y)
    taken = [_dimensions(a, o) for o in a.operands[x]]
    is_maker = sizes != others and taken == [_dimensions(b, o) for o in b.operands[y]]
    if opcode != b.opcodes[y] or not is_maker:
        return None
    if opcode == "reshape":
        return _divided(diff, x, y) if prod(sizes) == prod(others) else None
    changes = attribute_changes(a.attributes[x], b.attributes[y])
    if opcode == "reduce" and (name := reduction_name(a, x)):
        taken_of = short_shape(a, a.operands[x][0])
        return say(f"the {name} of {taken_of} is taken along other axes, ", changes)
    return say(f"{opcode} has other options, ", changes) if opcode in WITH_OPTIONS else None


def _divided(diff: Diff, x: int, y: int) -> Message:
    """What the parts are that both sides divide a value into, and how many there are."""
    (value,) = diff.a.operands[x]
    whole, old, new = _dimensions(diff.a, value), _dimensions(diff.a, x), _dimensions(diff.b, y)
    axes = [k for k, sizes in enumerate(zip(old, new, strict=False)) if sizes[0] != sizes[1]]
    is_pair = len(old) == len(new) and len(axes) == 2 and axes[1] == axes[0] + 1
    uses = [_uses(module, i) for module, i in ((diff.a, x), (diff.b, y))] if is_pair else []
    first, second = axes if is_pair else (0, 0)
    if is_pair and all((NORM, 0) in found for found in uses):
        prefixes = {prod(whole[:k]) for k in range(1, len(whole) + 1)}
        if prefixes.issuperset((old[first], new[first])) and whole[0] not in (1, old[first]):
            return _counted(NORMALIZED, old[second], new[second])
        rows = prod(whole[:first]) if old[:first] == (1,) * first and first else 1
        if old[first] % rows == new[first] % rows == 0:
            return _counted(NORM_GROUPS, old[first] // rows, new[first] // rows)
    if is_pair and all(
        ("dot", sizes[second]) in found for found, sizes in zip(uses, (old, new), strict=True)
    ):
        return _counted(HEADS, old[first], new[first])
    is_along = len(old) == len(new) and without_ones(old) == without_ones(new)
    return say(
        ALONG if is_along else GROUPS,
        ": ",
        Change(short_shape(diff.a, x), short_shape(diff.b, y), "became"),
    )


def without_ones(sizes: Iterable[int]) -> list[int]:
    """The sizes along which there is more than one value."""
    return [size for size in sizes if size != 1]


def _counted(what: str, old: int, new: int) -> Message:
    return say(what, ": ", Change(str(old), str(new), became="became"))


def _uses(module: Module, value: int) -> set[tuple[str, int]]:
    """What takes a value in, in whatever form; of products of two computed values the size summed.

    A product with a weight is a layer, which knows no heads.
    """
    found: set[tuple[str, int]] = set()
    stack = [value]
    while stack:
        i = stack.pop()
        for user in module.users[i]:
            opcode = module.opcodes[user]
            if opcode in SPREADS or _is_scaled(module, user):
                stack.append(user)
            elif opcode != "dot":
                found.add((opcode, 0))
            elif not any(is_input(module, through_forms(module, o)) for o in module.operands[user]):
                found.add((opcode, _summed(module, user, module.operands[user].index(i))))
    return found


def _is_scaled(module: Module, i: int) -> bool:
    factors = [number_of(module, o) is not None for o in module.operands[i]]
    return module.opcodes[i] in ("multiply", "divide") and any(factors)


def _summed(module: Module, product: int, place: int) -> int:
    """The size of what a product sums over."""
    key = ("lhs_contracting_dims", "rhs_contracting_dims")[place]
    axis = (module.attributes[product].get(key) or "").strip("{}")
    sizes = _dimensions(module, module.operands[product][place])
    return sizes[int(axis)] if axis.isdigit() else 0


def _dimensions(module: Module, i: int) -> tuple[int, ...]:
    return tuple(read_shape(module.shapes[i]).dimensions)
