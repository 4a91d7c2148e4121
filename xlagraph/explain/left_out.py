"""What comes of a part of the model that one side leaves out: what hangs together with it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.facts.pieces.pieces import connected
from xlagraph.facts.values.scalars import is_scalar_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine


def comes_of_block(finding: Finding, block: Finding, diff: Diff) -> bool:
    """Whether all that a finding is about hangs together with the block, through nothing shared.

    That is what it adds to one side, in instructions and outputs; where it adds nothing, the
    operands that what both sides compute takes from one alone (a list of gradients' norms).
    What takes in more of what both sides take in (a penalty on all weights) is a cause of its own.
    An optimizer's outputs in another order come of it, too: with the block some are gone.
    """
    if finding.reorders:
        return bool(finding.lines) and all(_is_optimizers(line) for line in finding.lines)
    found = [
        _around(diff.a, diff.removed, diff.match.to_b, finding.a, finding.dropped_a, block.a),
        _around(diff.b, diff.added, diff.match.to_a, finding.b, finding.dropped_b, block.b),
    ]
    return all(is_inside for _, is_inside in found) and any(is_any for is_any, _ in found)


def _around(
    module: Module,
    lone: Sequence[int],
    partners: Sequence[int],
    claimed: frozenset[int],
    dropped: frozenset[int],
    block: frozenset[int],
) -> tuple[bool, bool]:
    """Whether a finding adds anything to a side, and whether all of that is the block's."""
    alone = frozenset(lone)
    added = claimed & alone | {module.outputs[k] for k in dropped}
    own = added | {o for i in claimed - alone for o in module.operands[i]} & alone
    below = {o for i in added & alone for o in module.operands[i] if not _is_plain(module, o)}
    shared = {o for o in below if partners[o] >= 0 and is_input(module, o)}
    mine = {o for o in below & alone if o not in added or is_input(module, o)}
    is_apart = len(shared) > len(mine)
    return bool(own), not is_apart and own <= connected(module, lone, block)


def _is_plain(module: Module, i: int) -> bool:
    return module.opcodes[i] == "constant" or is_scalar_input(module, i)


def _is_optimizers(line: SourceLine) -> bool:
    return "torch/optim/" in (line.called or line).file
