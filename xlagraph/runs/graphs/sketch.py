"""What is kept of a module while a run is explained; the modules themselves come in pairs."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from xlagraph.cause.editor import is_input
from xlagraph.collectives.program import Branch, Collective, Loop, Program, program_of
from xlagraph.diff.header import given_away
from xlagraph.facts.program.hooks import hook_line, is_forward
from xlagraph.facts.training.named_inputs import replaced_inputs
from xlagraph.facts.training.updates import renewed, updates
from xlagraph.message import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.collectives.program import Item, Items
    from xlagraph.graph import Module, SourceFrame

    Histogram = Counter[tuple[str, str]]
    """How often each opcode stands with each shape."""

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Interface:
    """What a module takes in and gives out; inputs and outputs by their places from 0 on."""

    inputs: tuple[tuple[int, str], ...]
    """Parameter number and shape, with its layout."""
    outputs: tuple[tuple[str, bool], ...]
    """Shape without its layout, and whether it is an input as it came."""
    updates: tuple[tuple[int, tuple[int, ...]], ...]
    """Inputs that the module updates, and the outputs that are their new values."""
    given_away: tuple[int, ...]
    """Parameter numbers whose buffers go to outputs."""


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A module in some kilobytes; it depends on the module alone."""

    instructions: int
    counts: tuple[tuple[str, str, int], ...]
    """Opcode, shape, and how often the two stand together."""
    interface: Interface
    replaced: tuple[tuple[int, tuple[int, ...]], ...]
    """Parameter number and the output that replaces it, with others; see `replaced_inputs`."""
    files: tuple[str, ...]
    """The Python files that its instructions come from, sorted."""
    hooks: tuple[tuple[SourceLine, int], ...]
    """Lines of the program in hooks, and how many operations each makes."""
    forward: int
    """Operations that forward passes of modules make, but for those of hooks."""
    passes: tuple[tuple[tuple[SourceLine, ...], int], ...]
    """The program's frames around calls of the backward pass, innermost first, and how often."""
    updates: tuple[tuple[tuple[SourceLine, ...], int], ...]
    """Those around calls of optimizers, and how many operations these make."""
    saved: tuple[tuple[str, int], ...]
    """Shapes of inputs that only gradients are computed from, and how many there are of each."""
    idle: tuple[int, ...]
    """Numbers of the parameters of which only an optimizer computes something."""
    program: Program | None
    """Its collectives; None in a run of one rank, where nobody asks for them."""

    def histogram(self) -> Histogram:
        """The counts, to be compared with those of others; equal texts share one string."""
        intern = sys.intern
        return Counter({(intern(o), intern(s)): number for o, s, number in self.counts})


