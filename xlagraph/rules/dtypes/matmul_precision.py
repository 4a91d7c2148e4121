"""Matrix products and convolutions at another precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, Quoted, count, join, say

if TYPE_CHECKING:
    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Attributes

MATMUL_PRECISION = Kind(
    id="matmul-precision",
    title="Matrix products run at another precision",
    section=Section.VALUES,
    meaning="The precision of products and convolutions is an option of each of them. A setting "
    "that is changed between two steps changes all of them at once.",
    before="""\
step = jax.jit(train_step)
step(state, batch)
jax.config.update("jax_default_matmul_precision", "highest")
step(state, batch)  # compiled again
""",
    after="""\
jax.config.update("jax_default_matmul_precision", "highest")
step = jax.jit(train_step)
step(state, batch)
step(state, batch)
""",
    evidence="The precisions, and the number of products.",
    fix="Set the precision once, before the first step (torch_xla.backends.set_mat_mul_precision, "
    "jax_default_matmul_precision).",
    proof="A's products get B's precision.",
    examples=("matmul_precision",),
    short_fix="Set the precision once, before the first step.",
)
KEYS = frozenset({"operand_precision", "algorithm"})


def find(case: Case) -> list[Finding]:
    """Operations whose precision alone differs: one setting, one cause."""
    a, b = case.diff.a, case.diff.b
    pairs = [
        (x, y)
        for x, y in case.changed_alone("attributes")
        if a.opcodes[x] in ("dot", "convolution")
        and _rest(a.attributes[x]) == _rest(b.attributes[y])
    ]
    if not pairs:
        return []
    lines = where(b, [y for _, y in pairs])
    settings = sorted(
        {(_precision(a.attributes[x]), _precision(b.attributes[y])) for x, y in pairs}
    )
    changes = join((say(Quoted(old), " -> ", Quoted(new)) for old, new in settings), len(settings))

    def undo(edit: Editors) -> None:
        for x, y in pairs:
            new = tuple(item for item in edit.b.attributes[y].items if item[0] in KEYS)
            own = edit.a.attributes[x]
            edit.a.attributes[x] = replace(own, items=_rest(own) + new)

    return [
        Finding(
            kind=MATMUL_PRECISION,
            title=say(
                f"{count(len(pairs), 'matrix product')} at another precision: ", changes, at(lines)
            ),
            evidence=(
                Evidence(
                    say("precision of the operands: ", changes),
                    tuple(x for x, _ in pairs),
                    tuple(y for _, y in pairs),
                    lines,
                ),
            ),
            proof=say(A, "'s products were given ", B, "'s precision"),
            a=frozenset(x for x, _ in pairs),
            b=frozenset(y for _, y in pairs),
            undo=undo,
        )
    ]


def _rest(attributes: Attributes) -> tuple[tuple[str, str], ...]:
    return tuple(item for item in attributes.items if item[0] not in KEYS)


def _precision(attributes: Attributes) -> str:
    return " ".join(v.strip("{}") for k, v in attributes.items if k in KEYS) or "default"


RULE = Rule(
    name="matmul-precision",
    kinds=(MATMUL_PRECISION,),
    find=find,
    after=("constant-value",),
)
