"""Functions that are called in one module and stand in line in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.case import Case
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.calls.inlining import diff_in_line, inline_both
from xlagraph.message import A, B, count, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

INLINED_CALLS = Kind(
    id="inlined-calls",
    title="Functions are called in one module and stand in line in the other",
    section=Section.PIECES,
    meaning="A jitted function inside another one is lowered as a call. With inline=True, or "
    "traced without its own jit, its instructions stand in the caller instead. XLA inlines calls "
    "itself, so both compute the same; the module it is given is another one all the same.",
    before="""\
step = jax.jit(lambda w, x: loss(layer(w, x)))
if debug:
    layer = jax.jit(layer, inline=True)
""",
    after="""\
layer = jax.jit(layer)  # in one way, everywhere
step = jax.jit(lambda w, x: loss(layer(w, x)))
""",
    evidence="The calls on both sides. With every call replaced by what it calls, the modules are "
    "the same.",
    fix="XLA inlines calls itself, yet its input is another one: wrap the function with jax.jit, "
    "and set inline, in the same way everywhere.",
    proof="All calls are put in line in both modules.",
    examples=("jit_inline",),
    short="A function is called here and inlined there",
    short_fix="Wrap the function with jax.jit in the same way everywhere.",
)


def find(case: Case) -> list[Finding]:
    """Only where calls are all that differs."""
    a, b = case.diff.a, case.diff.b
    calls_a = [x for x in case.diff.removed if a.opcodes[x] == "call"]
    calls_b = [y for y in case.diff.added if b.opcodes[y] == "call"]
    calls_a += [c.a for c in case.diff.changes if a.opcodes[c.a] == "call"]
    calls_b += [c.b for c in case.diff.changes if b.opcodes[c.b] == "call"]
    if not (calls_a or calls_b):
        return []
    in_line = diff_in_line(a, b)
    if in_line is None or not _is_complete(in_line):
        return []
    lines = where(b, calls_b) or where(a, calls_a)
    return [
        Finding(
            kind=INLINED_CALLS,
            title=say(
                f"only calls of functions differ: {count(_calls(a), 'call')} in ",
                A,
                f", {_calls(b)} in ",
                B,
                at(lines),
            ),
            evidence=(
                Evidence(
                    say("with every call replaced by what it calls the modules are the same"),
                    tuple(calls_a),
                    tuple(calls_b),
                    lines,
                ),
            ),
            proof=say("calls were put in line in both modules"),
            a=frozenset({c.a for c in case.diff.changes} | set(case.diff.removed)),
            b=frozenset({c.b for c in case.diff.changes} | set(case.diff.added)),
            undo=inline_both,
            is_exact=True,
        )
    ]


def _is_complete(diff: Diff) -> bool:
    """Whether both compute the same outputs, in whatever order: `output-order` tells of that."""
    return diff.same or (not diff.differing and all(None not in slot for slot in diff.outputs))


def _calls(module: Module) -> int:
    return sum(1 for opcode in module.opcodes if opcode == "call")


RULE = Rule(
    name="inlined-calls",
    kinds=(INLINED_CALLS,),
    find=find,
    first_round_only=True,
    rematches=True,
)
