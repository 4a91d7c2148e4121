"""The same computation in another element type, as autocast makes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.canon.labels import without_layout
from xlagraph.cause.editor import ModuleEditor, is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.header import given_away
from xlagraph.diff.match import match_modules
from xlagraph.facts.pieces.casts import (
    CAST_FIX,
    casts_in_words,
    inputs_in_short,
    number_of_cast,
    shown,
    types_in_short,
)
from xlagraph.facts.pieces.propagation import propagations, together
from xlagraph.facts.pieces.regrouped import are_cut_by_casts
from xlagraph.facts.pieces.round_trips import of_one_kind, told
from xlagraph.facts.program.donated import lost_by_type
from xlagraph.facts.values.rounding import same_number
from xlagraph.facts.values.scalars import is_scalar_input, unspread
from xlagraph.message import A, B, Code, HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Diff
    from xlagraph.facts.pieces.propagation import Propagation
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

DTYPE = Kind(
    id="dtype",
    title="The same computation runs in another dtype",
    section=Section.INPUTS,
    meaning="An input, a constant or a conversion has another element type, and all that follows "
    "from it too: autocast that is on in some steps only, a loader that hands over half precision "
    "now and then, jax_enable_x64 switched on late.",
    before="""\
for step, (x, y) in enumerate(loader):
    with torch.autocast("xla", torch.bfloat16, enabled=step >= 4):
        loss = loss_fn(model(x), y)
    update(loss)
""",
    after="""\
for x, y in loader:
    with torch.autocast("xla", torch.bfloat16):
        loss = loss_fn(model(x), y)
    update(loss)
