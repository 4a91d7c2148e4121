"""Gradients that are clipped, in one module: by the norm of all, or each by value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape, clean
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.slices import made_of
from xlagraph.cause.sources import at, where
from xlagraph.facts.values.opcodes import ELEMENTWISE
from xlagraph.facts.values.ranges import axes_of
from xlagraph.facts.values.scalars import SPREADS, is_number, through
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import count, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from xlagraph.cause.case import SideView
    from xlagraph.cause.editor import Editors, ModuleEditor
    from xlagraph.cause.kinds import Kind
    from xlagraph.graph import Module
    from xlagraph.message import Message

Clipped = dict[int, int]
"""Tensors that are clipped, each with the one that it is made of."""
KEEPS = frozenset({"convert", "copy", "bitcast", "reshape", "transpose"})
SCALES = frozenset({"multiply", "divide"})
SUMS = frozenset({"reduce", "all-reduce", "dot"})
ROOTS = frozenset({"sqrt", "rsqrt", "power"})
FOLLOW = ELEMENTWISE | KEEPS | {"select"}
MAX_UP = 3
"""Steps from a gradient over its norm to what is used: times a limit, and only above that."""


def by_norm(module: Module) -> Clipped:
    """What is clipped by the norm of several tensors, and the tensor that it is made of."""
    groups: dict[int, dict[int, int]] = {}
    for i in _entry(module):
        if module.opcodes[i] in SCALES and not is_number(module, i):
            for value, factor in _factors(module, i):
                groups.setdefault(through(module, factor, SPREADS), {})[i] = value
    found: Clipped = {}
    for number, of in groups.items():
        if len(of) > 1 and _is_norm(module, number, of):
            found |= {_end(module, i, value): value for i, value in of.items()}
    return found


def by_value(module: Module) -> Clipped:
    """What is cut off at two numbers, and the tensor that it is made of."""
    cuts = {i: value for i in _entry(module) if (value := _cut(module, i)) >= 0}
    return {i: value for i, value in cuts.items() if not is_number(module, i)}


def sizes(module: Module, i: int) -> tuple[int, ...]:
    """The sizes of a tensor, in whatever order its dimensions stand."""
    return tuple(sorted(read_shape(clean(module.shapes[i])).dimensions))


class Form(NamedTuple):
    """A view of a clipped tensor: what it is made of, and how its dimensions stand there."""

    of: int
    order: str
    """Empty where they stand as in the tensor."""


def forms(module: Module, clipped: Clipped) -> dict[int, Form]:
    """The clipped tensors and their views, in one order of dimensions or in another.

    A view that is both transposed and reshaped is none of these.
    """
    found: dict[int, Form] = {}
    for i, value in clipped.items():
        shape, start = bare_shape(module, value), tuple(range(len(sizes(module, value))))
        stack = [(i, start, False)]
        for k, order, is_other in stack:  # grows while it is read
            words = "" if bare_shape(module, k) == shape else "reshaped"
            found[k] = Form(value, words if is_other else "" if order == start else f"{order}")
            for user in module.users[k]:
                if module.opcodes[user] == "reshape" and order == start:
                    stack.append((user, order, True))
                elif module.opcodes[user] == "transpose" and not is_other:
                    turned = tuple(order[axis] for axis in axes_of(module, user))
                    stack.append((user, turned, False))
    return found


def behind(module: Module, values: Iterable[int]) -> set[int]:
    """What is computed from values number by number, as an optimizer's state is."""
    found, stack = set(values), list(values)
    for i in stack:  # grows while it is read
        fresh = {u for u in module.users[i] if module.opcodes[u] in FOLLOW} - found
        found |= fresh
        stack += sorted(fresh)
    return found


def all_sizes(module: Module, clipped: Clipped) -> Counter[tuple[int, ...]]:
    """The sizes of the tensors that are clipped."""
    return Counter(sizes(module, i) for i in clipped)


class ClippedSide(NamedTuple):
    """What one module clips, in its own way or at its own place."""

    view: SideView
    clipped: Clipped
    starts: Collection[int]
    """In which layout, or view, what is behind these is, is no matter."""


def clipped_otherwise(
    kind: Kind,
    one: ClippedSide,
    other: ClippedSide,
    text: Message,
    fixes: tuple[Message, Message],
    what: str = "gradients",
) -> Finding:
    """The finding that two modules clip the same tensors in another way.

    `text`: how each does; `fixes`: what to do about it, and that in short; `what`: what they clip.
    """
    own, others = (_piece(side.view.module, side.clipped) for side in (one, other))
    claimed_a, claimed_b = one.view.ab(frozenset(own), frozenset(others))
    cited = (tuple(sorted(side.clipped)) for side in (one, other))
    cited_a, cited_b = one.view.ab(*cited)
    lines = where(other.view.module, sorted(other.clipped))
    lines = lines or where(one.view.module, sorted(one.clipped))

    def undo(edit: Editors) -> None:
        for side, piece in ((one, own), (other, others)):
            _unclip(edit[side.view.side], side, piece)

    return Finding(
        kind=kind,
        title=say(text, f", for {count(len(one.clipped), 'tensor')}", at(lines)),
        short=text,
        evidence=(Evidence(text, cited_a, cited_b, lines),),
        fix=fixes[0],
        short_fix=fixes[1],
        proof=say(f"both were given the {what} as they are before they are clipped"),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
    )


