"""Stretches of the computation in another floating-point type, with conversions at their borders.

A normalization in half precision in place of single: its inputs, its numbers and what its sums
apply take another type, and conversions stand elsewhere, so that few instructions pair off. Or a
mask comes as truth values on one side and as numbers on the other, and is counted as such.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import ModuleEditor
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, operations, where
from xlagraph.diff.match import match_modules
from xlagraph.facts.pieces.casts import (
    PRODUCTS,
    inputs_in_short,
    number_cast,
    number_in_words,
    numbers_met,
)
from xlagraph.facts.pieces.first_types import first_of, number_used
from xlagraph.facts.program.arguments import argument_name, is_jitted
from xlagraph.facts.shapes.transposes import fold_transposes
from xlagraph.facts.values.scalars import is_number, through
from xlagraph.facts.values.telling import COMMON, PLAIN, opcodes_in_words
from xlagraph.message import A, B, Code, HloName, count, join, say
from xlagraph.rules.dtypes.dtype import (
    DTYPE,
    FROM_VALUES,
    brings,
    changes_family,
    element_type,
    same_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message

_FLOAT = re.compile(r"\b(?:bf16|f\d+\w*)\[")
_ANY = re.compile(r"\b(?:bf16|pred|[fsu]\d+\w*)\[")
FIX = say(
    "One side converts values (.float(), .to(), astype, autocast) before these operations, and "
    "back behind them: do it on both sides, or on neither. Means, variances and softmax in half "
    "precision lose digits that f32 keeps."
)
SHORT_FIX = say("Convert the same values (.float(), .to()) on both sides.")
LEFT_FIX = say(
    "The step gives back in another type what it takes in, so that the next one takes in that: an "
    "update that mixes types gives the wider one. Cast new values back, ",
    Code("(p - rate * g).astype(p.dtype)"),
    ", or begin with tensors of the type that the updates give.",
)
LEFT_SHORT_FIX = say("Begin with the wide type, or cast new values back.")
NORM = frozenset({"reduce", "rsqrt"})
OF_NORMS = NORM | COMMON | {"maximum", "power", "select", "sqrt"}
"""What a norm computes in both directions."""
NUMBER_FIX = say(
    "A Python float is weakly typed in JAX and takes the type of the arrays that it meets; the "
    "array that a step gives back for it does not, and f32 is what both then have. Begin with an "
    "array, ",
    Code("jnp.float32(1.0)"),
    ", and convert it where it is used: ",
    Code("x * gain.astype(x.dtype)"),
    ".",
)
"""Of a number that one side converts to the type of what it is used with."""
NUMBER_SHORT_FIX = say("Begin with an array, and convert the number where it is used.")
MAX_FIRST = 3
"""Places at which types differ first, up to which they are told."""
MAX_CITED = 50
MAX_CHANGES = 2
"""Changes of type that are told, the most frequent first."""


class _Stretch(NamedTuple):
    """What differs in its type where all types of a family are taken for one."""

    family: re.Pattern[str]
    pairs: dict[int, int]
    """A's instructions to B's."""
    met: dict[int, int]
    """Those of one type that have no partner with types as they are: what stands around differs."""
    numbers: dict[int, int]
    """Constants of B to those of A that stand for them: one number, rounded to each type."""
    casts_a: list[int]
    casts_b: list[int]
    """All conversions between types of the family."""

    @property
    def name(self) -> str:
        """The family in words."""
        return "floating-point types" if self.family is _FLOAT else "types"


def find(case: Case) -> list[Finding]:
    """One finding for all that is computed in another floating-point type.

    Or in another type at all, of what follows from arrays that come in another one.
    """
    found = _stretch(case, _FLOAT)
    if not found.pairs:
        found = _stretch(case, _ANY)
        entry = case.diff.a.entry_computation.parameters
        if not any(x in entry and not is_number(case.diff.a, x) for x in found.pairs):
            return []
    return [_finding(case, found)]


def _stretch(case: Case, family: re.Pattern[str]) -> _Stretch:
    a, b = case.diff.a, case.diff.b
    casts_a, casts_b = _casts(a, family), _casts(b, family)
    if len({*_types(a, family), *_types(b, family)}) < 2:
        return _Stretch(family, {}, {}, {}, casts_a, casts_b)
    match = match_modules(_in_one_type(a, casts_a, family), _in_one_type(b, casts_b, family))
    pairs = {
        x: y
        for x, y in enumerate(match.to_b)
        if y >= 0 and match.a.live[x] and _is_retyped(a.shapes[x], b.shapes[y], family)
    }
    met = {
        x: y
        for x, y in enumerate(match.to_b)
        if y >= 0 and x not in pairs and match.a.live[x]
        if case.a.partners[x] < 0 and case.b.partners[y] < 0
    }
    numbers = _numbers(case, match.to_b) if pairs else {}
    return _Stretch(family, pairs, met, numbers, casts_a, casts_b)


def _numbers(case: Case, to_b: Sequence[int]) -> dict[int, int]:
    """Constants of B that stand where A has another one, and are one number but for their types."""
    a, b = case.diff.a, case.diff.b
    found: dict[int, set[int]] = {}
    for x, y in enumerate(to_b):
        if y >= 0 and len(a.operands[x]) == len(b.operands[y]):
            for p, q in zip(a.operands[x], b.operands[y], strict=True):
                if b.opcodes[q] == "constant" and to_b[p] != q:
                    found.setdefault(q, set()).add(p)
    return {
        q: min(others)
        for q, others in found.items()
        if all(a.opcodes[p] == "constant" and same_value(case, p, q) for p in others)
    }


def _casts(module: Module, family: re.Pattern[str]) -> list[int]:
    return [
        i
        for i, opcode in enumerate(module.opcodes)
        if opcode == "convert"
        and family.match(module.shapes[i])
        and family.match(module.shapes[module.operands[i][0]])
    ]


def _types(module: Module, family: re.Pattern[str]) -> list[str]:
    return [found for shape in module.shapes for found in family.findall(shape)]


def _is_retyped(first: str, second: str, family: re.Pattern[str]) -> bool:
    """Whether two shapes of as many arrays have other types of a family."""
    old, new = family.findall(first), family.findall(second)
    return len(old) == len(new) and old != new


def _in_one_type(module: Module, casts: list[int], family: re.Pattern[str]) -> Module:
    editor = ModuleEditor(module)
    _take_one_type(editor, casts, family)
    return editor.build()


def _take_one_type(editor: ModuleEditor, casts: list[int], family: re.Pattern[str]) -> None:
    editor.shapes = [family.sub("f32[", shape) for shape in editor.shapes]
    editor.bypass(casts)
    fold_transposes(editor)  # between which a conversion stood


def _finding(case: Case, found: _Stretch) -> Finding:
    a, b = case.diff.a, case.diff.b
    computed = {
        x: y
        for x, y in found.pairs.items()
        if a.opcodes[x] not in ("parameter", "constant", "tuple")
    } or found.pairs
    lines = where(b, computed.values()) or where(a, computed)
    lone_a = {i for i in found.casts_a if case.a.partners[i] < 0}
    lone_b = {i for i in found.casts_b if case.b.partners[i] < 0}

    first = first_of(case, computed)
    number = number_used(case, first)
    words = _of_number(case, *number) if number else _words(case, found, computed)
    casts = [*((x, -1) for x in sorted(lone_a)), *((-1, y) for y in sorted(lone_b))]
    cast = None if number else number_cast(case, casts)
    title = say(
        "the same computation runs in another dtype (",
        _changes(case, computed, found.family),
        ")",
        say(" from ", parameter_name(case.b, number[1]), " on") if number else say(),
    )
    met = None if number or cast else numbers_met(case, first)
    met = met or (cast and (cast[0], [cast[1]]))
    title, words = number_in_words(case, met[0], *met[1]) if met else (title, words)

    def undo(edit: Editors) -> None:
        for x, y in found.pairs.items():
            if a.opcodes[x] == "constant" and same_value(case, x, y):
                edit.a.payloads[x] = edit.b.payloads[y]
        for y, x in found.numbers.items():
            edit.b.payloads[y] = edit.a.payloads[x]
        _take_one_type(edit.a, found.casts_a, found.family)
        _take_one_type(edit.b, found.casts_b, found.family)

    return Finding(
        kind=DTYPE,
        title=say((found.family is _ANY and words.short) or title, at(lines)),
        short=words.short,
        fix=words.fix,
        short_fix=words.short_fix,
        evidence=(
            Evidence(
                say(
                    f"{count(len(computed), 'instruction')} of both sides",
                    operations(b, computed.values()),
                    " differ in the type",
                ),
                tuple(sorted(computed))[:MAX_CITED],
                tuple(sorted(computed.values()))[:MAX_CITED],
                lines,
            ),
            *_begins(case, first),
            Evidence(
                say(
                    f"{count(len(found.casts_a), 'conversion')} in ",
                    A,
                    f" and {len(found.casts_b)} in ",
                    B,
                    f" between {found.name}",
                ),
                tuple(sorted(lone_a))[:MAX_CITED],
                tuple(sorted(lone_b))[:MAX_CITED],
            ),
        ),
        proof=say(
            "in ",
            A,
            " and in ",
            B,
            f" all {found.name} were taken for one, conversions between them left out, and "
            "transposes of transposes taken together",
        ),
        a=frozenset((*found.pairs, *found.met)) | lone_a,
        b=frozenset((*found.pairs.values(), *found.met.values())) | lone_b,
        undo=undo,
        brings=brings,
    )


def _words(case: Case, found: _Stretch, computed: Mapping[int, int]) -> Words:
    """What runs in which type, or comes in in which; empty where types change in several ways."""
    a, b = case.diff.a, case.diff.b
    entry = a.entry_computation.parameters
    given = {x: y for x, y in found.pairs.items() if x in entry and not is_number(a, x)}
    if given:
        return _given(case, given)
    changes = {
        (old[:-1], new[:-1])
        for x, y in computed.items()
        for old, new in zip(*_types_of(case, x, y, found.family), strict=True)
        if old != new
    }
    if len(changes) != 1:
        return Words()
    ((old, new),) = changes
    work = {a.opcodes[x] for x in computed} - PLAIN
    is_norm = NORM <= work <= OF_NORMS
    what = "statistics of norms" if is_norm else opcodes_in_words(b, computed.values(), a)
    run = " are computed in " if is_norm else " run in "
    of = say("" if is_norm else _of_weight(case, computed))
    return Words(FIX, say(what, of, f"{run}{old} in ", A, f" and in {new} in ", B), SHORT_FIX)


def _of_weight(case: Case, computed: Mapping[int, int]) -> Message:
    """The input that what is computed in another type takes in, if it is one alone.

    Else how large the first product is: nothing else tells where it is.
    """
    module = case.diff.b
    entry = module.entry_computation.parameters
    taken = (through(module, o, {"convert"}) for y in computed.values() for o in module.operands[y])
    inputs = {i for i in taken if i in entry and not is_number(module, i)}
    if len(inputs) == 1:
        return say(" with ", parameter_name(case.b, inputs.pop()))
    products = (y for y in sorted(computed.values()) if module.opcodes[y] in PRODUCTS)
    first = next(products, None)
    return say(f", first of {short_shape(module, first)},") if first is not None else say("")


def _of_number(case: Case, x: int, y: int) -> Words:
    """What is said of a number that comes in and is converted to the narrower type on one side."""
    a = case.diff.a
    typed = {
        view: element_type(view.module.shapes[u])
        for view, i in ((case.a, x), (case.b, y))
        for u in view.module.users[i]
        if view.module.opcodes[u] == "convert" and view.partners[u] < 0
    }
    if len(typed) != 1 or not is_jitted(a):
        return Words(FIX, say(), SHORT_FIX)
    ((view, to),) = typed.items()
    short = say(parameter_name(case.b, y), f" is converted to {to} in ", view.side, " only")
    return Words(NUMBER_FIX, short, NUMBER_SHORT_FIX)


def _begins(case: Case, first: Mapping[int, int]) -> tuple[Evidence, ...]:
    """Where the types differ first, where that is at few places."""
    if not 0 < len(first) <= MAX_FIRST:
        return ()
    a, b = case.diff.a, case.diff.b
    told = [
        say(
            HloName(b.names[y], b.opcodes[y]),
            " of ",
            join(_source(case.b, o) for o in dict.fromkeys(b.operands[y])),
            f", {short_shape(a, x)} in ",
            A,
            f" and {short_shape(b, y)} in ",
            B,
        )
        for x, y in first.items()
    ]
    text = say("the types differ first at ", join(told, MAX_FIRST, "; "))
    return (Evidence(text, tuple(first), tuple(first.values()), where(b, first.values())),)


def _source(view: SideView, i: int) -> Message:
    """What an instruction takes in, behind conversions."""
    module = view.module
    i = through(module, i, {"convert"})
    name = HloName(module.names[i], module.opcodes[i])
    is_given = i in module.entry_computation.parameters
    return say(parameter_name(view, i), ", ", name) if is_given else say(name)


def _given(case: Case, inputs: Mapping[int, int]) -> Words:
    """What is said of tensors that come in another type, as one step may have left them."""
    a, b = case.diff.a, case.diff.b
    types = [
        (short_shape(a, x).partition("[")[0], short_shape(b, y).partition("[")[0])
        for x, y in inputs.items()
    ]
    short = inputs_in_short(
        [short_shape(b, y) for y in inputs.values()], types, argument_name(b, min(inputs.values()))
    )
    if any(changes_family(pair) for pair in types):
        return Words(FROM_VALUES.fix, short, FROM_VALUES.short_fix)
    taken = [Counter(short_shape(a, x) for x in inputs), Counter()]
    taken[1].update(short_shape(b, y) for y in inputs.values())
    for module, (own, others) in ((a, taken), (b, taken[::-1])):
        out = Counter(short_shape(module, value) for value in module.outputs)
        if others <= out and not own.keys() & out.keys():
            return Words(LEFT_FIX, short, LEFT_SHORT_FIX)
    return Words(short=short)


def _types_of(
    case: Case, x: int, y: int, family: re.Pattern[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The types of an instruction of A and of one of B, as they are written before a shape."""
    return family.findall(case.diff.a.shapes[x]), family.findall(case.diff.b.shapes[y])


def _changes(case: Case, pairs: Mapping[int, int], family: re.Pattern[str]) -> str:
    """``f32 -> bf16``: how types change, the most frequent first."""
    counts = Counter(
        f"{old[:-1]} -> {new[:-1]}"
        for x, y in pairs.items()
        for old, new in zip(*_types_of(case, x, y, family), strict=False)
        if old != new
    )
    return " and ".join(change for change, _ in counts.most_common(MAX_CHANGES))


RULE = Rule(
    name="dtype-stretch",
    kinds=(),
    find=find,
    before=("inlined-calls",),
    first_round_only=True,
    rematches=True,
    last_resort=True,
)
