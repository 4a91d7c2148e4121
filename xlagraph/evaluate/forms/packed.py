"""Whether two modules give the same values where one takes in tensors in the other's form."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.live import live_instructions
from xlagraph.diff import diff_modules
from xlagraph.errors import XlagraphError
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.domains import of_rows_and_masks
from xlagraph.evaluate.forms.packing import packings, surplus, turned_squares, without
from xlagraph.evaluate.forms.repack import repacked
from xlagraph.evaluate.never import behind
from xlagraph.evaluate.pairing.inputs import RESPONSES, Asked, are_alike, input_shapes, response
from xlagraph.evaluate.program import Program
from xlagraph.evaluate.question import SameValues
from xlagraph.evaluate.same import MAX_MORE, output_shapes, same_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.evaluate.forms.packing import Form, Placed
    from xlagraph.graph import Module

    Updated = Mapping[int, Sequence[int]]

MAX_PACKINGS = 48
"""Ways to hold the tensors of one module in those of the other that are looked at."""
MAX_ASKED = 2
"""Those of them that are asked in full."""
MAX_COST = 16_000_000
"""Element operations of both modules up to which they are asked."""
_FORMS = frozenset({"bitcast", "copy", "reshape", "transpose"})
"""What puts the same numbers into another form."""


class PackedSame(NamedTuple):
    """Two modules that give the same values, some tensors in other forms."""

    diff: Diff
    """Of the modules as they are with the same tensors."""
    found: SameValues
    packing: tuple[Placed, ...]
    """Which tensors those of each side stand for."""
    dropped: tuple[int, int]
    """How many outputs of each side are others in another form, and are set aside."""
    counters: tuple[int, int]
    """How many numbers each side only counts on that the other has not; they are set aside."""


def same_packed(diff: Diff, updated: tuple[Updated, Updated]) -> PackedSame | None:
    """How tensors of one module are held in the other's, if all outputs are equal then.

    `updated`: for parameters of each module the positions of their new values. None where they
    are not equal, or where it cannot be told (`same_values`).
    """
    try:
        return _same_packed(diff, updated)
    except (XlagraphError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
        return None


def _same_packed(diff: Diff, updated: tuple[Updated, Updated]) -> PackedSame | None:
    if not (diff.a.gives_tuple and diff.b.gives_tuple):
        return None
    if sum(Program(module).cost for module in (diff.a, diff.b)) > MAX_COST:
        return None
    modules = diff.a, diff.b
    counters = _counted_alone(diff)
    sides = [
        _Side(module, _alone(diff, k), updated[k], _other_forms(module), counters[k])
        for k, module in enumerate(modules)
    ]
    is_asked = any(side.forms or side.counters for side in sides)
    ways = islice(_packings(diff, is_asked=is_asked), MAX_PACKINGS)
    rewritten = ((way, _rewritten(sides, way)) for way in ways)
    likely = ((way, both) for way, both in rewritten if both and _may_agree(*both))
    for packing, both in islice(likely, MAX_ASKED):
        after = diff_modules(*both)
        if found := same_values(after):
            forms, counts = zip(*((len(s.forms), len(s.counters)) for s in sides), strict=True)
            return PackedSame(after, found, packing, forms, counts)
    return None


def _other_forms(module: Module) -> frozenset[int]:
    """The outputs, by number, that are another one in another form.

    One in the form of an input stays, of the fewest dimensions. What is given out twice as it is
    stays twice.
    """
    inputs = {*input_shapes(module)}
    shapes = output_shapes(module)
    made = module.outputs
    order = [(s not in inputs, s.count(","), -made[k], k) for k, s in enumerate(shapes)]
    kept: dict[int, int] = {}
    for *_, k in sorted(order):
        kept.setdefault(behind(module, made[k], _FORMS), made[k])
    return frozenset(k for k, i in enumerate(made) if kept[behind(module, i, _FORMS)] != i)


def _packings(diff: Diff, *, is_asked: bool) -> Iterator[tuple[Placed, ...]]:
    """What sizes allow: with square matrices as they are, and turned where others are turned.

    `is_asked`: whether none in another form is one, too.
    """
    shapes = [Counter(input_shapes(m)) for m in (diff.a, diff.b)]
    squares = turned_squares(shapes[0] & shapes[1])
    for packing in packings(surplus(*shapes)):
        if packing or is_asked:
            yield packing
        if squares and any(one.form.is_turned for one in packing):
            yield (*packing, *squares)


def _may_agree(a: Module, b: Module) -> bool:
    """Whether outputs come to the same where all inputs of a shape are equal, if that is asked."""
    if sorted(input_shapes(a)) != sorted(input_shapes(b)):
        return True  # but for single numbers, which have to be found
    programs = Program(a), Program(b)
    budget = Budget(RESPONSES)
    for assumed in of_rows_and_masks(a, b):
        asked = Asked(programs, budget, assumed)
        classes = asked.classes()
        if are_alike(*(response(asked, classes, side) for side in (0, 1))):
            return True
    return False


def _rewritten(sides: Sequence[_Side], packing: Sequence[Placed]) -> tuple[Module, Module] | None:
    """Both modules with the same tensors; None where outputs are not as many."""
    one, other = (_Rewriting(side) for side in sides)
    left = surplus(*(Counter(side.given) for side in sides))
    for placed in packing:
        side, form, count = placed
        many = _many(left, placed)
        (one, other)[side].hold(form, count, many)
        left = without(left, placed._replace(many=many))
    if (left[0] and left[1]) or max(more.total() for more in left) > MAX_MORE:
        return None
    return one.module(), other.module()


def _many(left: tuple[Counter[str], Counter[str]], placed: Placed) -> int:
    """How many outputs of one side are to be cut."""
    side, form, count = placed
    if form.whole in form.parts:  # sizes do not tell
        return count
    others = (left[1 - side][shape] // n for shape, n in form.parts.items())
    return min(left[side][form.whole], *others)


def _alone(diff: Diff, side: int) -> tuple[set[int], set[int]]:
    """The inputs and outputs of a side that the comparison has paired with none, by number."""
    found: tuple[set[int], set[int]] = (set(), set())
    for slots, alone in zip((diff.parameters, diff.outputs), found, strict=True):
        for slot in slots:
            own, other = (slot.a, slot.b) if side == 0 else (slot.b, slot.a)
            if own is not None and other is None:
                alone.add(own)
    return found


def _counted_alone(diff: Diff) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The counters that one side has more than the other, as a state's beside its optimizer's."""
    counts = [Counter(s for s in input_shapes(m) if s[0] in "su") for m in (diff.a, diff.b)]
    more = (counts[0] - counts[1]).total(), (counts[1] - counts[0]).total()
    return _counters(diff.a)[: more[0]], _counters(diff.b)[: more[1]]


