"""What inputs have to be for a module's outputs to be numbers: positive, or a row that there is."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.evaluate.draws import Domains
from xlagraph.evaluate.masks import masks
from xlagraph.evaluate.never import behind, constant_of, is_whole, taken_as
from xlagraph.evaluate.step import integers
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.graph import Module

    Limits = Mapping[tuple[int, int], tuple[float, ...]]

LARGEST = 3e38
"""What bounds nothing: torch_xla hands in the largest number where a bound is not given."""
MAX_VALUES = 3
"""Numbers that are tried for one input."""
_NEEDS = frozenset({"sqrt", "rsqrt", "log", "log-plus-one", "power"})
_KEEPS = frozenset(
    (
        *("add", "multiply", "divide", "convert", "copy", "broadcast", "reshape", "transpose"),
        *("slice", "concatenate", "select", "maximum"),
    )
)
"""What leaves a sign as it is, as a rule."""


def domains_of(module: Module) -> Domains:
    """What a module's inputs are, as far as what takes them in tells."""
    known = positive_inputs(module), counters(module), _bounds(module), _lengths(module)
    return Domains(*known, _wraps(module), _marks(module))


def _marks(module: Module) -> dict[int, tuple[int, ...]]:
    """The whole numbers that are compared with constants below 0, each with these constants."""
    found = {
        k: {n for i, user in uses for n in _compared(module, i, user) if n < 0}
        for k, uses in _uses_of_inputs(module)
    }
    return {k: (*sorted(marks),) for k, marks in found.items() if marks}


def _compared(module: Module, value: int, user: int) -> Iterator[int]:
    """The constant that a value is compared with, for being the same."""
    is_compare = module.opcodes[user] == "compare"
    if is_compare and module.attributes[user].get("direction") in ("EQ", "NE"):
        for operand in module.operands[user]:
            text = "" if operand == value else constant_of(module, operand)
            if text.removeprefix("-").isdecimal():
                yield int(text)


def _wraps(module: Module) -> dict[int, int]:
    """The whole numbers that are taken modulo a constant, each with the largest of these."""
    found = {
        k: max((n for i, user in uses for n in _divisors(module, i, user)), default=0)
        for k, uses in _uses_of_inputs(module)
    }
    return {k: divisor for k, divisor in found.items() if divisor}


def _divisors(module: Module, value: int, user: int) -> Iterator[int]:
    """What a value is taken modulo: JAX calls a function for it, which asks if that is 0."""
    if module.opcodes[user] != "remainder" or module.operands[user][0] != value:
        return
    callers = module.callers.get(module.computation_of(user).index, ())
    given = (o for i in callers for o in module.operands[i])
    for operand in (module.operands[user][1], *given):
        if (text := constant_of(module, operand)).isdecimal():
            yield int(text)


def _lengths(module: Module) -> dict[int, int]:
    """The whole numbers that positions are compared with by size, each with how many there are."""
    found = {
        k: min((n for i, user in uses for n in _positions(module, i, user)), default=0)
        for k, uses in _uses_of_inputs(module)
    }
    return {k: most for k, most in found.items() if most}


def _positions(module: Module, value: int, user: int) -> Iterator[int]:
    """How many positions there are that a value is compared with by size."""
    is_compare = module.opcodes[user] == "compare"
    if is_compare and module.attributes[user].get("direction") in _BY_SIZE:
        yield from _rows(module, value, user)


