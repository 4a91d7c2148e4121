"""Numbers that are constants of the graph and have another value."""

from __future__ import annotations

import re
from collections import defaultdict
from math import isclose
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, statement, where
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.program.called_functions import called_with
from xlagraph.facts.program.typed_numbers import typed_exponent
from xlagraph.facts.program.written import lines_in_words
from xlagraph.facts.values.ranges import shifts_range, shifts_roll
from xlagraph.message import A, Change, Code, Listing, Quoted, count, say
from xlagraph.rules.numbers.scalar_argument import SPECIAL, SPECIAL_SCALAR, special_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

CONSTANT_VALUE = Kind(
    id="constant-value",
    title="A number is a constant of the graph and has another value",
    section=Section.VALUES,
    meaning="Most Python numbers become parameters of the graph, but not all: exponents, bounds, "
    "dropout rates, seeds, sizes and whatever a function bakes in are constants. One that follows "
    "the step or the epoch gives a graph for each value. Loop bodies, branches and fusions have "
    "constants, too.",
    before="""\
for step, (x, y) in enumerate(loader):
    p = torch.softmax(model(x), 1)
    update(-((1 - p).pow(2 + step % 3) * p.log()).mean())  # the exponent is a constant
""",
    after="""\
exponent = torch.tensor([2.0]).to("xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    exponent.copy_(torch.tensor([2.0 + step % 3]))
    p = torch.softmax(model(x), 1)
    update(-((1 - p).pow(exponent) * p.log()).mean())
""",
    evidence="The constant on both sides, its line, and the loop or branch that it stands in.",
    fix="Pass the value in a tensor on the device with one element, "
    "torch.tensor([value]).to(device)[0], so that it becomes a parameter. A tensor without "
    "dimensions is lowered like a number.",
    proof="A's constant gets B's value.",
    examples=(
        "focal_exponent",
        "mask_shifted",
        "scan_constant",
        "fori_trip_count",
        "fusion_constant.after",
        "seed",
        "number_of_its_own",
    ),
    short="A number baked into the graph changed",
    short_fix="Send it in one element: torch.tensor([value]).to(device)[0].",
)
ARITHMETIC = frozenset({"aten__add", "aten__sub", "aten__mul", "aten__div"})
"""What a Python number comes into as a parameter, but for the special ones."""
LIBRARY_SHORT_FIX = say("Keep this number the same in every step.")
_WRITTEN_OUT = {
    "threshold": Code("torch.where(x > t, x, value)"),
}
"""What a library's function computes, in operations that take the number as a tensor."""


_LISTED = Words(
    say(
        "Numbers that come as a list, or as a range made on the device with Python bounds "
        "(torch.arange(start, stop, device=...)), are a constant of the graph: make them on the "
        "host and send them (.to(device)), or add a tensor to a range that is always the same."
    ),
    say("a list of numbers baked into the graph changed"),
    say("Make the numbers on the host, and send them as a tensor."),
)
_ROLLED = Words(
    say(
        "torch.roll takes no tensor for its shift. Roll on the host, before the tensor is sent; or "
        "send the places as data: ",
        Code("x.index_select(dim, ((torch.arange(n) - shift) % n).to(x.device))"),
        ", n being the size of that dimension.",
    ),
    say("the shift of torch.roll changes"),
    say("Roll on the host, or index with ", Code("(arange(n) - shift) % n"), "."),
)


_DIAGONAL = Words(
    say(
        "The diagonal of torch.triu or torch.tril, and any number that a range on the device is "
        "compared with, is a constant of the graph. Keep it the same, or make the mask of a "
        "tensor: ",
        Code("rows - columns >= shift"),
        ", shift being a tensor of one element that is sent.",
    ),
    say("the diagonal of a mask changed"),
    say("Compare with a tensor of one element, ", Code("rows - columns >= shift"), "."),
)
_TRACED = Words(
    say(
        "What a jitted function takes from Python is a constant of its graph. Of two versions keep "
        "one number; where it changes as the program runs, pass the value as an argument of the "
        "function, and not one of its static_argnums."
    ),
    short_fix=say("Keep one number; if it is to change, as an argument of the jitted function."),
)
CHANGED = " changed"
"""How the words end of a number that is known better than as one."""
NUMBER = "a number baked into the graph"
_EXPONENT_SHORT = say("an exponent baked into the graph", CHANGED)
_EXPONENTS = ({"exponent"}, {"exponent", "multiply"})
"""Uses of an exponent: the derivative of ``x ** p`` multiplies by it. Other factors that Python
computes are parameters of the graph."""
_REAL = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_ROUNDING = {"bf16": 2.0**-7, "f16": 2.0**-10, "f32": 2.0**-23, "f64": 2.0**-50}
"""How far apart two numbers of a type may be that are one but for rounding, as a part of it."""
_DERIVED: tuple[Callable[[float], float], ...] = (
    lambda e: e - 1,
    lambda e: e,
    lambda e: e * (e - 1),
    lambda e: e - 2,
)
"""What a derivative of ``x ** e`` has as a factor or an exponent, and that one's derivative."""