""",
    evidence="The origin, how far it spreads, and the conversions that one side alone has.",
    fix="Keep autocast, and the dtype of every input, the same in all steps.",
    proof="What is downstream of the origin gets B's types, constants too where one is the other "
    "rounded; the conversions are left out.",
    examples=(
        "autocast_toggle",
        "autocast_late",
        "label_dtype",
        "two_dtypes",
        "one_tensor_bfloat16",
        "input_bfloat16",
        "scan_bfloat16",
        "scan_carry_bfloat16",
        "rows_of_whole_numbers",
        "type_and_decay",
        "x64",
    ),
    consequences=("donors", "alias", "reordered-sum"),
    short_fix="Keep autocast and the inputs' dtypes the same in all steps.",
)
FROM_VALUES = Words(
    say(
        "Give the tensor one dtype where it is made: torch.tensor, numpy and pandas take it from "
        "the values, so that whole numbers come as int64, and one with a fraction, or an empty "
        "cell of a table, makes them floats (with downcast the smallest type that fits). Write "
        "torch.tensor(rows, dtype=torch.float32), column.to_numpy(dtype=np.float32), or convert on "
        "the host before it is sent."
    ),
    short_fix=say("Give the tensor one dtype where it is made."),
)
"""Of an input that comes as whole numbers in some steps and as floats in others, or in few bits."""
STATE_FIX = say(
    "They are donated, so that they are a state that the step gives back: begin with the types "
    "that it gives back, and where a checkpoint is read, convert what was stored in another type: ",
    Code("jnp.asarray(stored, dtype=like.dtype)"),
    ".",
)
"""Of inputs whose buffers are given away on both sides."""
_TYPE = re.compile(r"\b([a-z]+\d+\w*)\[")
"""A number type; ``pred`` is none."""
_WHOLE = re.compile(r"[su]\d+")
_USUAL = frozenset({"s32", "s64"})


def element_type(shape: str) -> str:
    """The number type of an array shape, ``""`` for a tuple."""
    found = _TYPE.match(shape)
    return found[1] if found else ""


def brings(finding: Finding, diff: Diff) -> bool:
    """Whether buffers are lost since inputs have another type, or sums cut by conversions."""
    if finding.kind.id == "reordered-sum":
        return are_cut_by_casts(diff, finding.a, finding.b)
    cited = finding.evidence[0]
    return lost_by_type(diff, [*cited.a, *(diff.match.to_a[q] for q in cited.b)])


def find(case: Case) -> list[Finding]:
    """The same steps in another number type, with conversions around them.

    One finding for each origin, or for origins whose consequences meet; and one for all arrays
    that come in and whose type changes alike, as a state that was restored in another one.
    """
    a, b = case.diff.a, case.diff.b
    pairs = {
        x: y
        for x, y, fields in case.open_changes()
        if "shape" in fields
        and "opcode" not in fields
        and _differ_in_type(a.shapes[x], b.shapes[y])
    }
    unlike = {x: y for x, y in pairs.items() if _are_unlike_casts(case, x, y)}
    pairs = {x: y for x, y in pairs.items() if x not in unlike}
    casts_a = [x for x in (*case.a.open_lone(), *unlike) if _is_cast(a, x)]
    casts_b = [y for y in (*case.b.open_lone(), *unlike.values()) if _is_cast(b, y)]
    if not (pairs or casts_a or casts_b):
        return []
    pairs, copies = _pairs_without_types(case, pairs, casts_a, casts_b)
    return [
        _finding(case, found, {x: m for x, m in copies.items() if m in found.pairs})
        for found in of_one_kind(
            case, _of_like_inputs(case, propagations(case, pairs, casts_a, casts_b))
        )
        if found.pairs or _is_between(case, found)
    ]


def _of_like_inputs(case: Case, found: Iterable[Propagation]) -> list[Propagation]:
    """Those that begin at arrays that come in, of one place and with one change of type, as one.

    And those that begin at one number.
    """
    alike: dict[object, list[Propagation]] = {}
    for number, one in enumerate(found):
        starts = _main_origins(case, one)
        key = _change_of_inputs(case, starts) or number_of_cast(case, starts) or number
        alike.setdefault(key, []).append(one)
    return [group[0] if len(group) == 1 else together(group) for group in alike.values()]


def _change_of_inputs(case: Case, starts: Sequence[tuple[int, int]]) -> tuple[object, ...]:
    """Where the inputs that it begins at are made, and how their types change; else nothing."""
    if not _are_inputs(case, starts, scalars=False):
        return ()
    a, b = case.diff.a, case.diff.b
    types = {(element_type(a.shapes[x]), element_type(b.shapes[y])) for x, y in starts}
    return (where(b, [y for _, y in starts]), *types) if len(types) == 1 else ()


def _are_unlike_casts(case: Case, x: int, y: int) -> bool:
    """Whether both are conversions, of which neither is used as the other: no true pair."""
    a, b = case.diff.a, case.diff.b
    if not (_is_cast(a, x) and _is_cast(b, y)):
        return False
    return not {case.a.partners[user] for user in a.users[x]} & set(b.users[y])


def _is_between(case: Case, found: Propagation) -> bool:
    """Whether conversions stand between values that both sides have."""
    for view, casts in ((case.a, found.lone_a), (case.b, found.lone_b)):
        module, partners = view.module, view.partners
        below = any(partners[module.operands[i][0]] >= 0 for i in casts)
        if below and any(partners[u] >= 0 for i in casts for u in module.users[i]):
            return True
    return False


def _pairs_without_types(
    case: Case, known: Mapping[int, int], casts_a: Collection[int], casts_b: Collection[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Instructions that differ in their type alone, and A's further copies of some of them.

    Both modules are matched once more with the types concerned taken for one: types tell
    instructions apart that are each other's partners.
    """
    a, b = case.diff.a, case.diff.b
    shapes = [s for x, y in known.items() for s in (a.shapes[x], b.shapes[y])]
    for module, casts in ((a, casts_a), (b, casts_b)):
        shapes += [module.shapes[k] for i in casts for k in (i, module.operands[i][0])]
    types = {found for shape in shapes for found in _TYPE.findall(shape)}
    match = match_modules(_without_types(a, types, casts_a), _without_types(b, types, casts_b))
    pairs = {
        x: y
        for x, y in enumerate(match.to_b)
        if y >= 0
        and x not in case.a.claimed
        and y not in case.b.claimed
        and a.opcodes[x] == b.opcodes[y]
        and _differ_in_type(a.shapes[x], b.shapes[y])
        and match.a.live[x]
        and _is_computed(a, x)
    }
    numbers = match.a.expressions
    first = {numbers[x]: x for x in reversed(pairs) if numbers[x] >= 0}
    copies = {x: first[numbers[x]] for x in case.diff.removed if numbers[x] in first}
    return pairs, {x: m for x, m in copies.items() if x not in pairs and x not in casts_a}


