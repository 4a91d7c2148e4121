"""From `Module` back to text that XLA reads: its long form, and a short canonical one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.hlo.shapes import Shape, read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.graph import Computation, Module


@dataclass(frozen=True, slots=True)
class PrintStyle:
    """What a printed module shows."""

    sigils: bool = True
    """``%`` before names."""
    operand_shapes: bool = True
    layouts: bool = True
    metadata: bool = True
    """Also the stack-frame tables."""
    signatures: bool = True
    """``(p0: f32[2]) -> f32[2]`` behind a computation's name."""
    own_names: bool = True
    """The module's names; else ``v0, v1, ...`` and ``comp0, comp1, ...`` by position."""


LONG = PrintStyle()
"""As XLA prints a module with operand shapes."""
SHORT = PrintStyle(
    sigils=False,
    operand_shapes=False,
    layouts=False,
    metadata=False,
    signatures=False,
    own_names=False,
)
"""The shortest text with the same computation: equal for modules that differ in names only."""


def print_module(module: Module, style: PrintStyle = LONG) -> str:
    """The module's text; linear in its size. Reading it again gives an equal graph."""
    return "".join(_Printer(module, style).lines())


class _Printer:
    def __init__(self, module: Module, style: PrintStyle):
        self.module = module
        self.style = style
        self.sigil = "%" if style.sigils else ""
        self.order = tuple(_callees_first(module))
        self.names: Sequence[str] = module.names
        self.computation_names: Sequence[str] = [c.name for c in module.computations]
        if not style.own_names:
            sizes = [c.stop - c.start for c in module.computations]
            self.names = [f"v{at}" for size in sizes for at in range(size)]
            place = {index: at for at, index in enumerate(self.order)}
            self.computation_names = [f"comp{place[at]}" for at in range(len(sizes))]
        self.shapes: Sequence[str] = module.shapes
        if not style.layouts:
            plain = {text: _without_layout(text) for text in set(module.shapes)}
            self.shapes = [plain[text] for text in module.shapes]

    def lines(self) -> Iterator[str]:
        """The text, line by line."""
        name = self.module.name if self.style.own_names else "module"
        header = self.module.header if self.style.layouts else self._header_without_layout()
        yield f"HloModule {name}" + "".join(f", {key}={value}" for key, value in header) + "\n\n"
        if self.style.metadata:
            yield from self._tables()
        for index in self.order:
            yield from self._computation(self.module.computations[index])

    def _header_without_layout(self) -> tuple[tuple[str, str], ...]:
        return tuple(item for item in self.module.header if item[0] != "entry_computation_layout")

    def _tables(self) -> Iterator[str]:
        tables = self.module.tables
        for title, names in (("FileNames", tables.files), ("FunctionNames", tables.functions)):
            if names:
                rows = (f"{number} {json.dumps(name)}\n" for number, name in names.items())
                yield f"{title}\n{''.join(rows)}\n"
        frames = {
            number: {**row, "parent_frame_id": row.get("parent_frame_id", 0) + 1}
            for number, row in tables.frames.items()
        }
        pairs = (("FileLocations", tables.locations), ("StackFrames", frames))
        for title, table in pairs:
            if table:
                yield f"{title}\n"
                for number, row in table.items():
                    fields = " ".join(f"{key}={value}" for key, value in row.items())
                    yield f"{number} {{{fields}}}\n"
                yield "\n"

    def _computation(self, computation: Computation) -> Iterator[str]:
        entry = "ENTRY " if computation.index == self.module.entry else ""
        name = self.computation_names[computation.index]
        signature = self._signature(computation) if self.style.signatures else ""
        yield f"{entry}{self.sigil}{name}{signature} {{\n"
        for number in range(computation.start, computation.stop):
            yield self._instruction(number, is_root=number == computation.root)
        yield f"}}{', ' if computation.suffix else ''}{computation.suffix}\n\n"

    def _signature(self, computation: Computation) -> str:
        """Nothing where a shape is not known: XLA's parser does without."""
        numbers = (*computation.parameters, computation.root)
        if not all(self.shapes[number] for number in numbers):
            return ""
        *taken, result = (_commented(read_shape(self.shapes[number])) for number in numbers)
        names = (self.names[number] for number in computation.parameters)
        pairs = (f"{name}: {shape}" for name, shape in zip(names, taken, strict=True))
        return f" ({', '.join(pairs)}) -> {result}"

    def _instruction(self, number: int, *, is_root: bool) -> str:
        module = self.module
        arguments = module.payloads.get(number)
        if arguments is None:
            arguments = _indexed([self._operand(operand) for operand in module.operands[number]])
        root = "ROOT " if is_root else ""
        shape = self.shapes[number]
        shape = shape and shape + " "
        call = f"{shape}{module.opcodes[number]}({arguments})"
        attributes = self._attributes(number)
        return f"  {root}{self.sigil}{self.names[number]} = {call}{attributes}\n"

    def _operand(self, operand: int) -> str:
        name = self.sigil + self.names[operand]
        shape = self.shapes[operand] if self.style.operand_shapes else ""
        return f"{shape} {name}" if shape else name

    def _attributes(self, number: int) -> str:
        """Verbatim where the text still says what the graph says, else put together."""
        module, style = self.module, self.style
        attributes = module.attributes[number]
        callees = module.callees.get(number, ())
        linked = bool(callees or attributes.controls)
        if style.own_names and style.metadata and (not linked or self._is_current(number)):
            return attributes.text
        fields = [f"{key}={value}" for key, value in attributes.items]
        rest = iter(callees)
        for key, names in attributes.callees:
            called = [self.sigil + self.computation_names[next(rest)] for _ in names]
            is_list = key in ("branch_computations", "called_computations")
            value = f"{{{', '.join(called)}}}" if is_list else ", ".join(called)
            fields.append(f"{key}={value}")
        if attributes.controls:
            before = (self.sigil + self.names[p] for p in module.controls[number])
            fields.append(f"control-predecessors={{{', '.join(before)}}}")
        if attributes.metadata and style.metadata:
            fields.append(f"metadata={{{attributes.metadata}}}")
        return "".join(f", {field}" for field in fields)

    def _is_current(self, number: int) -> bool:
        """Whether the names in the attribute text are those of the graph."""
        attributes = self.module.attributes[number]
        called = [self.computation_names[c] for c in self.module.callees.get(number, ())]
        before = [self.names[p] for p in self.module.controls.get(number, ())]
        printed = [name for _, names in attributes.callees for name in names]
        return printed == called and list(attributes.controls) == before


