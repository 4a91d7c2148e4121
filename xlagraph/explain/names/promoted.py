"""A state that is taken in as one type and given back as a wider one, which the next step takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.explain.names.merged import merged, numbers_of, pairs_of
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.values.scalars import SPREADS, number_of
from xlagraph.message import A, B, Code, count, say
from xlagraph.rules.dtypes.dtype import DTYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

NARROW = ("bf16", "f16")
WIDE = "f32"
AS_ROUNDED = 1 / 128
"""How far bfloat16 rounds a number at most, relative to it."""
FIX = say(
    "Something wide takes part in the update, an array or a strongly typed scalar in f32, such as "
    "a learning rate that is taken from an array: its type wins over the narrow one. Give the new "
    "values the type of the old ones: ",
    Code("(p - (lr * u).astype(p.dtype))"),
    "; or keep the state in f32 from the start, and compute with a narrow copy of it.",
)
TORCH_FIX = say(
    "Something wide takes part in the update, such as a tensor in f32 that is multiplied: its type "
    "wins over the narrow one. Give the new values the type of the old ones: ",
    Code("new.to(p.dtype)"),
    "; or keep the state in f32 from the start, and compute with a narrow copy of it.",
)
SHORT_FIX = say("Begin with the wide type, or cast new values back.")

PRODUCTS = ("dot", "convolution")
"""What adds products up, in the type that it gives or in a wider one."""
RESULT_FIX = say(
    "A product of narrow values is added up in f32 where it is asked to give that, as by ",
    Code("preferred_element_type=jnp.float32"),
    "; where it gives the narrow type each result is rounded first, and a cast behind it brings "
    "nothing back. Ask for one result type in both versions.",
)
RESULT_SHORT_FIX = say("Ask for one result type in both (preferred_element_type).")


def with_result_type(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; that of types as products that give a wide result on one side alone.

    Both sides multiply values of the narrow type there.
    """
    return [_as_result_type(diff, cause) if cause.kind is DTYPE else cause for cause in causes]


def _as_result_type(diff: Diff, cause: Cause) -> Cause:
    pairs = [pair for pair in pairs_of(diff, cause) if diff.a.opcodes[pair[0]] in PRODUCTS]
    for x, y in pairs:
        results = [_type(diff.a, x), _type(diff.b, y)]
        taken = {_type(diff.a, o) for o in diff.a.operands[x]}
        taken |= {_type(diff.b, o) for o in diff.b.operands[y]}
        if len(taken) != 1 or not taken <= {*NARROW} or sorted(results) != sorted((WIDE, *taken)):
            continue
        (narrow,) = taken
        wide = A if results[0] == WIDE else B
        short = say(
            f"{diff.a.opcodes[x]} of {narrow} values gives {WIDE} in ",
            *(wide, f", and {narrow} in ", wide.other),
        )
        return replace(
            cause,
            title=short.sentence,
            short=short,
            fix=RESULT_FIX,
            short_fix=RESULT_SHORT_FIX,
            evidence=(Evidence(short, (x,), (y,)), *cause.evidence),
        )
    return cause


def _type(module: Module, i: int) -> str:
    return bare_shape(module, i).partition("[")[0]


def with_promoted(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; that of types as a state that one side widens, with numbers that it rounds.

    One side takes tensors in as a narrow type and gives as many of these sizes back as a wide one,
    which is what the other side takes in.
    """
    main = next((cause for cause in causes if cause.kind is DTYPE and cause.proved), None)
    if main is None or main is not causes[0]:
        return list(causes)
    for side, module, other in ((A, diff.a, diff.b), (B, diff.b, diff.a)):
        for narrow in NARROW:
            number = _widened(module, other, narrow)
            if number:
                what = say(
                    *(side, f" takes {count(number, 'tensor')} as {narrow} and gives "),
                    f"{'its' if number == 1 else 'their'} new values back as {WIDE}, which ",
                    *(side.other, " takes in"),
                )
                return merged(
                    causes,
                    main,
                    [main, *(c for c in causes if _is_rounded(c) or _is_lost(diff, side, c))],
                    [Evidence(what)],
                    title=what,
                    short=what,
                    fix=FIX if is_jitted(diff.a) else TORCH_FIX,
                    short_fix=SHORT_FIX,
                )
    return list(causes)


def _widened(module: Module, other: Module, narrow: str) -> int:
    """How many tensors a module takes narrow and gives back wide, that the other takes wide."""
    taken = _sizes(module, module.entry_computation.parameters, narrow)
    given = _sizes(module, module.outputs, WIDE) - _sizes(
        module, module.entry_computation.parameters, WIDE
    )
    wide = _sizes(other, other.entry_computation.parameters, WIDE)
    return (taken & given & wide).total()


def _sizes(module: Module, own: Iterable[int], kind: str) -> Counter[str]:
    """The sizes of those of a type, single numbers aside."""
    shapes = (bare_shape(module, i).partition("[") for i in own)
    return Counter(sizes for dtype, _, sizes in shapes if dtype == kind and sizes != "]")


def _is_rounded(cause: Cause) -> bool:
    """Whether a cause is of one number, which is the other one in a narrow type."""
    numbers = numbers_of(cause)
    if numbers is None:
        return False
    old, new = numbers
    return 0 < abs(old - new) <= AS_ROUNDED * abs(old)


def _is_lost(diff: Diff, side: Side, cause: Cause) -> bool:
    """Whether a cause is of products with numbers that a narrow type rounds to 1: it has none.

    `side`: that of the narrow type.
    """
    alone = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
    module, own, narrow = (diff.b, *alone[::-1]) if side is A else (diff.a, *alone)
    products = [i for i in own if module.opcodes[i] == "multiply"]
    is_all = all(module.opcodes[i] in ("multiply", "constant", *SPREADS) for i in own)
    is_lost = is_all and not narrow and bool(products)
    return is_lost and all(_is_nearly_one(module, i) for i in products)


def _is_nearly_one(module: Module, product: int) -> bool:
    numbers = [number_of(module, operand) for operand in module.operands[product]]
    texts = [
        module.payloads[i] for i in numbers if i is not None and module.opcodes[i] == "constant"
    ]
    return any(0 < abs(float(text) - 1) <= AS_ROUNDED / 2 for text in texts)
