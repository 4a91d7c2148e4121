"""What conversions that one side alone has are for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Words
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.facts.pieces.moved_softmax import of_softmax
from xlagraph.facts.program.arguments import argument_name, is_jitted
from xlagraph.facts.values.scalars import is_scalar_input
from xlagraph.facts.values.telling import opcodes_in_words
from xlagraph.message import EMPTY, A, Change, Code, count, join, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.facts.pieces.propagation import Propagation
    from xlagraph.graph import Module
    from xlagraph.message import Message

CAST_FIX = say("Convert it (.float(), .to(), autocast) in every step, or in none.")
NUMBER_FIX = say(
    "In JAX a Python number has no type of its own and takes that of the array that it meets; "
    "a number of numpy or of jax.numpy has one, np.float64 as well, and makes what it meets as "
    "wide. Both look alike among the arguments. Hand in the same kind in every call, ",
    Code("float(value)"),
    ", or convert it where it is used: ",
    Code("x + scale.astype(x.dtype) * noise"),
    ".",
)
NUMBER_SHORT_FIX = say(
    "Hand in an array (jnp.float32(value)) in every call, or float(value) in each."
)
SEVERAL = 3
"""So many values that one side converts are the work of autocast, most likely."""
FACTORS = 2
PRODUCTS = frozenset({"dot", "convolution"})
VIEWS = frozenset({"bitcast", "reshape", "transpose"})
BY_AUTOCAST = " only (autocast)"
AUTOCAST_FIX = say(
    "A part is computed in a narrower type, and what goes in and comes out is converted: put "
    "that part under autocast, torch.autocast(device, dtype), in every step or in none."
)
AUTOCAST_SHORT_FIX = say("Put it under autocast in every step, or in none.")
OF_ARRAYS = " the type of the arrays that "
"""What is said of a number without a type of its own."""
_ROUNDED = (
    *("dot", "convolution", "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh"),
    *("logistic", "erf", "power", "rsqrt", "sqrt", "divide", "reduce", "multiply", "add"),
)
"""What rounding counts in, the more telling the sooner."""
MAX_ROUNDED = 2
MAX_SHAPES = 2
"""Shapes of inputs that are told of."""


def casts_in_words(
    case: Case, found: Propagation, starts: Sequence[tuple[int, int]]
) -> tuple[Message, Words] | None:
    """A title, and what is said in short, where all begins at conversions of one side alone.

    `starts`: conversions of A or of B, -1 for the other side.
    """
    casts = [shown(case, *start) for start in starts]
    if any(-1 not in start for start in starts) or not casts:
        return None
    number = number_cast(case, starts)
    if number is not None:
        return number_in_words(case, *number)
    if len(casts) >= SEVERAL or _are_of_one_product(casts):
        return _of_several(case, found, casts)
    if len(casts) != 1 or _is_of_input(*casts[0]):
        return None
    return _of_value(case, found, *casts[0])


def _are_of_one_product(casts: Sequence[tuple[SideView, int]]) -> bool:
    """Whether both factors of one product are converted, as autocast does for a layer."""
    views = [view for view, _ in casts]
    module = views[0].module
    if len(casts) != FACTORS or views[0] is not views[1]:
        return False
    users = [_users(module, i) for _, i in casts]
    return any(module.opcodes[u] in PRODUCTS for u in users[0] & users[1])


def _users(module: Module, i: int) -> set[int]:
    """What uses a value, or a view of it."""
    found, stack = set[int](), [i]
    for k in stack:  # grows while it is read
        found |= {*module.users[k]}
        stack += [u for u in module.users[k] if module.opcodes[u] in VIEWS]
    return found


def shown(case: Case, x: int, y: int) -> tuple[SideView, int]:
    """What a pair is told by: B's instruction, or A's where B has none (-1)."""
    return (case.b, y) if y >= 0 else (case.a, x)


def number_cast(case: Case, starts: Sequence[tuple[int, int]]) -> tuple[SideView, int] | None:
    """The conversion of a number that comes in, the only such number, of a function of JAX's."""
    casts = [shown(case, *start) for start in starts if -1 in start]
    numbers = {
        (view.is_a, number): (view, i)
        for view, i in casts
        if (number := _number_of(view, i)) is not None
    }
    is_one = len(numbers) == 1 and is_jitted(case.diff.a)
    return next(iter(numbers.values())) if is_one else None


def number_of_cast(case: Case, starts: Sequence[tuple[int, int]]) -> tuple[bool, int] | None:
    """The number whose conversion these begin with: whether it is A's, and its instruction."""
    cast = number_cast(case, starts)
    number = None if cast is None else _number_of(*cast)
    return None if cast is None or number is None else (cast[0].is_a, number)


def inputs_in_short(
    shapes: Sequence[str], types: Iterable[tuple[str, str]], name: str = ""
) -> Message:
    """That inputs of these shapes, one with a name perhaps, have these types in A and in B."""
    sizes = (f"[{shape.partition('[')[2]}" for shape in shapes)  # without the type: it is told
    told = join(dict.fromkeys("a number" if one == "[]" else one for one in sizes), MAX_SHAPES)
    one = say("Argument ", Code(name), " has") if name else say("An input (", told, ") has")
    return say(
        *(one if len(shapes) == 1 else say(f"{len(shapes)} inputs (", told, ") have")).parts,
        " another dtype (",
        join(Change(old, new) for old, new in dict.fromkeys(types)),
        ") in some steps",
    )


