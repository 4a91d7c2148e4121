"""Random masks that one side multiplies values by, as dropout does, and the other nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import has_effect
from xlagraph.facts.values.scalars import is_number
from xlagraph.facts.values.telling import RANDOM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """All random numbers of a module, where they are scaled masks that values are multiplied by.

    Whatever pairs with what on the other side: without the products none of them is left.
    """

    side: SideView
    products: Mapping[int, int]
    """Each product by a mask, and the value that is multiplied."""
    drawn: frozenset[int]
    """What is computed of random numbers alone, and of what only they are drawn from."""
    idle: Mapping[int, int]
    """Conversions to the type that a value has, and the value: torch_xla is less sure of the type
    of products, and converts means of them."""

    @property
    def piece(self) -> frozenset[int]:
        """What draws and multiplies."""
        return self.drawn.union(self.products)

    def undo(self, edit: Editors) -> None:
        """Lets whatever takes in a product use the value that is multiplied."""
        editor = edit[self.side.side]
        for i in self.drawn:
            if has_effect(self.side.module, i):
                editor.become_undone(i, ())
        editor.replace_uses({**self.products, **self.idle})


def masks_of(more: SideView, less: SideView) -> Masks | None:
    """The masks of one side, if it draws for nothing else, and the other does not draw at all."""
    module, live = more.module, more.matched.live
    if _draws(less) or not _draws(more):
        return None
    random = _random(more)
    used = {(i, user) for i in random for user in module.users[i] if live[user]}
    products: dict[int, int] = {}
    for mask, user in sorted(used, key=lambda pair: pair[1]):
        if user in random:
            continue
        others = [o for o in module.operands[user] if o != mask]
        if module.opcodes[user] != "multiply" or len(others) != 1 or not _is_mask(module, mask):
            return None
        products[user] = others[0]
    drawn = frozenset(random | _above(more, random))
    return Masks(more, products, drawn, _idle(more)) if products else None


def _draws(view: SideView) -> bool:
    live = view.matched.live
    return any(opcode in RANDOM and live[i] for i, opcode in enumerate(view.module.opcodes))


def _random(view: SideView) -> set[int]:
    """What a module computes of random numbers, and of numbers beside them."""
    module, found = view.module, set[int]()
    entry, live, closed = module.entry_computation, view.matched.live, view.matched.closed
    for i in range(entry.start, entry.stop):
        operands = module.operands[i]
        beside = (o for o in operands if o not in found)
        is_made = not found.isdisjoint(operands) and all(
            closed[o] or is_number(module, o) for o in beside
        )
        if live[i] and (module.opcodes[i] in RANDOM or is_made):
            found.add(i)
    return found - {entry.root}


def _is_mask(module: Module, mask: int) -> bool:
    """Whether a value is what a comparison of random numbers gives, scaled by what is kept."""
    stack, opcodes = [mask], set[str]()
    while stack:
        i = stack.pop()
        opcodes.add(module.opcodes[i])
        if module.opcodes[i] != "compare":
            stack += module.operands[i]
    return "compare" in opcodes and not opcodes.isdisjoint({"divide", "multiply"})


def _above(view: SideView, random: set[int]) -> set[int]:
    """What random numbers are drawn from, and masks scaled by, and nothing else is."""
    module, found = view.module, set(random)
    for i in reversed(range(max(random, default=0))):
        users = [user for user in module.users[i] if view.matched.live[user]]
        if view.partners[i] < 0 and users and found.issuperset(users):
            found.add(i)
    return found - random


def _idle(view: SideView) -> dict[int, int]:
    module = view.module
    found = (i for i in view.open_lone() if module.opcodes[i] == "convert")
    pairs = ((i, module.operands[i][0]) for i in found)
    return {i: o for i, o in pairs if bare_shape(module, i) == bare_shape(module, o)}