def _callees_first(module: Module) -> Iterable[int]:
    """Computations in printed order, moved only where a callee stands behind its caller."""
    calls: dict[int, list[int]] = {}
    for number, callees in module.callees.items():
        calls.setdefault(module.computation_of(number).index, []).extend(callees)
    if all(callee < caller for caller, callees in calls.items() for callee in callees):
        return range(len(module.computations))
    order: dict[int, None] = {}
    for start in range(len(module.computations)):
        path = [(start, iter(calls.get(start, ())))]
        while path:
            current, rest = path[-1]
            callee = next((c for c in rest if c not in order), None)
            if callee is None:
                path.pop()
                order[current] = None
            else:
                path.append((callee, iter(calls.get(callee, ()))))
    return order


def _indexed(parts: Sequence[str]) -> str:
    """Joins parts as XLA does, with ``/*index=5*/`` before every fifth."""
    if len(parts) <= 5:
        return ", ".join(parts)
    return ", ".join(
        f"/*index={at}*/{part}" if at and at % 5 == 0 else part for at, part in enumerate(parts)
    )


def _without_layout(text: str) -> str:
    return read_shape(text).without_layout() if text else ""


def _commented(shape: Shape) -> str:
    if shape.is_tuple:
        return f"({_indexed([_commented(part) for part in shape.parts])})"
    return shape.without_layout()
