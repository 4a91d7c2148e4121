"""In which other tensors one module may hold what another takes in, as far as sizes tell.

A fused projection is several joined along a dimension, an ensemble's weights are the members'
stacked, and a kernel may be stored transposed. Values have to tell which of these it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations, product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Sizes = tuple[int, ...]
    Left = tuple[Counter[str], Counter[str]]

MAX_PARTS = 16
"""Tensors that one stands for."""
MAX_KINDS = 3
"""Shapes that these have."""
MAX_RANK = 4
MAX_TURNS = 4
"""Orders of a tensor's dimensions that are tried."""
MAX_FORMS = 24
"""Ways to make one shape of others that are tried."""
FLOATS = ("f16[", "bf16[", "f32[", "f64[")


@dataclass(frozen=True)
class Piece:
    """A tensor as a part of a larger one."""

    shape: str
    """The tensor's own, without layout."""
    turn: Sizes
    """Its dimensions in the order in which the piece has them."""
    sizes: Sizes
    """The piece's, within the whole."""

    @cached_property
    def own(self) -> Sizes:
        """The tensor's sizes."""
        return _sizes(self.shape)

    @property
    def is_turned(self) -> bool:
        """Whether its elements stand in another order."""
        return self.turn != tuple(range(len(self.turn)))


@dataclass(frozen=True)
class Form:
    """A tensor, made of others that are joined along one dimension."""

    whole: str
    """Its shape, without layout."""
    axis: int
    pieces: tuple[Piece, ...]

    @property
    def parts(self) -> Counter[str]:
        """The shapes of the tensors that it is made of."""
        return Counter(piece.shape for piece in self.pieces)

    @property
    def is_turned(self) -> bool:
        """Whether a piece's elements stand in another order."""
        return any(piece.is_turned for piece in self.pieces)


class Placed(NamedTuple):
    """So many tensors of one side that stand for others of the other side."""

    side: int
    """0 of A, 1 of B."""
    form: Form
    many: int


def surplus(one: Counter[str], other: Counter[str]) -> Left:
    """The tensors of each side that the other has not, by shape; single numbers aside."""
    return _arrays(one - other), _arrays(other - one)


def packings(left: Left) -> Iterator[tuple[Placed, ...]]:
    """Ways to make all that one side has more of what the other has more; the largest first.

    None where the sides do not have as many numbers.
    """
    if not any(left):
        yield ()
        return
    side, whole = max(
        ((side, shape) for side in (0, 1) for shape in left[side]),
        key=lambda one: (_elements(one[1]), -one[0], one[1]),
    )
    others = left[1 - side]
    for form in islice(_forms(whole, others, left[side][whole]), MAX_FORMS):
        count = min(left[side][whole], *(others[shape] // n for shape, n in form.parts.items()))
        placed = Placed(side, form, count)
        for rest in packings(without(left, placed)):
            yield (placed, *rest)


def without(left: Left, placed: Placed) -> Left:
    """What is left of both sides where these tensors have partners."""
    side, form, many = placed
    sides = [Counter(left[0]), Counter(left[1])]
    sides[side] -= Counter({form.whole: many})
    sides[1 - side] -= Counter({shape: n * many for shape, n in form.parts.items()})
    return sides[0], sides[1]


def turned_squares(shapes: Counter[str]) -> tuple[Placed, ...]:
    """All square matrices of A turned, of which sizes say nothing."""
    found = ((shape, _sizes(shape)) for shape in _arrays(shapes))
    squares = [(shape, sizes) for shape, sizes in found if len(sizes) == 2 < sum(sizes)]
    return tuple(
        Placed(0, Form(shape, 0, (Piece(shape, (1, 0), sizes),)), shapes[shape])
        for shape, sizes in squares
        if sizes[0] == sizes[1]
    )


def _arrays(shapes: Counter[str]) -> Counter[str]:
    return Counter({shape: n for shape, n in shapes.items() if not shape.endswith("[]")})


def _sizes(shape: str) -> Sizes:
    return tuple(read_shape(shape).dimensions)


def _elements(shape: str) -> int:
    return prod(_sizes(shape))


def _forms(whole: str, others: Counter[str], count: int) -> Iterator[Form]:
    """The whole made of others, of which there are enough for so many; the plainest first."""
    sizes = _sizes(whole)
    if not whole.startswith(FLOATS) or len(sizes) > MAX_RANK:
        return
    kind = whole.partition("[")[0] + "["
    fitting = sorted(
        (shape for shape in others if shape.startswith(kind)), key=_elements, reverse=True
    )
    for shape in fitting:
        if _elements(shape) == prod(sizes):
            for turn in _turns(_sizes(shape), sizes):
                yield Form(whole, 0, (Piece(shape, turn, sizes),))
    known = {shape: (_elements(shape), others[shape] // count) for shape in fitting}
    for parts in _choices(prod(sizes), [(s, *known[s]) for s in fitting if known[s][1]]):
        for axis in range(len(sizes)):
            yield from _joined(whole, axis, parts)


def _choices(
    size: int, known: Sequence[tuple[str, int, int]], room: int = MAX_PARTS
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Shapes, and how many of each, that come to so many elements; at least two in all."""
    if size == 0:
        yield ()
        return
    for k, (shape, elements, most) in enumerate(known):
        for n in range(min(most, size // elements, room), 0, -1):
            for rest in _choices(size - n * elements, known[k + 1 :], room - n):
                found = ((shape, n), *rest)
                if len(found) <= MAX_KINDS and (room < MAX_PARTS or sum(m for _, m in found) > 1):
                    yield found


def _joined(whole: str, axis: int, parts: Sequence[tuple[str, int]]) -> Iterator[Form]:
    """The ways to join these along a dimension: in any order of shapes, turned or not."""
    sizes = _sizes(whole)
    slab = prod(sizes) // sizes[axis]
    ways: list[list[Piece]] = []
    for shape, _ in parts:
        thick, odd = divmod(_elements(shape), slab)
        own = (*sizes[:axis], thick, *sizes[axis + 1 :])
        ways.append(
            [Piece(shape, turn, own) for turn in _turns(_sizes(shape), own)] if not odd else []
        )
    for chosen in product(*ways):
        for order in permutations(range(len(parts))):
            yield Form(whole, axis, tuple(chosen[k] for k in order for _ in range(parts[k][1])))


def _turns(own: Sizes, sizes: Sizes) -> Iterator[Sizes]:
    """Orders of a tensor's dimensions in which it has the other sizes, but for how it is cut."""
    return islice(_orders(own, sizes), MAX_TURNS) if len(own) <= MAX_RANK else iter(())


def _orders(own: Sizes, sizes: Sizes) -> Iterator[Sizes]:
    known = set()
    for order in permutations(range(len(own))):
        seen = tuple(k for k in order if own[k] != 1)
        if seen not in known and _is_cut_alike([own[k] for k in seen], sizes):
            known.add(seen)
            yield order


def _is_cut_alike(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether every cut of the shorter of two forms of an array is one of the longer's."""
    cuts = [{prod(sizes[:k]) for k in range(len(sizes) + 1)} for sizes in (one, other)]
    return cuts[0] <= cuts[1] or cuts[1] <= cuts[0]
