"""Values of one sign, whatever the inputs: what asks for their sign asks nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from xlagraph.graph import Module

MAX_DEPTH = 24
"""Instructions on the way from a value to what says that it is not negative."""
_POSITIVE = frozenset({"exponential", "logistic"})
_NEVER = _POSITIVE | {"abs", "rsqrt", "sqrt"}
_KEEPS = frozenset({"broadcast", "convert", "copy", "reshape", "slice", "transpose"})
_Known = dict[tuple[int, int], bool]
"""What is known of an instruction, looked at so deep: one that several take in is asked once."""
_NEUTRAL = {"maximum": "-inf", "minimum": "inf"}


def is_never_negative(module: Module, i: int) -> bool:
    """Whether an instruction's values are at least 0 wherever they are numbers."""
    return _is_never_negative(module, i, MAX_DEPTH, {})


def _is_never_negative(module: Module, i: int, depth: int, known: _Known) -> bool:
    """The same; `known` has what was asked of values that several take in."""
    if (i, depth) not in known:
        known[i, depth] = _starts_at_zero(module, i, depth, known)
    return known[i, depth]


def _starts_at_zero(module: Module, i: int, depth: int, known: _Known) -> bool:
    opcode, operands = module.opcodes[i], module.operands[i]
    is_square = opcode == "multiply" and len({*operands}) == 1
    if opcode in _NEVER or is_square or module.shapes[i].startswith("pred["):
        return True
    if opcode == "constant":
        return _is_at_least_zero(module.payloads.get(i, ""))
    if depth == 0 or not operands:
        return False
    below = (_is_never_negative(module, o, depth - 1, known) for o in operands)
    if opcode == "power":
        return _is_even(constant_of(module, operands[1])) or next(below)
    if opcode == "select":
        return all([*below][1:])
    if opcode == "maximum":
        return any(below)
    if opcode == "reduce":
        return len(operands) == 2 and _adds(module, i) and all(below)
    if opcode == "call":
        root = module.computations[module.callees[i][0]].root
        return _is_never_negative(module, root, depth - 1, known)
    return opcode in (*_KEEPS, "add", "divide", "multiply") and all(below)


def is_positive(module: Module, i: int) -> bool:
    """Whether an instruction's values are above 0 wherever they are numbers.

    But for those that are too small for their type, as an exponential may be.
    """
    return _is_positive(module, i, MAX_DEPTH, {}, {})


def _is_positive(module: Module, i: int, depth: int, known: _Known, at_zero: _Known) -> bool:
    """The same; `at_zero` has what was asked of values that may be 0."""
    if (i, depth) not in known:
        known[i, depth] = _starts_above(module, i, depth, known, at_zero)
    return known[i, depth]


def _starts_above(module: Module, i: int, depth: int, known: _Known, at_zero: _Known) -> bool:
    opcode, operands = module.opcodes[i], module.operands[i]
    if opcode == "constant":
        return is_never_negative(module, i) and not _is_zero(module, i)
    if opcode in _POSITIVE or depth == 0 or not operands:
        return opcode in _POSITIVE
    below = (_is_positive(module, o, depth - 1, known, at_zero) for o in operands)
    match opcode:
        case "add":
            least = (_is_never_negative(module, o, MAX_DEPTH, at_zero) for o in operands)
            return any(below) and all(least)
        case "maximum":
            return any(below)
        case "clamp" | "power" | "rsqrt" | "sqrt":
            return next(below)
        case "reduce":
            return next(below) and _adds(module, i) and _is_zero(module, operands[1])
        case "select":
            return all([*below][1:])
        case _:
            return opcode in (*_KEEPS, "divide", "multiply") and all(below)


