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

from xlagraph.canon.labels import Level, instruction_text, signature
from xlagraph.canon.live import live_instructions, mark, roots
from xlagraph.canon.structure import call_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.graph import Computation, Module

DIGEST_BYTES = 16
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
        lines = []
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
        hashes = self._hashes(computation) if effects or self._sorts_outputs(computation) else {}
        effects.sort(key=lambda i: hashes[i])
        starts = [root, *effects]
        if self._sorts_outputs(computation):
            outputs = sorted(module.operands[root], key=lambda i: hashes[i])
            starts = [*outputs, root, *effects]
        parameters = [
            p
            for p in computation.parameters
            if self.level < Level.PARAMETER_ORDER or computation.index != module.entry
        ]
        order: list[int] = []
        seen = bytearray(len(module))
        for start in [*parameters, *starts]:
            _post_order(module, start, seen, order)
        unused = [p for p in computation.parameters if not seen[p]]
        return order + sorted(unused, key=lambda p: module.shapes[p])

    def _sorts_outputs(self, computation: Computation) -> bool:
        return (
            self.level >= Level.OUTPUT_ORDER
            and computation.index == self.module.entry
            and self.module.opcodes[computation.root] == "tuple"
        )

    def _hashes(self, computation: Computation) -> dict[int, bytes]:
        """A digest for each live instruction: of what it is made of, then of how it is used.

        Instructions that agree in both are interchangeable as far as this sees; their order
        then falls back on the text (a property test looks for harm).
        """
        module = self.module
        wanted = bytearray(len(module))
        mark(module, wanted, roots(module, computation))
        live = [i for i in range(computation.start, computation.stop) if wanted[i]]
        below: dict[int, bytes] = {}
        for i in live:
            below[i] = self._hash(i, [below[o] for o in module.operands[i]])
        uses: dict[int, list[bytes]] = {i: [] for i in live}
        root = computation.root
        final: dict[int, bytes] = {}
        for i in reversed(live):
            final[i] = _bytes_digest([below[i], *sorted(uses[i])])
            for position, o in enumerate(module.operands[i]):
                place = b"" if i == root else position.to_bytes(4, "big")
                uses[o].append(final[i][:8] + place if i != root else b"root")
        again: dict[int, bytes] = {}
        for i in live:
            again[i] = _bytes_digest([final[i], *[again[o] for o in module.operands[i]]])
        return again

    def _hash(self, i: int, operands: list[bytes]) -> bytes:
        text = " ".join(self._leaf(i))
        called = "".join(self.names[c] for c in self.module.callees.get(i, ()))
        return _bytes_digest([text.encode("utf-8", "surrogatepass"), called.encode(), *operands])

    def _leaf(self, i: int) -> tuple[str, ...]:
        parts = instruction_text(self.module, i, self.level)
        entry = self.module.entry_computation
        if (
            parts[1] == "parameter"
            and self.level >= Level.PARAMETER_ORDER
            and entry.start <= i < entry.stop
        ):
            return (parts[0], parts[1], signature(self.module.attributes[i], self.level))
        return parts


def _bytes_digest(parts: Sequence[bytes]) -> bytes:
    made = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        made.update(len(part).to_bytes(4, "big"))
        made.update(part)
    return made.digest()


def _post_order(module: Module, start: int, seen: bytearray, order: list[int]) -> None:
    """Appends `start` and what it needs, operands first and in their order."""
    stack = [start]
    while stack:
        i = stack[-1]
        if seen[i]:
            stack.pop()
            continue
        pending = [o for o in (*module.operands[i], *module.controls.get(i, ())) if not seen[o]]
        if pending:
            stack.extend(reversed(pending))
        else:
            seen[i] = 1
            order.append(i)
            stack.pop()