class Shared:
    """Sketches whose equal parts are the same objects: graphs of one run have most in common."""

    def __init__(self) -> None:
        self._known: dict[object, object] = {}

    def sketch(self, sketch: Sketch) -> Sketch:
        """An equal sketch that takes a fraction of the memory."""
        interface = sketch.interface
        return replace(
            sketch,
            counts=self._each(sketch.counts),
            interface=self._one(
                replace(
                    interface,
                    inputs=self._each(interface.inputs),
                    outputs=self._each(interface.outputs),
                    updates=self._each(interface.updates),
                )
            ),
            replaced=self._one(self._each(sketch.replaced)),
            files=self._one(sketch.files),
            hooks=self._each(sketch.hooks),
            passes=self._each(sketch.passes),
            updates=self._each(sketch.updates),
            saved=self._each(sketch.saved),
            idle=self._one(sketch.idle),
            program=self._program(sketch.program),
        )

    def _program(self, program: Program | None) -> Program | None:
        return program and replace(program, items=self._items(program.items))

    def _item(self, item: Item) -> Item:
        if isinstance(item, Collective):
            item = replace(item, groups=self._one(item.groups), pairs=self._one(item.pairs))
        elif isinstance(item, Loop):
            item = replace(item, body=self._items(item.body))
        elif isinstance(item, Branch):
            item = replace(item, branches=tuple(map(self._items, item.branches)))
        return self._one(item)

    def _items(self, items: Items) -> Items:
        return tuple(map(self._item, items))

    def _each(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple([self._one(part) for part in parts])

    def _one(self, part: Part) -> Part:
        """The first of all equal parts."""
        known = self._known.setdefault(part, part)
        assert isinstance(known, type(part))
        return known


def sketch_of(module: Module, *, has_ranks: bool = False) -> Sketch:
    """The sketch of a module, with its collectives if the run has ranks; linear in instructions."""
    found = Counter(zip(module.opcodes, module.shapes, strict=True))
    stacks = _stacks(module)
    hooks, forward = _hooks(stacks)
    return Sketch(
        instructions=len(module),
        counts=tuple((opcode, shape, number) for (opcode, shape), number in found.items()),
        interface=_interface(module),
        replaced=tuple(replaced_inputs(module, updates(module)).items()),
        files=tuple(sorted({frame.file for frames in stacks for frame in frames})),
        hooks=tuple(sorted(hooks.items())),
        forward=forward,
        passes=tuple(sorted(_made(stacks, _begins_backward).items())),
        updates=tuple(sorted(_made(stacks, _updates).items())),
        saved=tuple(sorted(_saved(module).items())),
        idle=tuple(sorted(_idle(module))),
        program=program_of(module) if has_ranks else None,
    )


def _interface(module: Module) -> Interface:
    parameters = module.entry_computation.parameters
    place = {p: k for k, p in enumerate(parameters)}
    return Interface(
        inputs=tuple((int(module.payloads[p]), module.shapes[p]) for p in parameters),
        outputs=tuple(
            (without_layout(module.shapes[i]), is_input(module, i)) for i in module.outputs
        ),
        updates=tuple((place[p], tuple(found)) for p, found in renewed(module).items()),
        given_away=tuple(sorted(given_away(module))),
    )


def without_layout(shape: str) -> str:
    """An array's shape without its layout."""
    return shape.partition("{")[0]


def _stacks(module: Module) -> Counter[tuple[SourceFrame, ...]]:
    """How many operations come from each place of the program, with the calls that led there.

    Inputs and constants are none: their places are those where they were first asked for.
    """
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for i, (opcode, attributes) in enumerate(zip(module.opcodes, module.attributes, strict=True)):
        first.setdefault(attributes.metadata, i)
        counts[attributes.metadata] += opcode not in ("parameter", "constant")
    found: Counter[tuple[SourceFrame, ...]] = Counter()
    for text, number in counts.items():
        metadata = module.metadata(first[text])
        if metadata and metadata.frames:
            found[metadata.frames] += number
    return found


def _hooks(stacks: Counter[tuple[SourceFrame, ...]]) -> tuple[Counter[SourceLine], int]:
    """How many operations each hook makes, by its line, and the modules' forward passes."""
    hooks: Counter[SourceLine] = Counter()
    forward = 0
    for frames, number in stacks.items():
        line = hook_line(frames)
        if line:
            hooks[line] += number
        elif is_forward(frames):
            forward += number
    return hooks, forward


def _made(
    stacks: Counter[tuple[SourceFrame, ...]], is_such: Callable[[tuple[SourceFrame, ...]], bool]
) -> Counter[tuple[SourceLine, ...]]:
    """How many operations such stacks make, by the frames of the program itself in them."""
    found: Counter[tuple[SourceLine, ...]] = Counter()
    for frames, number in stacks.items():
        if number and is_such(frames):
            lines = (SourceLine(frame.file, frame.line, frame.function) for frame in frames)
            found[tuple(line for line in lines if not line.is_library)] += number
    found.pop((), None)
    return found


def _saved(module: Module) -> Counter[str]:
    """How many inputs of each shape only the backward pass takes.

    Its threads run no line of the program: an operation there has no frames.
    """
    known: dict[str, bool] = {}

    def is_backward(i: int) -> bool:
        text = module.attributes[i].metadata
        if text not in known:
            metadata = module.metadata(i)
            known[text] = bool(metadata and metadata.op_type and not metadata.frames)
        return known[text]

    found: Counter[str] = Counter()
    for p in module.entry_computation.parameters:
        if module.users[p] and all(map(is_backward, module.users[p])):
            found[without_layout(module.shapes[p])] += 1
    return found


def _idle(module: Module) -> list[int]:
    """The parameters that are taken in by what optimizers compute, and by nothing else.

    A zero gradient moves a weight by its momentum or decay, though nothing else computes with it.
    """
    known: dict[str, bool] = {}

    def is_update(i: int) -> bool:
        text = module.attributes[i].metadata
        if text not in known:
            metadata = module.metadata(i)
            known[text] = bool(metadata and _updates(_in_library(metadata.frames)))
        return known[text]

    idle = []
    for p in module.entry_computation.parameters:
        users = [i for i in module.users[p] if module.opcodes[i] != "tuple"]
        if users and all(map(is_update, users)):
            idle.append(int(module.payloads[p]))
    return idle


def _in_library(frames: tuple[SourceFrame, ...]) -> tuple[SourceFrame, ...]:
    """The frames within the innermost line of the program: an optimizer may call a closure."""

    def is_library(frame: SourceFrame) -> bool:
        return SourceLine(frame.file, frame.line, frame.function).is_library

    return tuple(takewhile(is_library, frames))


def _begins_backward(frames: tuple[SourceFrame, ...]) -> bool:
    """Whether a stack makes the gradient of a loss, in one operation."""
    return frames[0].file.endswith("torch/autograd/__init__.py")


def _updates(frames: tuple[SourceFrame, ...]) -> bool:
    return any("torch/optim/" in frame.file for frame in frames)