def asks_nothing(module: Module, i: int, *, in_rows: bool) -> bool:
    """Whether the answer is the same for all numbers: they are finite, not below zero, or count on.

    `in_rows`: rows that are picked are rows that there are (`domains.Assumed`). A counter that
    stops where its type ends (``optax.safe_increment``) is taken for one that does not. Among
    fractions that are combined, as the largest is sought, no two are equal.
    """
    opcode, operands = module.opcodes[i], module.operands[i]
    if opcode == "is-finite":
        return True
    if opcode == "compare" and any(
        told(module, i) for told in (_hands_on_no_number, _hands_on_zero, _is_tie)
    ):
        return True
    direction = module.attributes[i].get("direction") if opcode == "compare" else None
    if (
        in_rows
        and direction
        and (_is_row_check(module, i, direction) or _is_count_check(module, i, direction))
    ):
        return True
    if direction in ("EQ", "NE") and constant_of(module, operands[1]) in ("inf", "-inf"):
        return True
    if direction == "LT" and _is_largest(module, operands[1]):
        return True
    if direction and _is_zero(module, operands[1]) and is_positive(module, operands[0]):
        return True
    if direction != "GE":
        return False
    return is_never_negative(module, operands[0]) and _is_zero(module, operands[1])


def _hands_on_no_number(module: Module, i: int) -> bool:
    """Whether what is no number is asked for and stays none, as ``xlogy`` does, or has no sign.

    ``logaddexp`` asks a difference, and hands on the sum of both; of 0 and a value that value.
    """
    if not _is_nan_check(module, i):
        return False
    asked = module.operands[i][0]
    choices = _choices(module, i)
    return choices is not None and all(
        then == asked
        or constant_of(module, then) == "nan"
        or _is_sum_of_both(module, then, asked)
        or (module.opcodes[other] == "sign" and module.operands[other] == (asked,))
        for then, other in choices
    )


def _choices(module: Module, condition: int) -> list[tuple[int, int]] | None:
    """The pairs of values of which a condition picks; None if anything else is made of it."""
    taken = [module.operands[u] for u in module.users[condition] if module.opcodes[u] == "select"]
    if len(taken) < len(module.users[condition]) or any(one[0] != condition for one in taken):
        return None
    return [(then, other) for _, then, other in taken]


def _hands_on_zero(module: Module, i: int) -> bool:
    """Whether 0 is asked for and stays 0, as a factor of a logarithm that is a number: `xlogy`."""
    asked, zero = module.operands[i]
    if module.attributes[i].get("direction") != "EQ" or not _is_zero(module, zero):
        return False
    choices = _choices(module, i)
    return choices is not None and all(
        _is_zero(module, then) and _is_with_logarithm(module, product, asked)
        for then, product in choices
    )


def _is_with_logarithm(module: Module, product: int, value: int) -> bool:
    """Whether a product multiplies a value by the logarithm of something positive."""
    if module.opcodes[product] != "multiply":
        return False
    factors = [behind(module, o, _KEEPS) for o in module.operands[product]]
    logs = [o for o in factors if module.opcodes[o] == "log"]
    is_of_value = behind(module, value, _KEEPS) in factors
    return is_of_value and any(is_positive(module, module.operands[o][0]) for o in logs)


def _is_sum_of_both(module: Module, value: int, difference: int) -> bool:
    """Whether a value is the sum of two that are subtracted, one of which may be 0."""
    if module.opcodes[difference] != "subtract":
        return False
    both = {*module.operands[difference]}
    if module.opcodes[value] == "add" and {*module.operands[value]} == both:
        return True
    return value in both and all(_is_zero(module, i) for i in both - {value})


def _is_tie(module: Module, i: int) -> bool:
    """Whether two fractions that a computation combines are asked if they are equal, or numbers."""
    asked, own = {*module.operands[i]}, module.computation_of(i)
    is_equality = module.attributes[i].get("direction") == "EQ" or _is_nan_check(module, i)
    if not is_equality or not asked <= {*own.parameters} or own.index == module.entry:
        return False
    is_fraction = all("f" in module.shapes[p].partition("[")[0] for p in asked)
    return is_fraction and any(
        own.index in called and module.opcodes[user] == "reduce"
        for user, called in module.callees.items()
    )


def _is_nan_check(module: Module, i: int) -> bool:
    is_other = module.attributes[i].get("direction") == "NE"
    return is_other and len({*module.operands[i]}) == 1


