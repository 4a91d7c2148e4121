"""What still differs between modules that are the same computation, and yet not the same text.

Each of these is proved by the exact walk that found the modules equal: it forgives just them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Cause, Evidence
from xlagraph.message import A, B, count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.diff import Diff
    from xlagraph.diff.changes import Slot
    from xlagraph.message import Message

_PROOF = "The exact walk over both modules leaves it out of account."
PARAMETER_ORDER = Kind(
    id="parameter-order",
    title="Only the order of parameters differs",
    section=Section.SAME,
    meaning="The same parameters under other numbers. torch_xla numbers them in the order in which "
    "the trace meets them, and their order is part of its cache key.",
    before="""\
step = jax.jit(lambda w, x: jnp.tanh(x @ w))
again = jax.jit(lambda x, w: jnp.tanh(x @ w))  # the same, its arguments the other way round
""",
    after="""\
step = jax.jit(lambda w, x: jnp.tanh(x @ w))  # one function for all calls
""",
    evidence="The numbers on both sides.",
    fix="Parameters are numbered in the order in which the trace meets them: run the same "
    "operations in the same order in every step.",
    proof=_PROOF,
    examples=("parameter_order",),
    short_fix="Run the same operations in the same order in every step.",
)
OUTPUTS_MOVED = Kind(
    id="outputs-moved",
    title="Only the order of outputs differs",
    section=Section.SAME,
    meaning="Two versions of a program, or two jitted functions, compute the same and hand it out "
    "in another order. Between two steps of one program that is output-order, and compiles again.",
    before="""\
step = jax.jit(lambda w, x: (jnp.tanh(x @ w), jnp.sum(x)))
""",
    after="""\
step = jax.jit(lambda w, x: {"total": jnp.sum(x), "value": jnp.tanh(x @ w)})
""",
    evidence="The positions on both sides.",
    fix="None needed, but for what takes outputs by position. Two tensors of one shape that took "
    "each other's places in the computation look like this, too, where texts have no names.",
    proof="B's outputs are put into A's order.",
    examples=("outputs_moved",),
    short_fix="None needed, but for what takes outputs by position.",
)
DEAD_CODE = Kind(
    id="dead-code",
    title="Only instructions that nothing needs differ",
    section=Section.SAME,
    meaning="One module has more instructions that neither an output nor a side effect depends on.",
    before="",
    after="",
    evidence="Their number on both sides.",
    fix="Harmless in itself; do not compute what is not used, or compute it in every step.",
    proof=_PROOF,
    examples=(),
    short_fix="None needed: harmless in itself.",
)
REPEATED_CONSTANTS = Kind(
    id="repeated-constants",
    title="Only the number of equal constants differs",
    section=Section.SAME,
    meaning="Equal constants stand once in one module and several times in the other.",
    before="",
    after="",
    evidence="Their number on both sides.",
    fix="Harmless in itself; XLA merges them.",
    proof=_PROOF,
    examples=(),
)
METADATA = Kind(
    id="metadata",
    title="Only metadata differs",
    section=Section.SAME,
    meaning="Other source lines or framework operations stand beside the same instructions. They "
    "are no part of torch_xla's cache key, so they are not why it compiled again.",
    before="",
    after="",
    evidence="The number of instructions that come from another line.",
    fix="Harmless in itself; what else differs is the reason.",
    proof=_PROOF,
    examples=("collective_order.after", "jit_inline.after"),
    short="Only source lines and names differ",
    short_fix="Run without the debug variables, or call from one place.",
)
LEFT_OUT = say("it was left out of account")
KINDS = (PARAMETER_ORDER, OUTPUTS_MOVED, DEAD_CODE, REPEATED_CONSTANTS, METADATA)


def remaining_differences(diff: Diff) -> tuple[Cause, ...]:
    """What still differs between two modules that compute the same; names do not count."""
    return tuple(_causes(diff))


def _causes(diff: Diff) -> Iterator[Cause]:
    noise = diff.noise
    reordered = sum(slot.a != slot.b for slot in diff.outputs)
    if reordered:
        yield _cause(
            OUTPUTS_MOVED,
            say(f"only the order of outputs differs: {count(reordered, 'output')} moved"),
            say("output positions ", A, " -> ", B, ": ", _moves(diff.outputs)),
            say(B, "'s outputs were put into ", A, "'s order"),
            frozenset(diff.b.outputs[s.b] for s in diff.outputs if s.b is not None and s.a != s.b),
        )
    if noise.parameters_moved:
        moves = _moves(diff.parameters)
        moved = count(noise.parameters_moved, "parameter")
        yield _cause(
            PARAMETER_ORDER,
            say(f"only the order of parameters differs: {moved} moved"),
            say("parameter numbers ", A, " -> ", B, ": ", moves),
        )
    if noise.dead_a != noise.dead_b:
        yield _cause(
            DEAD_CODE,
            say(
                f"only instructions that nothing needs differ: {noise.dead_a} in ",
                A,
                f", {noise.dead_b} in ",
                B,
            ),
            say("dead instructions are traced and dropped again by XLA's first passes"),
        )
    if noise.constants_a or noise.constants_b:
        yield _cause(
            REPEATED_CONSTANTS,
            say(
                f"only the number of equal constants differs: {noise.constants_a} more in ",
                A,
                f", {noise.constants_b} more in ",
                B,
            ),
            say("equal constants stand once in one module and several times in the other"),
        )
    if noise.metadata:
        number = count(noise.metadata, "instruction")
        yield _cause(
            METADATA,
            say(
                f"only metadata differs: {number} {'comes' if noise.metadata == 1 else 'come'} "
                "from another line or framework op"
            ),
            say("source lines are no part of torch_xla's cache key"),
        )


def _moves(slots: Sequence[Slot]) -> Message:
    return join((f"{s.a} -> {s.b}" for s in slots if None not in s and s.a != s.b), 8)


def _cause(
    kind: Kind,
    title: Message,
    evidence: Message,
    proof: Message = LEFT_OUT,
    b: frozenset[int] = frozenset(),
) -> Cause:
    return Cause(
        kind=kind,
        title=title,
        evidence=(Evidence(evidence, b=tuple(sorted(b))),),
        fix=say(kind.fix),
        share=1.0,
        proved=True,
        proof=proof,
        expected=False,
        a=frozenset(),
        b=frozenset(),
    )
