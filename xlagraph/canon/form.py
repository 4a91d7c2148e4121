"""The canonical text of a module, and its digests at every level.

The live instructions are numbered by a walk from the root over ordered operands, so that
names, text order and dead code leave no trace; computations stand in the order in which the
walk first calls them. The text can be committed and compared with plain ``diff``. Each level
forgives more than those above (`Level`); the first on which two modules agree names how they
differ. Time is linear in instructions plus operands, except for sorting outputs on the levels
that forgive their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.entry import FIELD, NOTHING, asked_layouts
from xlagraph.canon.labels import CHANNEL, Level, instruction_text
from xlagraph.canon.live import acting, live_instructions, roots
from xlagraph.canon.order import DIGEST_BYTES, Colours, Walk
from xlagraph.canon.spelling import canonical_field
from xlagraph.canon.structure import call_order
from xlagraph.graph import MAIN_THREAD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from xlagraph.graph import Computation, Module


@dataclass(frozen=True, slots=True)
class LevelDigest:
    """A level and the digest of the canonical text there."""

    level: Level
    digest: str
    """Hex BLAKE2b-128."""


def level_digests(module: Module, text: str | None = None) -> tuple[LevelDigest, ...]:
    """Digests from the strictest to the most forgiving level.

    The first level is of the file's own text; it is left out where `text` is not given.
    """
    levels = [LevelDigest(Level.TEXT, _digest(text))] if text is not None else []
    return (
        *levels,
        *(LevelDigest(level, digest(module, level)) for level in Level if level > Level.TEXT),
    )


def digest(module: Module, level: Level) -> str:
    """Digest of the canonical text at a level; equal in all processes and on all machines."""
    return _digest("\n".join(canonical_lines(module, level)))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def computation_digests(module: Module) -> dict[int, str]:
    """What each computation that the entry leads to does, as a digest; channel numbers left out."""
    return _Form(module, Level.PARAMETER_ORDER).keys


def canonical_lines(module: Module, level: Level) -> Iterator[str]:
    """The canonical text, line by line; computations stand before their callers."""
    yield "HloModule"
    form = _Form(module, level)
    for key, value in sorted(module.header):
        said = canonical_field(key, value)
        if said and level < Level.PARAMETER_ORDER and (key != FIELD or form.asked is None):
            yield f"  {key}={said}"
    yield from form.lines()


class _Row(NamedTuple):
    """One line of a computation; operands and control predecessors are line numbers."""

    instruction: int
    shape: str
    opcode: str
    payload: str
    attributes: str
    operands: tuple[int, ...]
    controls: tuple[int, ...]
    note: str
    """Layouts that the caller asks for."""


class _Form:
    """The computations of a module as rows, and the names that their text gives them."""

    def __init__(self, module: Module, level: Level):
        self.module, self.level = module, level
        self.asked = asked_layouts(module)
        parameters = module.entry_computation.parameters
        self.parameter_notes = {
            parameters[k]: said for k, said in (self.asked or NOTHING).parameters.items()
        }
        self.rows: dict[int, list[_Row]] = {}
        self.keys: dict[int, str] = {}
        """What a computation does, channel numbers left out."""
        live = live_instructions(module)
        everything = level < Level.DEAD_CODE
        called = {c for i, cs in module.callees.items() if live[i] or everything for c in cs}
        for number in call_order(module):
            if number in called or everything:
                self._add(number, called)
        if module.entry not in self.rows:
            self._add(module.entry, called)
        self.names: dict[int, str] = {}
        self.known: dict[object, str] = {}
        self.channels: dict[str, int] = {}

    def _add(self, number: int, called: Collection[int]) -> None:
        self.rows[number] = self._rows(self.module.computations[number])
        if number != self.module.entry or number in called:
            self.keys[number] = _digest("\n".join(map(str, self._key(number))))

    def lines(self) -> Iterator[str]:
        """The text of all computations, callees first, as the entry first calls them."""
        entry = self.module.entry
        *callees, _ = self._new_below(entry)
        self.names[entry] = "ENTRY"
        yield from self._called(callees)
        ending = list(self._text(entry))
        for number in self.rows:
            yield from self._called(self._new_below(number))
        yield from ending

    def _called(self, numbers: Iterable[int]) -> Iterator[str]:
        """The text of computations, each after those that it calls; equal ones once."""
        for number in numbers:
            exact = (self.keys[number], *self._links(number))
            is_new = exact not in self.known
            self.names[number] = self.known.setdefault(exact, f"c{len(self.known)}")
            if is_new:
                yield from self._text(number)

    def _new_below(self, start: int) -> list[int]:
        """Computations without a name that `start` calls, in post-order, itself last."""
        found: dict[int, None] = {}
        stack = [(start, iter(self._callees(start)))]
        while stack:
            number, rest = stack[-1]
            callee = next((c for c in rest if c not in found and c not in self.names), None)
            if callee is None:
                stack.pop()
                if number not in self.names:
                    found[number] = None
            else:
                stack.append((callee, iter(self._callees(callee))))
        return list(found)

    def _callees(self, number: int) -> list[int]:
        callees = self.module.callees
        return [c for row in self.rows[number] for c in callees.get(row.instruction, ())]

    def _links(self, number: int) -> Iterator[str]:
        """The channels that a computation uses, and the names of what it calls."""
        for row in self.rows[number]:
            yield self.module.attributes[row.instruction].get(CHANNEL) or ""
            for callee in self.module.callees.get(row.instruction, ()):
                yield self.names[callee]

    def _key(self, number: int) -> Iterator[object]:
        computation = self.module.computations[number]
        yield computation.execution_thread
        yield self._acting(number)
        for row in self.rows[number]:
            called = [self.keys[c] for c in self.module.callees.get(row.instruction, ())]
            yield (row.instruction == computation.root, row[1:], called)

    # -- rows --------------------------------------------------------------------------------

    def _rows(self, computation: Computation) -> list[_Row]:
        numbers: dict[int, int] = {}
        shared: dict[tuple[str, str], int] = {}
        rows: list[_Row] = []
        parameters = 0
        for i in self._order(computation):
            number = len(rows)
            shape, opcode, payload, attributes = instruction_text(self.module, i, self.level)
            if opcode == "constant" and self.level >= Level.DUPLICATE_CONSTANTS:
                number = shared.setdefault((shape, payload), number)
            numbers[i] = number
            if number < len(rows):
                continue
            if opcode == "parameter" and self._is_renumbered(computation):
                payload = str(parameters)
                parameters += 1
            operands = tuple(numbers[o] for o in self.module.operands[i])
            note = self._note(i, computation)
            if i == computation.root and self._outputs_are_free(computation):
                pairs = sorted(zip(operands, self._output_notes(), strict=True))
                operands = tuple(operand for operand, _ in pairs)
                note = "; ".join(said for _, said in pairs) if any(s for _, s in pairs) else ""
                shape = "tuple"
            controls = tuple(sorted(numbers[c] for c in self.module.controls.get(i, ())))
            rows.append(_Row(i, shape, opcode, payload, attributes, operands, controls, note))
        return rows

    def _is_renumbered(self, computation: Computation) -> bool:
        return self.level >= Level.PARAMETER_ORDER and computation.index == self.module.entry

    def _order(self, computation: Computation) -> Sequence[int]:
        """Instructions in canonical order: as in the text, or by a walk from the roots."""
        module = self.module
        if self.level < Level.DEAD_CODE:
            return range(computation.start, computation.stop)
        walk = Walk(module)
        if not self._is_renumbered(computation):
            walk.visit(computation.parameters)
        if self._outputs_are_free(computation):
            colours = Colours(module, computation, self._leaf, self._output_notes())
            walk.visit_alike(module.operands[computation.root], colours.found)
        walk.visit(roots(module, computation))
        unused = [p for p in computation.parameters if p not in walk.places]
        unused.sort(key=lambda p: (module.shapes[p], self._note(p, computation)))
        return walk.order + unused

    def _outputs_are_free(self, computation: Computation) -> bool:
        return (
            self.level >= Level.OUTPUT_ORDER
            and computation.index == self.module.entry
            and self.module.opcodes[computation.root] == "tuple"
        )

    def _leaf(self, i: int) -> str:
        """What an instruction of the entry is, apart from its operands."""
        shape, opcode, payload, attributes = instruction_text(self.module, i, self.level)
        if opcode == "parameter":
            payload = ""
        if i == self.module.entry_computation.root:
            shape = ""
        called = ",".join(self.keys[c] for c in self.module.callees.get(i, ()))
        note = self._note(i, self.module.entry_computation) if opcode == "parameter" else ""
        return "\0".join((shape, opcode, payload, attributes, called, note))

    def _note(self, i: int, computation: Computation) -> str:
        """What the entry's layout asks of a parameter, or of all outputs at the root."""
        if computation.index != self.module.entry or self.level >= Level.SHAPES:
            return ""
        asked = (self.asked or NOTHING).outputs
        if i == computation.root and asked:
            return "; ".join(f"{k}: {asked[k]}" for k in sorted(asked))
        return self.parameter_notes.get(i, "")

    def _output_notes(self) -> list[str]:
        outputs = (self.asked or NOTHING).outputs if self.level < Level.SHAPES else {}
        return [outputs.get(k, "") for k in range(len(self.module.outputs))]

    # -- text --------------------------------------------------------------------------------

    def _acting(self, number: int) -> list[int]:
        """Lines of what acts on the world, in the order in which it does."""
        order = acting(self.module, self.module.computations[number])
        if len(order) < 2:
            return []
        lines = {row.instruction: at for at, row in enumerate(self.rows[number])}
        return [lines[i] for i in order]

    def _text(self, number: int) -> Iterator[str]:
        computation = self.module.computations[number]
        yield f"{self.names[number]} {{"
        for at, row in enumerate(self.rows[number]):
            root = "ROOT " if row.instruction == computation.root else ""
            yield f"  {root}%{at} = {row.shape} {self._call(row)}"
        acting = self._acting(number)
        if acting:
            yield "  acting in this order: " + ", ".join(f"%{at}" for at in acting)
        thread = computation.execution_thread
        yield "}" if thread == MAIN_THREAD else f'}}, execution_thread="{thread}"'

    def _call(self, row: _Row) -> str:
        inside = row.payload or ", ".join(f"%{o}" for o in row.operands)
        parts = [f"{row.opcode}({inside})"]
        if row.attributes:
            parts.append(self._numbered(row))
        callees = self.module.callees.get(row.instruction)
        if callees:
            parts.append("calls={" + ", ".join(self.names[c] for c in callees) + "}")
        if row.controls:
            parts.append("after={" + ", ".join(f"%{c}" for c in row.controls) + "}")
        if row.note:
            parts.append(f"asked for as {row.note}")
        return ", ".join(parts)

    def _numbered(self, row: _Row) -> str:
        """The attributes, with channels numbered in the order of their first use."""
        channel = self.module.attributes[row.instruction].get(CHANNEL)
        starred = f"{CHANNEL}=*"
        if channel is None or starred not in row.attributes:
            return row.attributes
        number = self.channels.setdefault(channel, len(self.channels) + 1)
        return row.attributes.replace(starred, f"{CHANNEL}={number}", 1)