def _is_row_check(module: Module, i: int, direction: str) -> bool:
    """Whether a whole number is asked if it is a row: it counts from the end, or is none there is.

    As JAX asks of each index: ``where(i < 0, i + n, i)``, and ``i >= 0 and i <= n - 1``. And as
    torch's losses and embeddings ask of each class if it is to be left out (`ignore_index` -100,
    `padding_idx` -1), which none is that there is.
    """
    row, bound = module.operands[i]
    if not is_whole(module, row) or not constant_of(module, bound):
        return False
    if direction in ("EQ", "NE"):
        return constant_of(module, bound).startswith("-")
    users = [(u, module.operands[u]) for u in module.users[i]]
    if direction == "LT" and _is_zero(module, bound):
        return all(
            _selects(module, u)
            and taken[2] == row
            and module.opcodes[taken[1]] == "add"
            and row in module.operands[taken[1]]
            for u, taken in users
        )
    beside = {"GE": "LE", "LE": "GE"}.get(direction)
    return beside is not None and all(
        module.opcodes[u] == "and" and any(_asks(module, o, row, beside) for o in taken if o != i)
        for u, taken in users
    )


def _selects(module: Module, i: int) -> bool:
    """Whether an instruction is a select, or calls one of its three operands, as JAX's `where`."""
    if module.opcodes[i] != "call":
        return module.opcodes[i] == "select"
    called = module.computations[module.callees[i][0]]
    is_select = module.opcodes[called.root] == "select"
    return is_select and module.operands[called.root] == called.parameters


def _is_count_check(module: Module, i: int, direction: str) -> bool:
    """Whether a count is asked if there are any, to be divided by it, as torch's losses do."""
    count, bound = module.operands[i]
    is_asked = direction == "NE" and _is_zero(module, bound) and is_never_negative(module, count)
    return is_asked and all(
        module.opcodes[u] == "select" and module.operands[u][:2] == (i, count)
        for u in module.users[i]
    )


def _asks(module: Module, i: int, row: int, direction: str) -> bool:
    is_compare = module.opcodes[i] == "compare" and module.operands[i][0] == row
    return is_compare and module.attributes[i].get("direction") == direction


def is_neutral(module: Module, i: int, operand: int, *, in_rows: bool) -> bool:
    """Whether an operand of a maximum or minimum is what nothing is beyond: an infinity.

    So is where a counter's type ends, and what it may be to be counted on; and, of rows that there
    are (`in_rows`), what keeps them between the first and the last.
    """
    opcode, bound = module.opcodes[i], constant_of(module, operand)
    if opcode == "clamp" and in_rows and module.operands[i][1] != operand and bound:
        return _is_end_of_rows(module, i, operand, bound)
    if opcode == "maximum" and in_rows and bound == "0":
        return all(_is_row(module, o) for o in module.operands[i] if o != operand)
    if opcode == "minimum" and bound.isdecimal():
        return _is_largest(module, operand) or _is_largest(module, operand, but=1)
    return opcode in _NEUTRAL and bound == _NEUTRAL[opcode]


def _is_end_of_rows(module: Module, i: int, operand: int, bound: str) -> bool:
    """Whether a bound of what only picks rows is the first, 0, or at least the last of them.

    So may be a bound for each axis, of rows that are joined with the constant 0 for the others.
    """
    picked = [
        read_shape(module.shapes[module.operands[u][0]]).dimensions
        for u in module.users[i]
        if module.opcodes[u] in ("gather", "scatter") and module.operands[u][1] == i
    ]
    numbers = bound.strip("{}").split(", ")
    if not picked or len(picked) < len(module.users[i]) or not all(map(str.isdecimal, numbers)):
        return False
    is_last = operand == module.operands[i][2]
    if len(numbers) == 1:
        return int(bound) >= max(map(max, picked)) - 1 if is_last else int(bound) == 0
    parts = _joined(module, module.operands[i][1])
    if any(len(sizes) != len(numbers) for sizes in (parts, *picked)):
        return False
    fixed = [constant_of(module, part) == "0" for part in parts]
    last = [0 if one else max(sizes) - 1 for one, *sizes in zip(fixed, *picked, strict=True)]
    least = last if is_last else [0] * len(numbers)
    return all(int(n) >= k if is_last else int(n) == k for n, k in zip(numbers, least, strict=True))


