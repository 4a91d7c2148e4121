"""Which of several causes is the origin: the forward pass comes before what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.cause.slices import IDLE
from xlagraph.cause.sources import is_forward, line_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.graph import Module


def following(diff: Diff, findings: Sequence[Finding]) -> list[Finding]:
    """Those of which the backward pass and the optimizer compute all, where the forward differs.

    Another branch in the forward pass brings other gradients, and other parameters that have one:
    these pieces may be larger than the branch itself.
    """
    if len(findings) < 2 or all(f.kind.section is not Section.PIECES for f in findings):
        return []  # nothing to put in order, or no branch
    behind_a, behind_b = _behind(diff.a), _behind(diff.b)
    computed = {
        id(f): [
            *(behind_a[i] for i in _computed(diff.a, f.a.intersection(diff.removed))),
            *(behind_b[i] for i in _computed(diff.b, f.b.intersection(diff.added))),
        ]
        for f in findings
        if f.kind.section in (Section.PIECES, Section.LIVE)
    }
    if all(all(computed[id(f)]) for f in findings if f.kind.section is Section.PIECES):
        return []
    return [f for f in findings if computed.get(id(f)) and all(computed[id(f)])]


def _computed(module: Module, instructions: frozenset[int]) -> list[int]:
    """Those of the program itself that compute something; what has no line tells nothing."""
    entry = module.entry_computation
    inside = (i for i in instructions if entry.start <= i < entry.stop)
    return [i for i in inside if module.opcodes[i] not in IDLE and line_of(module, i)]


def _behind(module: Module) -> bytearray:
    """Which instructions are of the backward pass or of the optimizer, or compute with theirs."""
    found = bytearray(len(module))
    for i in range(len(module)):
        line = line_of(module, i)
        is_own = line is not None and not (line.is_library or is_forward(line))
        found[i] = is_own or any(found[o] for o in module.operands[i])
    return found