def find(case: Case) -> list[Finding]:
    """Constants with another value, grouped by source line and by the two values."""
    a, b = case.diff.a, case.diff.b
    groups: dict[tuple[str, str, tuple[SourceLine, ...]], list[tuple[int, int]]] = defaultdict(list)
    for x, y in case.changed_alone("payload"):
        if a.opcodes[x] == "constant":
            old, new = _number(a.payloads[x]), _number(b.payloads[y])
            groups[old, new, where(b, [y])].append((x, y))
    _join_derivatives(case, groups)
    return [
        _finding(case, old, new, lines, pairs)
        for (old, new, lines), pairs in sorted(groups.items())
    ]


def _number(text: str) -> str:
    """A constant as it is written; of an array of one number that number."""
    return text if "," in text or text.startswith("{{") else text.strip("{}")


def _join_derivatives(
    case: Case, groups: dict[tuple[str, str, tuple[SourceLine, ...]], list[tuple[int, int]]]
) -> None:
    """Puts numbers of a derivative to the exponent of the forward pass that they follow from.

    What the program computes at another line of its own is mended there as well, and stays.
    """
    b = case.diff.b
    numbers = [
        _Number(
            (old, new, lines),
            frozenset(use for _, y in pairs for use in _uses(b, y)),
            _ROUNDING.get(b.shapes[pairs[0][1]].partition("[")[0], 0.0),
        )
        for (old, new, lines), pairs in groups.items()
        if _REAL.fullmatch(old) and _REAL.fullmatch(new)
    ]
    homes = {
        one.key: home
        for one in numbers
        if (home := min(filter(one.follows, numbers), key=one.distance, default=None))
    }
    for key, home in homes.items():
        while home.key in homes:
            home = homes[home.key]
        groups[home.key] += groups.pop(key)


class _Number(NamedTuple):
    """Places in which one constant has another value."""

    key: tuple[str, str, tuple[SourceLine, ...]]
    uses: frozenset[str]
    rounding: float

    @property
    def forward(self) -> SourceLine | None:
        """The first line that has it and is no derivative's."""
        line = self.key[2][0] if self.key[2] else None
        return None if line is None or line.backward_of else line

    def follows(self, other: _Number) -> bool:
        """Whether it comes of the derivative of a value that is raised to the other number."""
        if other is self or "exponent" not in other.uses:
            return False
        if other.forward and not self.forward:  # what the backward pass runs has no line
            return self.uses <= {"exponent", "multiply"} and any(
                self._is_made(other, derived) for derived in _DERIVED
            )
        is_below = all(
            float(x) < float(e) for x, e in zip(self.key[:2], other.key[:2], strict=True)
        )
        is_there = is_below and self.forward == other.forward
        return is_there and self.uses in _EXPONENTS and self._is_made(other, _DERIVED[0])

    def _is_made(self, other: _Number, derived: Callable[[float], float]) -> bool:
        rounding = max(self.rounding, other.rounding)
        return all(
            isclose(derived(float(e)), float(x), rel_tol=rounding, abs_tol=rounding * abs(float(e)))
            for x, e in zip(self.key[:2], other.key[:2], strict=True)
        )

    def distance(self, other: _Number) -> tuple[bool, int]:
        """Whether another number stands in another file, and how many lines away."""
        if not self.key[2] or not other.key[2]:
            return True, 0
        own, line = self.key[2][0], other.key[2][0]
        return own.file != line.file, abs(own.line - line.line)


def _finding(
    case: Case, old: str, new: str, lines: tuple[SourceLine, ...], pairs: list[tuple[int, int]]
) -> Finding:
    b = case.diff.b
    lines = lines or where(b, [user for _, y in pairs for user in b.users[y]])
    is_list = new.startswith("{")
    is_special = {old, new} <= SPECIAL and all(_is_scalar(case, y) for _, y in pairs)
    words = _words(case, lines, pairs, is_list=is_list)
    if not words.fix and is_special:
        a = case.diff.a
        users = [pair for x, y in pairs for pair in zip(a.users[x], b.users[y], strict=False)]
        words = special_words(case, lines, users)

    def undo(edit: Editors) -> None:
        for x, y in pairs:
            edit.a.payloads[x] = b.payloads[y]

    return Finding(
        kind=SPECIAL_SCALAR if is_special else CONSTANT_VALUE,
        title=say(
            "a Python number took another special value: "
            if is_special
            else f"a {'list of Python numbers' if is_list else 'Python number'}"
            " is baked into the graph: ",
            Change(old, new, "became"),
            f" at {count(len(pairs), 'place')}",
            at(lines),
        ),
        evidence=(
            Evidence(
                say("constant ", Change(old, new)),
                tuple(x for x, _ in pairs),
                tuple(y for _, y in pairs),
                lines,
            ),
        ),
        short=words.short,
        fix=words.fix,
        short_fix=words.short_fix,
        proof=say("the constant in ", A, " was set to ", Quoted(new, 40)),
        a=frozenset(x for x, _ in pairs),
        b=frozenset(y for _, y in pairs),
        undo=undo,
    )


