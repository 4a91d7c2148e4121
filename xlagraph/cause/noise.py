"""Causes for modules that are the same computation and yet not the same text to a compiler.

Each is proved by the exact walk that found the modules equal: it forgives just these things.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import count, join
from xlagraph.cause.model import Cause, Evidence
from xlagraph.cause.sides import A, B

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.diff import Diff


def noise_causes(diff: Diff) -> tuple[Cause, ...]:
    """What still differs between two modules that compute the same; names do not count."""
    return tuple(_causes(diff))


def _causes(diff: Diff) -> Iterator[Cause]:
    noise = diff.noise
    if noise.parameters_moved:
        moves = [
            f"{s.a} -> {s.b}"
            for s in diff.parameters
            if s.a is not None and s.b is not None and s.a != s.b
        ]
        yield _cause(
            "parameter-order",
            f"only the order of parameters differs: {count(noise.parameters_moved, 'parameter')} "
            "moved",
            f"parameter numbers {A} -> {B}: {join(moves, 8)}",
            "Parameters are numbered in the order in which the trace meets them: run the same "
            "operations in the same order in every step.",
        )
    if noise.dead_a != noise.dead_b:
        yield _cause(
            "dead-code",
            f"only instructions that nothing needs differ: {noise.dead_a} in {A}, {noise.dead_b} "
            f"in {B}",
            "dead instructions are traced and dropped again by XLA's first passes",
            "Harmless in itself; do not compute what is not used, or compute it in every step.",
        )
    if noise.constants_a or noise.constants_b:
        yield _cause(
            "repeated-constants",
            "only the number of equal constants differs: "
            f"{noise.constants_a} more in {A}, {noise.constants_b} more in {B}",
            "equal constants stand once in one module and several times in the other",
            "Harmless in itself; XLA merges them.",
        )
    if noise.metadata:
        yield _cause(
            "metadata",
            f"only metadata differs: {count(noise.metadata, 'instruction')} "
            f"{'comes' if noise.metadata == 1 else 'come'} from another line or framework op",
            "with XLA_IR_DEBUG or XLA_HLO_DEBUG torch_xla makes source lines part of the cache key",
            "Run without the debug variables, or call the step from one place.",
        )


def _cause(kind: str, title: str, evidence: str, fix: str) -> Cause:
    return Cause(
        kind=kind,
        title=title,
        evidence=(Evidence(evidence),),
        fix=fix,
        share=1.0,
        proved=True,
        proof="it was left out of account",
        expected=False,
        a=frozenset(),
        b=frozenset(),
    )
