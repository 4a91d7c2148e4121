"""A module that takes in, and gives out, the tensors that some of its own are made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xlagraph.graph import Attributes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from xlagraph.evaluate.forms.packing import Form, Piece
    from xlagraph.graph import Computation, Module

_NO_ATTRIBUTES = Attributes("", (), "", (), ())
_OF_THE_WHOLE = frozenset({"is_scheduled", "num_partitions", "replica_count"})
"""What a header says of no single input or output."""


def repacked(
    module: Module,
    inputs: Mapping[int, Form],
    outputs: Mapping[int, Form],
    dropped: Collection[int] = (),
    removed: Collection[int] = (),
) -> Module:
    """The module with parts in place of these inputs and outputs, by their numbers.

    `dropped`: outputs that are left out; `removed`: inputs that only these need. The first part
    stands at the whole's place, the others behind all. Headers no longer say which inputs are
    donated, and how they lie in memory. The root is a tuple.
    """
    made = _Columns(module)
    entry = module.entry_computation
    gone = {entry.parameters[k] for k in removed}
    wholes = {entry.parameters[k]: (k, form) for k, form in inputs.items()}
    for computation in module.computations:
        start = len(made.names)
        for i in range(computation.start, computation.stop):
            if i == entry.root:
                made.root(i, outputs, dropped)
            elif i in wholes:
                made.joined(i, *wholes[i])
            elif i in gone:
                made.gone(i)
            else:
                made.kept(i)
        made.end(computation, start)
    return made.build()


@dataclass
class _Columns:
    """The columns of the module that is made, one instruction after the other."""

    module: Module
    places: dict[int, int] = field(default_factory=dict)
    """Where what stands for an instruction is."""
    firsts: dict[int, int] = field(default_factory=dict)
    """The first part of a parameter that is made of some."""
    added: list[int] = field(default_factory=list)
    """Further parameters."""
    names: list[str] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    operands: list[tuple[int, ...]] = field(default_factory=list)
    attributes: list[Attributes] = field(default_factory=list)
    payloads: dict[int, str] = field(default_factory=dict)
    computations: list[Computation] = field(default_factory=list)

    def kept(self, i: int, operands: Sequence[int] | None = None) -> None:
        """An instruction as it was."""
        own = [self.places[o] for o in self.module.operands[i]] if operands is None else operands
        place = self._add(i, self.module.opcodes[i], self.module.shapes[i], own)
        self.attributes[place] = self.module.attributes[i]
        if i in self.module.payloads:
            self.payloads[place] = self.module.payloads[i]
        self.places[i] = place

    def gone(self, i: int) -> None:
        """A number that is no input any more: nothing that is given out needs it."""
        self.places[i] = self._add(i, "constant", self.module.shapes[i], ())
        self.payloads[self.places[i]] = "0"

    def joined(self, i: int, number: int, form: Form) -> None:
        """A parameter, made of parts."""
        pieces = []
        for k, piece in enumerate(form.pieces):
            place = self._add(i, "parameter", piece.shape, ())
            self.payloads[place] = str(number)
            if k:
                behind = len(self.module.entry_computation.parameters) + len(self.added)
                self.payloads[place] = str(behind)
                self.added.append(place)
            else:
                self.firsts[i] = place
            pieces.append(self._as_piece(i, place, piece))
        self.places[i] = pieces[0]
        if len(pieces) > 1:
            along = _attribute("dimensions", _braces([form.axis]))
            self.places[i] = self._add(i, "concatenate", form.whole, pieces, along)

    def root(self, i: int, outputs: Mapping[int, Form], dropped: Collection[int]) -> None:
        """The tuple of outputs, some of them cut into parts."""
        given = [self.places[o] for o in self.module.operands[i]]
        behind: list[int] = []
        for k, form in sorted(outputs.items()):
            given[k], *others = self._cut(i, given[k], form)
            behind += others
        left = [place for k, place in enumerate(given) if k not in dropped] + behind
        self.kept(i, left)
        self.shapes[-1] = f"({', '.join(self.shapes[o] for o in left)})"

    def end(self, computation: Computation, start: int) -> None:
        """A computation, of the instructions since it began."""
        places = (self.firsts.get(p, self.places[p]) for p in computation.parameters)
        taken = [place for place in places if self.opcodes[place] == "parameter"]
        if computation.index == self.module.entry:
            taken += self.added
        made = replace(
            computation,
            start=start,
            stop=len(self.names),
            root=self.places[computation.root],
            parameters=tuple(taken),
            first_line=0,
            lines=(),
        )
        self.computations.append(made)

    def _as_piece(self, i: int, place: int, piece: Piece) -> int:
        turned = tuple(piece.own[k] for k in piece.turn)
        if piece.is_turned:
            order = _attribute("dimensions", _braces(piece.turn))
            place = self._add(i, "transpose", _like(piece, turned), [place], order)
        if turned != piece.sizes:
            place = self._add(i, "reshape", _like(piece, piece.sizes), [place])
        return place

    def _cut(self, i: int, whole: int, form: Form) -> Iterator[int]:
        start = 0
        for piece in form.pieces:
            stop = start + piece.sizes[form.axis]
            own = enumerate(piece.sizes)
            bounds = [(start, stop) if k == form.axis else (0, n) for k, n in own]
            text = _braces([f"[{low}:{high}]" for low, high in bounds])
            place = self._add(
                i, "slice", _like(piece, piece.sizes), [whole], _attribute("slice", text)
            )
            yield self._as_part(i, place, piece)
            start = stop

    def _as_part(self, i: int, place: int, piece: Piece) -> int:
        turned = tuple(piece.own[k] for k in piece.turn)
        if turned != piece.sizes:
            place = self._add(i, "reshape", _like(piece, turned), [place])
        if piece.is_turned:
            back = sorted(range(len(piece.turn)), key=piece.turn.__getitem__)
            order = _attribute("dimensions", _braces(back))
            place = self._add(i, "transpose", piece.shape, [place], order)
        return place

    def _add(
        self,
        i: int,
        opcode: str,
        shape: str,
        operands: Sequence[int],
        attributes: Attributes = _NO_ATTRIBUTES,
    ) -> int:
        self.names.append(self.module.names[i])
        self.opcodes.append(opcode)
        self.shapes.append(shape)
        self.operands.append(tuple(operands))
        self.attributes.append(attributes)
        return len(self.names) - 1

    def build(self) -> Module:
        """The module."""
        old = self.module
        return replace(
            old,
            header=tuple(pair for pair in old.header if pair[0] in _OF_THE_WHOLE),
            unstated=old.unstated | {key for key, _ in old.header if key not in _OF_THE_WHOLE},
            computations=tuple(self.computations),
            names=self.names,
            opcodes=self.opcodes,
            shapes=self.shapes,
            operands=self.operands,
            attributes=self.attributes,
            payloads=self.payloads,
            callees={self.places[i]: called for i, called in old.callees.items()},
            controls={
                self.places[i]: tuple(self.places[o] for o in before)
                for i, before in old.controls.items()
            },
            effect_order={self.places[i]: n for i, n in old.effect_order.items()},
        )


def _like(piece: Piece, sizes: Sequence[int]) -> str:
    """The shape of other sizes that a piece's tensor has the type of."""
    kind = piece.shape.partition("[")[0]
    return f"{kind}[{','.join(map(str, sizes))}]"


def _braces(items: Sequence[object]) -> str:
    return "{" + ",".join(map(str, items)) + "}"


def _attribute(key: str, value: str) -> Attributes:
    return Attributes(f", {key}={value}", ((key, value),), "", (), ())