def _is_computed(module: Module, i: int) -> bool:
    """Whether an instruction is more than the tuple of all outputs."""
    return i != module.entry_computation.root or not module.gives_tuple


def _without_types(module: Module, types: set[str], casts: Iterable[int]) -> Module:
    """The module with one type in place of several and without these conversions."""
    editor = ModuleEditor(module)
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(types))})\[")
    editor.shapes = [pattern.sub("f32[", shape) for shape in editor.shapes]
    editor.bypass(casts)
    return editor.build()


def _finding(case: Case, found: Propagation, copies: Mapping[int, int]) -> Finding:
    a = case.diff.a
    starts = _main_origins(case, found)
    types = " and ".join(_types(case, found))
    title, words = (
        told(case, found)
        or casts_in_words(case, found, starts)
        or (_title(case, starts, types), _words(case, found, starts))
    )
    lines = _lines(case, found, starts)
    casts = len(found.lone_a) + len(found.lone_b)
    more = len(found.pairs) - sum(1 for x, y in starts if x >= 0 and y >= 0)
    conversions = count(casts, "conversion")

    def undo(edit: Editors) -> None:
        for x, y in found.pairs.items():
            edit.a.shapes[x] = edit.b.shapes[y]
            is_number = y in edit.b.payloads and a.opcodes[x] == "constant"
            if is_number and same_value(case, x, y):
                edit.a.payloads[x] = edit.b.payloads[y]
        for x, first in copies.items():
            edit.a.shapes[x] = edit.a.shapes[first]
        edit.a.bypass(found.lone_a)
        edit.b.bypass(found.lone_b)

    return Finding(
        kind=DTYPE,
        title=say(title, at(lines)),
        evidence=(
            Evidence(
                say("origin: ", join(origin(case, x, y) for x, y in starts)),
                tuple(x for x, _ in starts if x >= 0),
                tuple(y for _, y in starts if y >= 0),
                lines,
            ),
            Evidence(
                say(
                    f"from there {count(more, 'more instruction')} "
                    f"take{'s' if more == 1 else ''} another type",
                    f", with {conversions} on one side only" if casts else "",
                ),
                tuple(sorted(found.pairs))[:50],
                tuple(sorted(found.pairs.values()))[:50],
            ),
        ),
        proof=say(
            A,
            "'s instructions downstream of the origin were given ",
            B,
            "'s types",
            f", and {conversions} left out" if casts else "",
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        a=frozenset((*found.pairs, *copies)) | found.lone_a,
        b=frozenset(found.pairs.values()) | found.lone_b,
        undo=undo,
        brings=brings,
    )


def _lines(case: Case, found: Propagation, starts: list[tuple[int, int]]) -> tuple[SourceLine, ...]:
    a, b = case.diff.a, case.diff.b
    in_b = [y for _, y in starts if y >= 0]
    return (
        where(b, in_b)
        or where(a, [x for x, _ in starts if x >= 0])
        or where(b, [u for y in in_b for u in b.users[y]])
        or where(b, [*found.pairs.values(), *found.lone_b])
    )


def _main_origins(case: Case, found: Propagation) -> list[tuple[int, int]]:
    """The origins that the others follow: inputs, then conversions, constants last.

    A number takes the type of what it is used with; and a backward pass converts back what the
    forward pass converts, so that what is computed from another origin is none.
    """

    def rank(start: tuple[int, int]) -> int:
        view, i = shown(case, *start)
        module = view.module
        opcode = module.opcodes[i]
        if opcode == "parameter":
            return 2 if is_scalar_input(module, i) else 0
        if module.opcodes[unspread(module, i)] == "constant":
            return 3
        return 1 if opcode == "convert" else 2

    best = min(map(rank, found.origins))
    starts = [start for start in found.origins if rank(start) == best]
    return _first(case, found, starts) or starts


def _first(case: Case, found: Propagation, starts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that are computed from no other one, on either side."""
    in_a, in_b = {x for x, _ in starts}, {y for _, y in starts}
    later_a = _computed_from(case.diff.a, in_a)
    later_b = _computed_from(case.diff.b, in_b, {y for x, y in found.pairs.items() if x in later_a})
    later_a = _computed_from(case.diff.a, in_a, {x for x, y in found.pairs.items() if y in later_b})
    return [(x, y) for x, y in starts if x not in later_a and y not in later_b]


def _computed_from(
    module: Module, values: Collection[int], known: Collection[int] = ()
) -> set[int]:
    """What is computed from any of these values, and from what is known to be."""
    later = set(known)
    for i, operands in enumerate(module.operands):
        if any(o in values or o in later for o in operands):
            later.add(i)
    return later


def origin(case: Case, x: int, y: int) -> Message:
    """An instruction that begins it, with its types on both sides; -1 for the side without it."""
    a, b = case.diff.a, case.diff.b
    if x >= 0 and y >= 0:
        is_named = is_input(b, y) and y in b.entry_computation.parameters
        name = parameter_name(case.b, y) if is_named else HloName(b.names[y], b.opcodes[y])
        return say(name, f", {short_shape(a, x)} in ", A, f" and {short_shape(b, y)} in ", B)
    view, i = shown(case, x, y)
    module = view.module
    operand = module.operands[i][0]
    return say(
        HloName(module.names[i], module.opcodes[i]),
        f" converts {short_shape(module, operand)} to {element_type(module.shapes[i])} in ",
        view.side,
        " only",
    )


def _title(case: Case, starts: list[tuple[int, int]], types: str) -> Message:
    b = case.diff.b
    inputs = [y for _, y in starts if y >= 0 and y in b.entry_computation.parameters]
    if inputs:
        names = join(parameter_name(case.b, y) for y in inputs)
        has = "an input has" if len(inputs) == 1 else f"{count(len(inputs), 'input')} have"
        return say(has, " another dtype: ", names, f" ({types})")
    view, i = shown(case, *starts[0])
    module = view.module
    if all(_converts_input(case, one) for one in starts):
        to = element_type(module.shapes[i])
        return say(f"an input is converted to {to} in ", view.side, " only")
    return say(f"the same computation runs in another dtype ({types})")


def _converts_input(case: Case, start: tuple[int, int]) -> bool:
    """Whether it is a conversion, of one side alone, of what a computation takes in."""
    view, i = shown(case, *start)
    operands = view.module.operands[i]
    is_cast = -1 in start and view.module.opcodes[i] == "convert"
    return is_cast and view.module.opcodes[operands[0]] == "parameter"


def _words(case: Case, found: Propagation, starts: list[tuple[int, int]]) -> Words:
    """What is said where it begins at arrays that come in, or at one conversion on one side only.

    Of all else what is computed in the other type.
    """
    a, b = case.diff.a, case.diff.b
    if len(starts) == 1 and -1 in starts[0]:
        view, i = shown(case, *starts[0])
        to = element_type(view.module.shapes[i])
        return Words(
            short=say(f"A value is converted to {to} on one side only"), short_fix=CAST_FIX
        )
    types = [(element_type(a.shapes[x]), element_type(b.shapes[y])) for x, y in starts]
    if not _are_inputs(case, starts, scalars=all(map(changes_family, types))):
        return Words(short=types_in_short(case, found.pairs, _types(case, found)))
    short = inputs_in_short([short_shape(b, y) for _, y in starts], types)
    if any(map(changes_family, types)) or all(map(_are_whole_and_small, types)):
        return FROM_VALUES._replace(short=short)
    is_one = len(starts) == 1
    given = say("Give the input" if is_one else "Give the inputs", " one dtype in every step")
    away_a, away_b = given_away(a), given_away(b)
    if all(int(a.payloads[x]) in away_a and int(b.payloads[y]) in away_b for x, y in starts):
        return Words(STATE_FIX, short, say(given, "."))
    fix = say(
        given, ": convert what comes in another one on the host, before it is sent, or where ",
        "numpy makes it (its own whole numbers are int64, its floats float64).",
    )  # fmt: skip
    return Words(fix, short, say(given, "."))


def _are_inputs(case: Case, starts: Iterable[tuple[int, int]], *, scalars: bool) -> bool:
    """Whether it begins at what both modules take in: arrays, or single numbers as well."""
    a, b = case.diff.a, case.diff.b
    inputs = {*a.entry_computation.parameters}, {*b.entry_computation.parameters}
    return all(
        (x in inputs[0] and is_input(a, x) and (scalars or not is_scalar_input(a, x)))
        and (y in inputs[1] and is_input(b, y) and (scalars or not is_scalar_input(b, y)))
        for x, y in starts
    )


def _are_whole_and_small(types: tuple[str, str]) -> bool:
    """Whether both types are of whole numbers and one is smaller than anybody has by default."""
    return all(map(_WHOLE.fullmatch, types)) and not _USUAL.issuperset(types)


def changes_family(types: tuple[str, str]) -> bool:
    """Whether one type is of floating point and the other is not, as values may decide."""
    old, new = (number_family(one) == "f" for one in types)
    return old != new


def _types(case: Case, found: Propagation) -> list[str]:
    """The changes of type in a propagation, such as ``f32 -> bf16``."""
    a, b = case.diff.a, case.diff.b
    changes = {
        f"{old} -> {new}"
        for x, y in found.pairs.items()
        for old, new in zip(_TYPE.findall(a.shapes[x]), _TYPE.findall(b.shapes[y]), strict=False)
        if old != new
    }
    if not found.pairs:
        for module, casts in ((a, found.lone_a), (b, found.lone_b)):
            changes |= {
                f"{element_type(module.shapes[module.operands[i][0]])} -> "
                f"{element_type(module.shapes[i])}"
                for i in casts
            }
    return sorted(changes)


def _differ_in_type(first: str, second: str) -> bool:
    one, two = without_layout(first), without_layout(second)
    return one != two and _TYPE.sub("*[", one) == _TYPE.sub("*[", two)


def same_value(case: Case, x: int, y: int) -> bool:
    """Whether two constants are one number, each rounded to its type."""
    a, b = case.diff.a, case.diff.b
    types = element_type(a.shapes[x]), element_type(b.shapes[y])
    return same_number(a.payloads[x], b.payloads[y], *types)


def _is_cast(module: Module, i: int) -> bool:
    """A conversion from one type of numbers to another of its family."""
    if module.opcodes[i] != "convert":
        return False
    old, new = (element_type(module.shapes[k]) for k in (module.operands[i][0], i))
    return number_family(old) == number_family(new) != "" and old != new


def number_family(kind: str) -> str:
    """Of a number type: ``f`` for floating point, ``i`` for integers, ``c`` for complex numbers."""
    return "f" if kind.startswith(("f", "bf")) else "i" if kind[:1] in "su" else kind[:1]


RULE = Rule(
    name="dtype",
    kinds=(DTYPE,),
    find=find,
    after=("rematerialization",),
    rematches=True,
)
