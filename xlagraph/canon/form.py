"""The canonical text of a module, and its ladder of digests.

The live instructions are numbered by a walk from the root over ordered operands, so that
names, text order and dead code leave no trace; the text can be committed and compared with
plain ``diff``. Each rung of the ladder forgives more (`Level`); the first rung on which two
modules agree names how they differ. Time is linear in instructions plus operands, except
for sorting outputs on the rungs that forgive their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Level, instruction_text
from xlagraph.canon.live import live_instructions, mark, roots
from xlagraph.canon.structure import call_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.graph import Computation, Module

DIGEST_BYTES = 16
MAX_ROUNDS = 6
"""Rounds of refinement before outputs are sorted."""
HEADER_NOISE = frozenset({"entry_computation_layout"})


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung of the ladder: a level and the digest of the canonical text there."""

    level: Level
    digest: str
    """Hex BLAKE2b-128."""


def ladder(module: Module, text: str | None = None) -> tuple[Rung, ...]:
    """Digests from the strictest to the most forgiving level.

    The first rung is of the file's own text; it is left out where `text` is not given.
    """
    rungs = [Rung(Level.TEXT, _digest(text))] if text is not None else []
    return (
        *rungs,
        *(Rung(level, digest(module, level)) for level in Level if level > Level.TEXT),
    )


def digest(module: Module, level: Level) -> str:
    """Digest of the canonical text at a level; equal in all processes and on all machines."""
    return _digest("\n".join(canonical_lines(module, level)))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def canonical_lines(module: Module, level: Level) -> Iterator[str]:
    """The canonical text, line by line; computations stand before their callers."""
    form = _Form(module, level)
    yield "HloModule"
    for key, value in sorted(module.header):
        if key not in HEADER_NOISE and level < Level.PARAMETER_ORDER:
            yield f"  {key}={value}"
    for number in call_order(module):
        if number == module.entry or not form.is_called(number):
            continue
        lines = form.computation(number)
        if lines is not None:
            yield from lines
    yield from form.entry()