def _words(
    case: Case,
    lines: tuple[SourceLine, ...],
    pairs: Sequence[tuple[int, int]],
    *,
    is_list: bool,
) -> Words:
    """What is said of the constants of an operation that is known; empty for others."""
    b = case.diff.b
    if all(_operation(case, y) == "aten__roll" for _, y in pairs) or (
        not is_jitted(b) and all(shifts_roll(b, y) for _, y in pairs)
    ):
        return _ROLLED
    if is_list:
        return _LISTED
    if all(shifts_range(b, y) for _, y in pairs):
        return _DIAGONAL
    if {use for _, y in pairs for use in _uses(b, y)} in _EXPONENTS:
        return _powered(case, lines)
    option = _library_option(lines)
    if option:
        return _library_words(option)
    numbers = [(y, user) for _, y in pairs for user in b.users[y]]
    return given_words(
        b, [(u, k) for y, u in numbers for k, o in enumerate(b.operands[u]) if o == y]
    )


def given_words(module: Module, uses: Iterable[tuple[int, int]]) -> Words:
    """What is said of a number by the function that takes it in, and by who has made the graph."""
    function = called_with(module, uses)
    given = say("a number given to ", function, CHANGED) if function else say()
    return _TRACED._replace(short=given) if is_jitted(module) else Words(short=given)


def _is_scalar(case: Case, y: int) -> bool:
    """Whether torch_xla would make a parameter of the number if it had any other value."""
    users = case.diff.b.users[y]
    operations = {_operation(case, user) for user in users}
    return _operation(case, y) == "prim__Constant" and operations <= ARITHMETIC


def _uses(module: Module, y: int) -> Iterator[str]:
    """What is done with a constant: ``exponent`` where values are raised to it, else an opcode."""
    for user in module.users[y]:
        opcode = module.opcodes[user]
        if opcode in ("broadcast", "convert"):
            yield from _uses(module, user)
        elif opcode == "power" and module.operands[user][1] == y != module.operands[user][0]:
            yield "exponent"
        else:
            yield opcode


def _powered(case: Case, lines: tuple[SourceLine, ...]) -> Words:
    """An exponent that is sent, in the program's own statement where that is understood."""
    line = statement(lines)
    typed = typed_exponent(case.program(line), line.line) if line else None
    if typed is None:
        is_traced = is_jitted(case.diff.b)
        return (_TRACED if is_traced else Words())._replace(short=_EXPONENT_SHORT)
    where_ = lines_in_words(typed.first, typed.last)
    short = say(f"Replace {where_}, with the exponent as data:", Listing(typed.code))
    return Words(short, _EXPONENT_SHORT, short)


def _operation(case: Case, y: int) -> str:
    metadata = case.diff.b.metadata(y)
    return metadata.op_type if metadata else ""


def _library_option(lines: tuple[SourceLine, ...]) -> SourceLine | None:
    """The function of ``torch.nn`` that makes the number a constant, as its own argument."""
    inner = (lines[0].called or lines[0]) if lines else None
    return inner if inner and "torch/nn/" in inner.file else None


def _library_words(option: SourceLine) -> Words:
    number = say(
        Code(option.function or "torch.nn"),
        " (",
        option,
        ") makes this number a constant, as an argument of it (a momentum, an epsilon, a bound) or "
        "a size: keep it the same in every step, or let it take few values.",
    )
    name = option.function.strip("_")
    written = _WRITTEN_OUT.get(name)
    if written is None:
        return Words(number, short_fix=LIBRARY_SHORT_FIX)
    tensor = Code("torch.tensor([number]).to(device)")
    return Words(
        say(number, " Or write out what it computes, ", written, ", with ", tensor, " in it."),
        say("a number given to ", Code(name), " changes from step to step"),
        say("Write ", written, ", the number sent as a tensor."),
    )


RULE = Rule(
    name="constant-value",
    kinds=(CONSTANT_VALUE,),
    find=find,
    after=("other-operation",),
)