def numbers_met(case: Case, first: Mapping[int, int]) -> tuple[SideView, list[int]] | None:
    """Conversions of numbers that one side meets arrays with, and the other not, of JAX's.

    `first`: A's instructions to B's at which types differ first; each takes such a number. None
    where one does not.
    """
    if not first or not is_jitted(case.diff.a):
        return None
    for view, other in case.both_ways:
        casts = [_meets(view, other, pair) for pair in first.items()]
        if all(i >= 0 for i in casts):
            return view, list({view.module.operands[i][0]: i for i in casts}.values())
    return None


def _meets(view: SideView, other: SideView, pair: tuple[int, int]) -> int:
    """What converts a number for an instruction, whose partner takes it as it is; -1 if nothing."""
    own, theirs = view.mine(pair), other.mine(pair)
    taken = other.module.operands[theirs]
    return next(
        (
            o
            for o in view.module.operands[own]
            if view.module.opcodes[o] == "convert"
            and _number_of(view, o) is not None
            and view.partners[view.module.operands[o][0]] in taken
        ),
        -1,
    )


def number_in_words(case: Case, view: SideView, *casts: int) -> tuple[Message, Words]:
    """Numbers that one call converts to the type of arrays, and the other keeps as they are."""
    module = view.module
    other = case.b if view.is_a else case.a
    numbers = [n for cast in casts if (n := _number_of(view, cast)) is not None]
    names = join((_argument(view, number) for number in numbers), MAX_SHAPES)
    is_one = len(numbers) == 1
    title = say(
        "argument " if is_one and argument_name(module, numbers[0]) else "",
        names,
        f" {'takes' if is_one else 'take'}{OF_ARRAYS}{'it' if is_one else 'they'}"
        f" {'meets' if is_one else 'meet'}, {_type(module.shapes[casts[0]])}, in ",
        view.side,
        f", and {'its' if is_one else 'their'} own in ",
        other.side,
        f", where all that follows is {_type(module.shapes[numbers[0]])}",
    )
    return title, Words(NUMBER_FIX, title.sentence, NUMBER_SHORT_FIX)


def _argument(view: SideView, number: int) -> Message:
    known = argument_name(view.module, number)
    return say(Code(known)) if known else parameter_name(view, number)


def _of_value(case: Case, found: Propagation, view: SideView, cast: int) -> tuple[Message, Words]:
    """One value that is converted on one side, and what is computed with it."""
    module = view.module
    other = case.b if view.is_a else case.a
    own = found.pairs.keys() if view.side is A else found.pairs.values()
    softmax = any(of_softmax(module, i) is not None for i in own)
    rest = [i for i in own if module.opcodes[i] != "convert"]
    does = say("softmax") if softmax else opcodes_in_words(module, rest, other.module)
    title = say(
        "a value (",
        short_shape(module, module.operands[cast][0]),
        f") is converted to {_type(module.shapes[cast])}",
        *((" before ", does) if does else ()),
        " in ",
        view.side,
        " only",
    )
    return title, Words(short=title.sentence, short_fix=CAST_FIX)


def _of_several(
    case: Case, found: Propagation, casts: Sequence[tuple[SideView, int]]
) -> tuple[Message, Words] | None:
    """Several values that one side converts to one type; None where types or sides are two."""
    views = {view.side: view for view, _ in casts}
    types = {_type(view.module.shapes[i]) for view, i in casts}
    if len(views) != 1 or len(types) != 1 or is_jitted(case.diff.a):
        return None
    ((side, view),) = views.items()
    other = case.b if view.is_a else case.a
    own = found.pairs.keys() if side is A else found.pairs.values()
    does = opcodes_in_words(
        view.module, [i for i in own if view.module.opcodes[i] != "convert"], other.module
    )
    what = f"{len(casts)} values are converted to {types.pop()} in "
    short = say(what, "some steps", BY_AUTOCAST)
    title = say(what, side, BY_AUTOCAST, *((", for ", does) if does else ()))
    return title, Words(AUTOCAST_FIX, short, AUTOCAST_SHORT_FIX)


def _number_of(view: SideView, cast: int) -> int | None:
    """The number that comes in, if a conversion is of that, or of what is computed of it alone."""
    module = view.module
    while not is_scalar_input(module, cast):
        made_of = [i for i in module.operands[cast] if module.opcodes[i] != "constant"]
        if len(made_of) != 1 or not module.shapes[cast].endswith("[]"):
            return None
        (cast,) = made_of
    return cast


def _is_of_input(view: SideView, cast: int) -> bool:
    """Whether it converts what a computation takes in."""
    module = view.module
    return not module.operands[cast] or module.opcodes[module.operands[cast][0]] == "parameter"


def _type(shape: str) -> str:
    return shape.partition("[")[0]


def types_in_short(case: Case, pairs: Collection[int], types: Sequence[str]) -> Message:
    """What is computed in which type on either side, such as ``exponential and 30 more``.

    Empty where several types change, or values are only moved. `pairs`: what A computes; `types`:
    the changes, such as ``f32 -> bf16``.
    """
    counts = Counter(case.diff.a.opcodes[x] for x in pairs)
    named = [opcode for opcode in _ROUNDED if opcode in counts][:MAX_ROUNDED]
    if not named or len(types) != 1:
        return EMPTY
    old, new = types[0].split(" -> ")
    rest = sum(number for opcode, number in counts.items() if opcode not in named)
    more = f" and {count(rest, 'more instruction')}" if rest else ""
    return say(f"{', '.join(named)}{more} went from {old} to {new}")