class _Form:
    """Numbers computations by content, so that equal ones are printed once."""

    def __init__(self, module: Module, level: Level):
        self.module = module
        self.level = level
        self.live = live_instructions(module)
        self.called = self._called()
        self.names: dict[int, str] = {}
        self.known: dict[str, str] = {}

    def _called(self) -> set[int]:
        if self.level < Level.DEAD_CODE:
            return set(range(len(self.module.computations)))
        return {c for i, callees in self.module.callees.items() if self.live[i] for c in callees}

    def is_called(self, number: int) -> bool:
        """Whether a computation takes part at this level."""
        return number in self.called

    def computation(self, number: int) -> list[str] | None:
        """The text of a called computation, or None where an equal one was printed before."""
        body = self._body(self.module.computations[number])
        key = "\n".join(body)
        if key in self.known:
            self.names[number] = self.known[key]
            return None
        self.names[number] = self.known[key] = f"c{len(self.known)}"
        return [f"{self.names[number]} {{", *body, "}"]

    def entry(self) -> list[str]:
        """The text of the entry computation."""
        return ["ENTRY {", *self._body(self.module.entry_computation), "}"]

    def _body(self, computation: Computation) -> list[str]:
        order = self._order(computation)
        numbers: dict[int, int] = {}
        shared: dict[tuple[str, str], int] = {}
        lines: list[str] = []
        parameters = 0
        for i in order:
            number = len(lines)
            shape, opcode, payload, attributes = instruction_text(self.module, i, self.level)
            if opcode == "constant" and self.level >= Level.DUPLICATE_CONSTANTS:
                number = shared.setdefault((shape, payload), number)
            numbers[i] = number
            if number < len(lines):
                continue
            if (
                opcode == "parameter"
                and self.level >= Level.PARAMETER_ORDER
                and computation.index == self.module.entry
            ):
                payload = str(parameters)
                parameters += 1
            lines.append(self._line(i, numbers, shape, opcode, payload, attributes, computation))
        return lines

    def _line(
        self,
        i: int,
        numbers: dict[int, int],
        shape: str,
        opcode: str,
        payload: str,
        attributes: str,
        computation: Computation,
    ) -> str:
        module = self.module
        operands = [numbers[o] for o in module.operands[i]]
        if i == computation.root and self.level >= Level.OUTPUT_ORDER and opcode == "tuple":
            operands.sort()
            shape = "tuple"
        inside = payload or ", ".join(f"%{o}" for o in operands)
        parts = [f"  {'ROOT ' if i == computation.root else ''}%{numbers[i]} = {shape} "]
        parts.append(f"{opcode}({inside})")
        if attributes:
            parts.append(f", {attributes}")
        if i in module.callees:
            parts.append(", calls={" + ", ".join(self.names[c] for c in module.callees[i]) + "}")
        if i in module.controls:
            after = sorted(numbers[c] for c in module.controls[i])
            parts.append(", after={" + ", ".join(f"%{c}" for c in after) + "}")
        return "".join(parts)

    def _order(self, computation: Computation) -> Sequence[int]:
        """Instructions in canonical order: as in the text, or by a walk from the roots."""
        module = self.module
        if self.level < Level.DEAD_CODE:
            return range(computation.start, computation.stop)
        root, *effects = roots(module, computation)
        free = self._outputs_are_free(computation)
        hashes = self._hashes(computation) if effects or free else {}
        effects.sort(key=lambda i: hashes[i])
        walk = _Walk(module)
        if self.level < Level.PARAMETER_ORDER or computation.index != module.entry:
            walk.visit(computation.parameters)
        if free:
            walk.visit_alike(module.operands[root], hashes)
        walk.visit([root, *effects])
        unused = [p for p in computation.parameters if p not in walk.places]
        return walk.order + sorted(unused, key=lambda p: module.shapes[p])

    def _outputs_are_free(self, computation: Computation) -> bool:
        return (
            self.level >= Level.OUTPUT_ORDER
            and computation.index == self.module.entry
            and self.module.opcodes[computation.root] == "tuple"
        )

    def _hashes(self, computation: Computation) -> dict[int, bytes]:
        """A digest for each live instruction: of what it is made of and of how it is used.

        Refined until no round tells more instructions apart (colour refinement, Weisfeiler
        and Leman 1968), a few rounds at most.
        """
        module = self.module
        wanted = bytearray(len(module))
        mark(module, wanted, roots(module, computation))
        live = [i for i in range(computation.start, computation.stop) if wanted[i]]
        colours = {i: self._leaf(i) for i in live}
        distinct = 0
        for _ in range(MAX_ROUNDS):
            colours = self._refined(live, computation.root, colours)
            found = len(set(colours.values()))
            if found == distinct:
                break
            distinct = found
        return colours

    def _refined(self, live: list[int], root: int, colours: dict[int, bytes]) -> dict[int, bytes]:
        """One pass upwards over operands and one downwards over users."""
        operands, opcodes = self.module.operands, self.module.opcodes
        below: dict[int, bytes] = {}
        for i in live:
            parts = [below[o] for o in operands[i]]
            if i == root and self.level >= Level.OUTPUT_ORDER:
                parts.sort()
            below[i] = _bytes_digest([colours[i], *parts])
        uses: dict[int, list[bytes]] = {i: [] for i in live}
        refined: dict[int, bytes] = {}
        for i in reversed(live):
            # How often equal constants stand there must not tell their users apart.
            context = () if opcodes[i] == "constant" else sorted(uses[i])
            refined[i] = _bytes_digest([below[i], *context])
            for position, o in enumerate(operands[i]):
                place = b"" if i == root else position.to_bytes(4, "big")
                uses[o].append(refined[i] + place)
        return refined

    def _leaf(self, i: int) -> bytes:
        """What an instruction is, apart from its operands."""
        shape, opcode, payload, attributes = instruction_text(self.module, i, self.level)
        entry = self.module.entry_computation
        inside = entry.start <= i < entry.stop
        if opcode == "parameter" and inside and self.level >= Level.PARAMETER_ORDER:
            payload = ""
        if i == entry.root and opcode == "tuple" and self.level >= Level.OUTPUT_ORDER:
            shape = ""
        called = ",".join(self.names[c] for c in self.module.callees.get(i, ()))
        text = "\0".join((shape, opcode, payload, attributes, called))
        return text.encode("utf-8", "surrogatepass")


class _Walk:
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

    def visit_alike(self, starts: Sequence[int], hashes: dict[int, bytes]) -> None:
        """Appends starts whose own order must not matter.

        They are sorted by digest, then by what they share with numbered instructions.
        """
        groups: dict[bytes, list[int]] = {}
        for start in starts:
            groups.setdefault(hashes[start], []).append(start)
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


def _bytes_digest(parts: Sequence[bytes]) -> bytes:
    made = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        made.update(len(part).to_bytes(4, "big"))
        made.update(part)
    return made.digest()
