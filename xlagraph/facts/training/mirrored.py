"""Derivatives of a distance: that of f(x - y) by y is that of x with the two exchanged."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.training.gradients import through_forms
from xlagraph.facts.values.evaluated import OPENED
from xlagraph.facts.values.scalars import SPREADS, through, without_one

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from xlagraph.graph import Module

_Plain = int | str
"""A value, or a constant by what it is."""
_Form = tuple[str, str, tuple[object, ...], tuple[_Plain, ...]]
"""An operation with what it takes in."""
MAX_FACTORS = 16
MAX_STEPS = 4
"""Products between a difference and the derivative."""


class Mirrored(NamedTuple):
    """A derivative by the other value of a difference, and the value that the term is by."""

    other: int
    value: int


def mirrored(module: Module, term: int) -> Iterator[Mirrored]:
    """What a term is with the values of a difference in it exchanged, where it is computed too."""
    factors = _factors(module, term)
    for difference in [i for i in factors if isinstance(i, int) and _is_difference(module, i)]:
        x, y = module.operands[difference]
        turned = [u for u in module.users[y] if tuple(module.operands[u]) == (y, x)]
        for other in (u for u in turned if _is_difference(module, u)):
            wanted = factors - Counter([difference]) + Counter([other])
            for product in _products(module, other):
                if _factors(module, product) == wanted:
                    yield Mirrored(product, through_forms(module, x))


def _is_difference(module: Module, i: int) -> bool:
    return module.opcodes[i] == "subtract"


def _factors(module: Module, product: int) -> Counter[int | str]:
    """What is multiplied, numbers by their value; empty if it is too much."""
    found: Counter[int | str] = Counter()
    stack = [product]
    while stack and len(stack) + sum(found.values()) < MAX_FACTORS:
        i = through(module, stack.pop(), SPREADS)
        if module.opcodes[i] == "multiply":
            stack += module.operands[i]
        elif module.opcodes[i] == "constant":
            found[module.payloads[i]] += 1
        else:
            found[i] += 1
    return Counter() if stack else found


def _products(module: Module, i: int) -> list[int]:
    """The products that take in a value, or a product of it, and so on."""
    found, front = list[int](), [i]
    for _ in range(MAX_STEPS):
        front = [u for o in front for u in module.users[o] if module.opcodes[u] == "multiply"]
        found += front
    return found


class Images(NamedTuple):
    """Values of a piece that are derivatives of a difference by the other one of its two."""

    alike: dict[int, list[int]]
    """Each with those that are computed outside as it is with the two exchanged."""
    value: int | None
    """The one of the two that these are derivatives by."""


def images(module: Module, piece: Collection[int]) -> Images:
    """The values of a piece that are computed outside as well, with a difference's two exchanged.

    A derivative of any function of x - y by y is written as that by x with y - x. Given are
    those that are used as a whole, and so are the derivative.
    """
    entry = module.entry_computation
    outside: dict[_Form, int] = {}
    alike: dict[int, list[int]] = {}
    first: dict[_Plain, _Plain] = {}
    for i in range(entry.start, entry.stop):
        if i not in piece and module.operands[i]:
            form = _form(module, i, _taken(module, i, first))
            first[i] = outside.setdefault(form, i)
            alike.setdefault(outside[form], []).append(i)
    mirror = _mirror(module, piece, {form[3] for form in outside if form[0] == "subtract"}, first)
    found: dict[int, list[int]] = {}
    behind = _behind(module, mirror)
    for i in sorted(piece) if mirror else ():
        taken = _taken(module, i, first)
        other = [mirror.get(o, o) for o in taken]
        if any(o in behind and o not in mirror for o in taken):
            continue
        image = outside.get(_form(module, i, other))
        if image is not None and other == taken:
            first[i] = image
        elif image is not None:
            mirror[i] = image
            found[i] = alike[image]
    last = {i: own for i, own in found.items() if any(_is_whole(module, k) for k in own)}
    value = next((one for one in mirror if isinstance(one, int)), None)
    return Images(last, None if value is None else through_forms(module, value))


def _behind(module: Module, values: Iterable[_Plain]) -> set[_Plain]:
    """What is computed from values, these included."""
    stack = [i for i in values if isinstance(i, int)]
    found = set[_Plain](stack)
    for i in stack:  # grows while it is read
        fresh = [u for u in module.users[i] if u not in found]
        found.update(fresh)
        stack += fresh
    return found


def _is_whole(module: Module, value: int) -> bool:
    """Whether nothing treats a value number by number any further, in whatever form."""
    stack = [value]
    for i in stack:  # grows while it is read
        if any(module.opcodes[u] in OPENED - SPREADS for u in module.users[i]):
            return False
        stack += [u for u in module.users[i] if module.opcodes[u] in SPREADS]
    return True


def _mirror(
    module: Module,
    piece: Collection[int],
    outside: Collection[tuple[_Plain, ...]],
    first: Mapping[_Plain, _Plain],
) -> dict[_Plain, _Plain]:
    """The two values of the first difference of a piece that stands outside with them exchanged."""
    for i in sorted(i for i in piece if _is_difference(module, i)):
        x, y = _taken(module, i, first)
        if x != y and (y, x) in outside:
            return {x: y, y: x}
    return {}


def _taken(module: Module, i: int, first: Mapping[_Plain, _Plain]) -> list[_Plain]:
    plain = (_plain(module, o) for o in module.operands[i])
    return [first.get(o, o) for o in plain]


def _plain(module: Module, value: int) -> _Plain:
    """What a value spreads, converts or multiplies with 1; a constant by what it is."""
    while (below := without_one(module, through(module, value, SPREADS))) != value:
        value = below
    is_constant = module.opcodes[value] == "constant"
    return str(module.payloads[value]) if is_constant else value


def _form(module: Module, i: int, operands: Iterable[_Plain]) -> _Form:
    attributes = tuple(module.attributes[i].items)
    return module.opcodes[i], bare_shape(module, i), attributes, tuple(operands)