def _uses_of_inputs(module: Module) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The whole numbers that the entry takes, each with its uses (`_uses`)."""
    for k, p in enumerate(module.entry_computation.parameters):
        if is_whole(module, p):
            yield k, [*_uses(module, [p])]


def _bounds(module: Module) -> dict[int, float]:
    """The fractions that bound values alone, each with the number that would bound nothing."""
    found: dict[int, float] = {}
    for k, p in enumerate(module.entry_computation.parameters):
        if module.shapes[p] in ("f32[]", "f64[]"):
            uses = applied(module, p)
            found[k] = unbounding(
                {(module.opcodes[user], module.operands[user].index(form)) for user, form in uses}
            )
    return {k: bound for k, bound in found.items() if bound}


def unbounding(uses: Collection[tuple[str, int]]) -> float:
    """The number that bounds nothing, of one that is a bound in all of its uses; else 0.

    A use: the opcode, and the place among its operands.
    """
    bounds = {("clamp", 0): -LARGEST, ("clamp", 2): LARGEST}
    return next((x for place, x in bounds.items() if {*uses} == {place}), 0.0)


def positive_inputs(module: Module) -> frozenset[int]:
    """The entry's parameters, by number, that reach a root or a logarithm with their sign.

    Such as the second moments of Adam: with signs, all that depends on them is no number, and
    says nothing of the rest. A square has no sign to keep.
    """
    entry = module.entry_computation
    reach: set[int] = set()
    for i in reversed(range(entry.start, entry.stop)):
        operands = module.operands[i]
        if module.opcodes[i] in _NEEDS:
            reach.update(operands[:1])
        elif i in reach and module.opcodes[i] in _KEEPS and len({*operands}) == len(operands):
            reach.update(operands)
    return frozenset(k for k, p in enumerate(entry.parameters) if p in reach)


_BY_SIZE = frozenset({"GE", "GT", "LE", "LT"})
_HANDS_ON = frozenset(
    (
        *("add", "broadcast", "clamp", "concatenate", "convert", "copy", "reshape", "select"),
        *("slice", "transpose"),
    )
)
"""What leaves a whole number as it is, but for what counts from the end."""


class Assumed(NamedTuple):
    """What inputs are taken to be, where two modules agree on nothing else."""

    rows: int = 0
    """Whole numbers are rows or classes that there are, of which there are so many; 0: of any."""
    limits: Limits = MappingProxyType({})
    """Side (0 of A, 1 of B) and number of an input to the numbers that it takes."""
    ones_first: bool = False
    """The second of two numbers that an input takes stands first along its last axis, and then the
    other: what a mask of lengths is."""


def assumptions(diff: Diff) -> Iterator[Assumed]:
    """Nothing first, then what inputs may be meant to be.

    Indices are rows that there are. What is compared with 0 or 1 is a mask as a rule, of zeros and
    ones. And torch_xla hands in equal Python numbers once: where one module takes a number more
    often, the other may have it as what it is, as the 2 of a square's derivative, or as what a mean
    divides by.
    """
    rows = _fewest_rows(diff.a, diff.b)
    yield from of_rows_and_masks(diff.a, diff.b)
    for limits in _numbers_handed_in(diff):
        yield from _in_rows(rows, Assumed(limits=limits))


def of_rows_and_masks(*modules: Module) -> Iterator[Assumed]:
    """What inputs of two modules may be meant to be, but for numbers; what says most comes last.

    What only weighs values in one may be the mask of its shape that the other has.
    """
    rows = _fewest_rows(*modules)
    found = [masks(module) for module in modules]
    known = [own.known for own in found]
    shapes = [_shapes_of(module, own) for module, own in zip(modules, known, strict=True)]
    likely = [
        own.known | {k for k in own.possible if _shape_of(module, k) in others}
        for module, own, others in zip(modules, found, reversed(shapes), strict=True)
    ]
    yield from _in_rows(rows, Assumed())
    if any(likely):
        for own in (known, likely) if known != likely else (known,):
            yield from _in_rows(rows, Assumed(limits=_zeros_and_ones(own)))
        yield from _in_rows(rows, Assumed(limits=_zeros_and_ones(likely), ones_first=True))


def _zeros_and_ones(inputs: Sequence[set[int]]) -> Limits:
    return {(side, k): (0.0, 1.0) for side, own in enumerate(inputs) for k in sorted(own)}


def _shapes_of(module: Module, inputs: Iterable[int]) -> set[str]:
    return {_shape_of(module, k) for k in inputs}


def _shape_of(module: Module, number: int) -> str:
    return bare_shape(module, module.entry_computation.parameters[number])


def _in_rows(rows: int, assumed: Assumed) -> Iterator[Assumed]:
    yield assumed
    if rows:
        yield assumed._replace(rows=rows)


def _numbers_handed_in(diff: Diff) -> Iterator[Limits]:
    """For each number that one module takes more often, what it may stand for in the other."""
    for slot in diff.parameters:
        if slot.a is None or slot.b is None:
            continue
        pairs = ((diff.a, slot.a), (diff.b, slot.b))
        numbers = [(m, m.entry_computation.parameters[k]) for m, k in pairs]
        uses = {len(list(applied(module, i))) for module, i in numbers}
        if len(uses) > 1 and all(module.shapes[i].startswith("f32[]") for module, i in numbers):
            means = {size for module, i in numbers for size in _divided(module, i)}
            for value in sorted({2, *means})[:MAX_VALUES]:
                told = (float(value),)
                yield {(0, slot.a): told, (1, slot.b): told}


def _divided(module: Module, number: int) -> Iterator[int]:
    """How many elements values have that a number divides."""
    for user, form in applied(module, number):
        if module.opcodes[user] == "divide" and module.operands[user][1] == form:
            yield prod(read_shape(module.shapes[user]).dimensions)


def applied(module: Module, number: int) -> Iterator[tuple[int, int]]:
    """What computes with a number, each with the form that it takes in."""
    front = [number]
    for i in front:  # grows while it is read
        for user in module.users[i]:
            if module.opcodes[user] in ("broadcast", "convert", "copy", "reshape"):
                front.append(user)
            else:
                yield user, i


def _fewest_rows(*modules: Module) -> int:
    """The smallest number of rows, or classes, that whole numbers given to modules pick one of.

    Beyond it two forms of one computation part: a gather of JAX gives no number, and a class
    that there is not is none of those that labels are compared with. 0 where none is picked.
    """
    return min((rows for module in modules for rows in _picked_of(module) if rows > 1), default=0)


def counters(module: Module) -> frozenset[int]:
    """The entry's parameters, by number, that are one whole number and pick no row."""
    inputs = module.entry_computation.parameters
    asked = {k: p for k, p in enumerate(inputs) if is_whole(module, p)}
    single = {k for k, p in asked.items() if module.shapes[p].endswith("[]")}
    return frozenset(k for k in single if not _picks(module, asked[k]))