def _counters(module: Module) -> list[tuple[int, int]]:
    """Whole numbers that a module only counts on: the input's number, and the output's."""
    inputs = {p: k for k, p in enumerate(module.entry_computation.parameters)}
    live = live_instructions(module)
    found = []
    for k, value in enumerate(module.outputs):
        own = [o for o in module.operands[value] if o in inputs]
        if module.opcodes[value] != "add" or len(own) != 1 or module.shapes[value][0] not in "su":
            continue
        (other,) = [o for o in module.operands[value] if o not in own] or own
        is_one = module.opcodes[other] == "constant" and module.shapes[value].endswith("[]")
        if is_one and [u for u in module.users[own[0]] if live[u]] == [value]:
            found.append((inputs[own[0]], k))
    return found


class _Side(NamedTuple):
    """A module, and what is known of its inputs and outputs."""

    module: Module
    alone: tuple[set[int], set[int]]
    """The inputs and outputs that the comparison has paired with none."""
    updated: Updated
    forms: frozenset[int]
    """The outputs that are others in another form."""
    counters: list[tuple[int, int]]
    """The inputs that are only counted on, each with the output that it is counted on to."""

    @property
    def dropped(self) -> frozenset[int]:
        """The outputs that are set aside."""
        return self.forms | {n for _, n in self.counters}

    @property
    def given(self) -> list[str]:
        """The shapes of the outputs that are compared."""
        shapes = output_shapes(self.module)
        return [shape for k, shape in enumerate(shapes) if k not in self.dropped]


class _Rewriting:
    """Which inputs and outputs of a side are made of others."""

    def __init__(self, side: _Side):
        self.side = side
        self.inputs: dict[int, Form] = {}
        self.outputs: dict[int, Form] = {}

    def hold(self, form: Form, inputs: int, outputs: int) -> None:
        """Takes so many of both, of the form's whole, to be made of its parts."""
        module, alone = self.side.module, self.side.alone
        shapes = input_shapes(module)
        fitting = [k for k, s in enumerate(shapes) if s == form.whole and k not in self.inputs]
        fitting.sort(key=lambda k: k not in alone[0])
        own = fitting[:inputs]
        self.inputs |= dict.fromkeys(own, form)
        entry = module.entry_computation
        new = {n for k in own for n in self.side.updated.get(entry.parameters[k], ())}
        taken = self.side.dropped | {*self.outputs}
        shapes = output_shapes(module)
        fitting = [k for k, s in enumerate(shapes) if s == form.whole and k not in taken]
        fitting.sort(key=lambda k: (k not in new, k not in alone[1]))
        self.outputs |= dict.fromkeys(fitting[:outputs], form)

    def module(self) -> Module:
        """The module, as it was if all stand for themselves."""
        side = self.side
        if not self.inputs and not side.dropped:
            return side.module
        removed = [k for k, _ in side.counters]
        return repacked(side.module, self.inputs, self.outputs, side.dropped, removed)