def _joined(module: Module, value: int) -> tuple[int, ...]:
    """What a value joins along its last axis, one element of each."""
    operands = module.operands[value]
    sizes = read_shape(module.shapes[value]).dimensions
    is_joined = module.opcodes[value] == "concatenate" and len(operands) == sizes[-1]
    return operands if is_joined else ()


def _is_zero(module: Module, i: int) -> bool:
    return constant_of(module, i) in ("0", "0.0")


def _is_largest(module: Module, i: int, but: int = 0) -> bool:
    """Whether it is the largest number of its type, which is signed, or so much less."""
    bits = module.shapes[i].partition("[")[0].removeprefix("s")
    return bits.isdecimal() and constant_of(module, i) == str(2 ** (int(bits) - 1) - 1 - but)


def behind(module: Module, i: int, opcodes: Collection[str]) -> int:
    """What an instruction puts into another form, by operations of these opcodes alone."""
    while module.opcodes[i] in opcodes:
        (i,) = module.operands[i]
    return i


def spread(module: Module, values: Iterable[int]) -> list[int]:
    """Values and all forms that they are put into."""
    front = [*values]
    for i in front:  # grows while it is read
        front += (user for user in module.users[i] if module.opcodes[user] in _KEEPS)
    return front


def taken_as(module: Module, value: int, call: int) -> list[int]:
    """The parameters as which a call takes a value in."""
    parameters = module.computations[module.callees[call][0]].parameters
    return [p for p, o in zip(parameters, module.operands[call], strict=True) if o == value]


def constant_of(module: Module, i: int) -> str:
    """The constant that an instruction spreads or puts into another form; empty of others.

    So is what a function is given that all its calls give the same constant.
    """
    i = behind(module, i, _KEEPS)
    if module.opcodes[i] == "parameter":
        told = {constant_of(module, o) for o in _always_given(module, i)}
        return told.pop() if len(told) == 1 else ""
    return module.payloads.get(i, "") if module.opcodes[i] == "constant" else ""


def given_as(module: Module, parameter: int) -> list[int]:
    """What each call gives a function as one of its parameters; nothing of other parameters."""
    own = module.computation_of(parameter)
    calls = [i for i in module.callers.get(own.index, ()) if module.opcodes[i] == "call"]
    place = own.parameters.index(parameter) if calls else -1
    return [module.operands[i][place] for i in calls]


def _always_given(module: Module, parameter: int) -> list[int]:
    """The same, nothing where anything but calls applies the function."""
    callers = module.callers.get(module.computation_of(parameter).index, ())
    given = given_as(module, parameter)
    return given if len(given) == len(callers) else []


def is_whole(module: Module, i: int) -> bool:
    """Whether an instruction's values are whole numbers, and no truth values."""
    return module.shapes[i][:1] in ("s", "u")


def _is_row(module: Module, i: int) -> bool:
    """Whether it is a whole number that the module is given, in some form."""
    i = behind(module, i, _KEEPS)
    if module.opcodes[i] != "parameter" or not is_whole(module, i):
        return False
    if module.computation_of(i).index == module.entry:
        return True
    given = _always_given(module, i)
    return bool(given) and all(_is_row(module, o) for o in given)


def _is_even(text: str) -> bool:
    try:
        return float(text) % 2 == 0
    except ValueError:
        return False


def _is_at_least_zero(text: str) -> bool:
    try:
        return not float(text) < 0  # nan is no number, as the mean of nothing
    except ValueError:
        return False


def _adds(module: Module, i: int) -> bool:
    root = module.computations[module.callees[i][0]].root
    return module.opcodes[root] == "add"
