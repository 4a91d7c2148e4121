"""The canonical order of a computation's instructions: a walk from the root.

Where outputs may stand in any order, they are sorted by colours first: digests of what an
instruction is made of and of how it is used, refined until they say no more (colour refinement,
Weisfeiler and Leman 1968).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from xlagraph.canon.live import mark, roots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.graph import Computation, Module

DIGEST_BYTES = 16
MAX_ROUNDS = 6
"""Rounds of refinement before outputs are sorted."""


class Colours:
    """A digest for each live instruction of a computation.

    Args:
        module: The module.
        computation: One of its computations.
        leaf: What an instruction is, apart from its operands.
        outputs: For each operand of the root, what is asked of it as an output, where outputs are
            sorted; None where operands of the root have their places.
    """

    def __init__(
        self,
        module: Module,
        computation: Computation,
        leaf: Callable[[int], str],
        outputs: Sequence[str] | None,
    ):
        self.module, self.root, self.outputs = module, computation.root, outputs
        wanted = bytearray(len(module))
        mark(module, wanted, roots(module, computation))
        self.live = [i for i in range(computation.start, computation.stop) if wanted[i]]
        self.found = {i: leaf(i).encode("utf-8", "surrogatepass") for i in self.live}
        distinct = 0
        for _ in range(MAX_ROUNDS):
            self.found = self._refined()
            number = len(set(self.found.values()))
            if number == distinct:
                break
            distinct = number

    def _refined(self) -> dict[int, bytes]:
        """One pass upwards over operands and one downwards over users."""
        operands, opcodes, colours = self.module.operands, self.module.opcodes, self.found
        below: dict[int, bytes] = {}
        for i in self.live:
            parts = [below[o] for o in operands[i]]
            if i == self.root and self.outputs is not None:
                parts.sort()
            below[i] = digest_of([colours[i], *parts])
        uses: dict[int, list[bytes]] = {i: [] for i in self.live}
        refined: dict[int, bytes] = {}
        for i in reversed(self.live):
            # How often equal constants stand there must not tell their users apart.
            context = () if opcodes[i] == "constant" else sorted(uses[i])
            refined[i] = digest_of([below[i], *context])
            for position, o in enumerate(operands[i]):
                uses[o].append(refined[i] + self._place(i, position))
        return refined

    def _place(self, i: int, position: int) -> bytes:
        if i == self.root:
            return self.outputs[position].encode() if self.outputs is not None else b""
        return position.to_bytes(4, "big")


def digest_of(parts: Sequence[bytes]) -> bytes:
    """A digest of several texts, of which it counts where each ends."""
    made = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        made.update(len(part).to_bytes(4, "big"))
        made.update(part)
    return made.digest()


class Walk:
    """Numbers instructions in post-order, operands first and in their order."""

    def __init__(self, module: Module):
        self.module = module
        self.order: list[int] = []
        self.places: dict[int, int] = {}

    def visit(self, starts: Sequence[int]) -> None:
        """Appends each start and what it needs."""
        for start in starts:
            for i in self._new_below(start):
                self.places[i] = len(self.order)
                self.order.append(i)

    def visit_alike(self, starts: Sequence[int], colours: dict[int, bytes]) -> None:
        """Appends starts whose own order must not matter.

        They are sorted by digest, then by what they share with numbered instructions.
        """
        groups: dict[bytes, list[int]] = {}
        for start in starts:
            groups.setdefault(colours[start], []).append(start)
        for key in sorted(groups):
            group = groups[key]
            self.visit(group if len(group) == 1 else sorted(group, key=self._known_below))

    def _known_below(self, start: int) -> list[int]:
        """The numbers met on a walk from `start` that stops at numbered instructions."""
        if start in self.places:
            return [self.places[start]]
        known = self.places
        return [known.get(o, -1) for i in self._new_below(start) for o in self.module.operands[i]]

    def _new_below(self, start: int) -> list[int]:
        """Unnumbered instructions that `start` needs, itself last, in post-order."""
        if start in self.places:
            return []
        operands, controls = self.module.operands, self.module.controls
        found: dict[int, None] = {}
        stack = [start]
        while stack:
            i = stack[-1]
            if i in found:
                stack.pop()
                continue
            pending = [
                o
                for o in (*operands[i], *controls.get(i, ()))
                if o not in found and o not in self.places
            ]
            if pending:
                stack.extend(reversed(pending))
            else:
                found[i] = None
                stack.pop()
        return list(found)