def _unclip(edit: ModuleEditor, side: ClippedSide, piece: Collection[int]) -> None:
    """Gives what is behind the tensors as they are, without the piece that clips them."""
    module = edit.module
    views = forms(module, side.clipped)
    for i in behind(module, side.starts):
        edit.shapes[i] = bare_shape(module, i)
    for i in piece:  # what is left of it pairs with nothing
        if module.operands[i]:
            edit.become_undone(i, ())
    for i, (value, order) in views.items():
        if order:
            edit.become_undone(i, (value,), order)
    edit.replace_uses({i: value for i, (value, order) in views.items() if not order})


def _piece(module: Module, clipped: Clipped) -> set[int]:
    """What is computed for the clipped tensors alone, behind what they are made of."""
    left = set[int]()
    for i in sorted(set[int]().union(*(made_of(module, i) for i in clipped)), reverse=True):
        kept = i in module.outputs and i not in clipped
        used = all(u in left for u in module.users[i])
        if i in clipped or (used and not kept):
            left.add(i)
    below = set[int]().union(*(made_of(module, value) for value in clipped.values()))
    return left - below


def _entry(module: Module) -> range:
    entry = module.entry_computation
    return range(entry.start, entry.stop)


def _factors(module: Module, i: int) -> Iterator[tuple[int, int]]:
    """What a product or quotient scales, with the number that it scales that by."""
    x, y = module.operands[i]
    if is_number(module, y):
        yield x, y
    elif module.opcodes[i] == "multiply" and is_number(module, x):
        yield y, x


def _is_norm(module: Module, number: int, of: Mapping[int, int]) -> bool:
    """Whether a number is the root of sums, among them one of each tensor that it scales."""
    left = {through(module, value, KEEPS) for value in of.values()}
    stack, seen, opcodes = [number], {number}, set[str]()
    while stack:
        i = stack.pop()
        if through(module, i, KEEPS) in left:
            left.discard(through(module, i, KEEPS))
            continue
        opcodes.add(module.opcodes[i])
        fresh = set(module.operands[i]) - seen
        seen |= fresh
        stack += fresh
    return not left and not SUMS.isdisjoint(opcodes) and not ROOTS.isdisjoint(opcodes)


def _end(module: Module, i: int, value: int) -> int:
    """The clipped tensor: what is scaled once more by a number, or chosen instead of the tensor."""
    for _ in range(MAX_UP):
        users = set(module.users[i])
        if len(users) != 1:
            break
        (user,) = users
        choice = _is_choice(module, user) and value in module.operands[user]
        scaled = module.opcodes[user] in SCALES and any(
            one == i and through(module, by, SPREADS) != i
            for one, by in _factors(module, user)
            if _is_constant(module, by)
        )
        if not (choice or (scaled and _is_chosen(module, user, value))):
            break
        i = user
    return i


def _is_constant(module: Module, number: int) -> bool:
    return not module.operands[through(module, number, SPREADS)]


def _is_chosen(module: Module, i: int, value: int) -> bool:
    """Whether what is scaled once more stands in a choice beside the tensor itself."""
    return any(_is_choice(module, u) and value in module.operands[u] for u in module.users[i])


def _is_choice(module: Module, i: int) -> bool:
    """Whether one of two values is chosen; by `jnp.where` in a computation of its own."""
    callees = module.callees.get(i, ()) if module.opcodes[i] == "call" else ()
    ends = [module.computations[callee].root for callee in callees] or [i]
    return len(module.operands[i]) == 3 and all(module.opcodes[end] == "select" for end in ends)


def _cut(module: Module, i: int) -> int:
    """The tensor that a value cuts off on both sides; -1 if it is none."""
    if module.opcodes[i] == "call":
        (callee,) = module.callees.get(i, (-1,))
        inner = _cut(module, module.computations[callee].root) if callee >= 0 else -1
        if inner < 0 or module.opcodes[inner] != "parameter":
            return -1
        return module.operands[i][int(module.payloads[inner])]
    if module.opcodes[i] == "clamp":
        low, value, high = module.operands[i]
        return value if is_number(module, low) and is_number(module, high) else -1
    for last, first in (("minimum", "maximum"), ("maximum", "minimum")):
        if module.opcodes[i] == last:
            value = _whole(module, i)
            return _whole(module, value) if value >= 0 and module.opcodes[value] == first else -1
    return -1


def _whole(module: Module, i: int) -> int:
    """What is compared with a number; -1 if both operands, or neither, are numbers."""
    whole = [o for o in module.operands[i] if not is_number(module, o)]
    return whole[0] if len(whole) == 1 else -1