def _picks(module: Module, number: int) -> bool:
    """Whether a whole number picks a row, or the place of a slice."""
    uses = [*_uses(module, [number])]
    is_place = any(module.opcodes[user].startswith("dynamic-") for _, user in uses)
    return is_place or any(rows for i, user in uses for rows in _rows(module, i, user))


def columns(module: Module, number: int) -> int:
    """How many columns there are, of a whole number by which rows of a flat table are counted.

    As in ``table.reshape(-1)[i * columns + j]``; 0 of another one. `number`: of the entry's
    parameters.
    """
    scaled = [
        user
        for user, _ in applied(module, module.entry_computation.parameters[number])
        if module.opcodes[user] == "multiply" and is_whole(module, user)
    ]
    for i, user in _uses(module, scaled):
        if module.opcodes[user] == "gather" and module.operands[user][1] == i:
            flat = module.operands[user][0]
            if module.opcodes[flat] == "reshape":
                sizes = read_shape(module.shapes[module.operands[flat][0]]).dimensions
                return sizes[-1] if len(sizes) > 1 else 0
    return 0


def _picked_of(module: Module) -> set[int]:
    """How many rows there are of which whole numbers pick one."""
    whole = [p for p in module.entry_computation.parameters if is_whole(module, p)]
    return {rows for i, user in _uses(module, whole) for rows in _rows(module, i, user)}


def _uses(module: Module, numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Whole numbers, and what is made of them by handing them on, each with a user."""
    known = {*numbers}
    front = [*known]
    for i in front:  # grows while it is read
        for user in module.users[i]:
            yield i, user
            for value in _taken_on(module, i, user):
                if value not in known and is_whole(module, value):
                    known.add(value)
                    front.append(value)


def _taken_on(module: Module, i: int, user: int) -> Iterator[int]:
    """Where a whole number goes: into what hands it on, or what a call takes it in as."""
    if module.opcodes[user] in _HANDS_ON:
        yield user
    elif module.opcodes[user] == "call":
        yield from taken_as(module, i, user)


def _rows(module: Module, i: int, user: int) -> Iterator[int]:
    """How many rows there are where a whole number picks some, or classes to compare it with."""
    operands = module.operands[user]
    match module.opcodes[user]:
        case "gather" if operands[1] == i:
            sizes = read_shape(module.shapes[operands[0]]).dimensions
            yield from (sizes[k] for k in _numbers(module, user, "start_index_map"))
        case "scatter" if operands[1] == i:
            sizes = read_shape(module.shapes[operands[0]]).dimensions
            yield from (sizes[k] for k in _numbers(module, user, "scatter_dims_to_operand_dims"))
        case "compare":
            (other,) = [o for o in operands if o != i] or [i]
            yield from _counted(module, other)


def _counted(module: Module, i: int) -> Iterator[int]:
    """How far a value counts from 0, in some form."""
    i = behind(module, i, ("broadcast", "convert", "copy", "reshape"))
    if module.opcodes[i] == "iota":
        sizes = read_shape(module.shapes[i]).dimensions
        yield from (sizes[k] for k in _numbers(module, i, "iota_dimension"))


def _numbers(module: Module, i: int, key: str) -> tuple[int, ...]:
    return integers(module.attributes[i].get(key) or "")
