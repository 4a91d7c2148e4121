"""Source lines of instructions: the program's own before those of libraries."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from xlagraph.message import Message, Operation, SourceLine, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.graph import Module, SourceFrame

CAPTURE = "xlagraph/capture/"
OPERATORS = "torch/_tensor.py"
"""Where torch writes operators in Python."""
MAX_LINES = 3
MAX_FURTHER = 2
"""Steps that the line on the other side may be further away than the nearest."""
MAX_NEAR = 200
"""Instructions looked at for a line of the program near a library's."""


def where(module: Module, instructions: Iterable[int]) -> tuple[SourceLine, ...]:
    """The source lines of instructions, at most 3.

    Lines of the program itself come first, then those of the forward pass, then those that run
    no optimizer, which updates everything, then the most frequent.
    """
    counts: Counter[SourceLine] = Counter()
    for i in instructions:
        line = line_of(module, i)
        if line:
            counts[line] += 1
    ordered = sorted(counts, key=lambda line: (*_rank(line), -counts[line], str(line)))
    return tuple(ordered[:MAX_LINES])


def _rank(line: SourceLine) -> tuple[bool, bool, bool]:
    steps = line.called is not None and "torch/optim/" in line.called.file
    return line.is_library, bool(line.backward_of), steps


def _rank_of(module: Module, i: int, line: SourceLine) -> tuple[bool, ...]:
    """As `_rank`; the line of an input, as of weights that were moved, computes nothing."""
    return module.opcodes[i] == "parameter", *_rank(line)


def operation_name(module: Module, i: int) -> str:
    """What the framework calls the operation that made an instruction; empty where unknown."""
    metadata = module.metadata(i)
    return bare(metadata.op_type) if metadata and metadata.op_type else ""


def is_forward(line: SourceLine) -> bool:
    """Whether it is a line of the program's own forward pass, that runs no optimizer."""
    return not any(_rank(line))


def line_of(module: Module, i: int) -> SourceLine | None:
    """The line of an instruction, else that of the forward operation it is the derivative of."""
    metadata = module.metadata(i)
    if metadata is None:
        return None
    if metadata.frames:
        return own_line(metadata.frames)
    origin = module.origins.get(i) if metadata.op_type else None
    if origin is None:
        return None
    return own_line(origin.frames)._replace(backward_of=bare(origin.operation))


def called_at(module: Module, piece: Iterable[int]) -> tuple[SourceLine, ...]:
    """The program's line that all of a piece was called from, the innermost; else as `where`.

    Of a module of several lines that is where it is called. What optimizers and derivatives run,
    and where the inputs were made, counts only where there is nothing else.
    """
    found: dict[tuple[bool, ...], list[tuple[SourceLine, ...]]] = {}
    members = sorted(piece)
    for i in members:
        line = line_of(module, i)
        if line:
            found.setdefault(_rank_of(module, i, line), []).append(stack(module, i))
    if not found:
        return ()
    stacks = found[min(found)]
    shared = stacks[0]
    for one in stacks[1:]:
        shared = _shared(shared, one)
    line = next((frame for frame in shared if not frame.is_library), None)
    return (line,) if line else where(module, members)


def called_within(module: Module, piece: Iterable[int], line: SourceLine) -> SourceLine | None:
    """The first line that this one leads to for a piece; None if these are not in one function.

    Lines of derivatives, of optimizers and of inputs count only where there is nothing else.
    """
    found: dict[tuple[bool, ...], set[SourceLine]] = {}
    for i in piece:
        own = line_of(module, i)
        frames = stack(module, i) if own else ()
        if own and line in frames[1:]:
            found.setdefault(_rank_of(module, i, own), set()).add(frames[frames.index(line) - 1])
    inner = found[min(found)] if found else set()
    is_one = len({(frame.file, frame.function) for frame in inner}) == 1
    return min(inner) if is_one and not any(frame.is_library for frame in inner) else None


def _shared(one: tuple[SourceLine, ...], other: tuple[SourceLine, ...]) -> tuple[SourceLine, ...]:
    """The frames, outermost first in the program, that two stacks begin with."""
    number = 0
    for mine, theirs in zip(reversed(one), reversed(other), strict=False):
        if mine != theirs:
            break
        number += 1
    return one[len(one) - number :]


def stack(module: Module, i: int) -> tuple[SourceLine, ...]:
    """The frames of the line that `where` gives for an instruction, innermost first."""
    metadata, origin = module.metadata(i), module.origins.get(i)
    frames = metadata.frames if metadata else ()
    frames = frames or (origin.frames if origin else ())
    return tuple(SourceLine(f.file, f.line, _named(f.function)) for f in of_the_program(frames))


def of_the_program(frames: Iterable[SourceFrame]) -> Iterator[SourceFrame]:
    """Frames without those of what records: capture stands around the flush of a bucket."""
    return (frame for frame in frames if CAPTURE not in frame.file)


@lru_cache(maxsize=4096)
def own_line(frames: tuple[SourceFrame, ...]) -> SourceLine:
    """The innermost frame of the program itself, with the library's that it led to.

    Where all frames are a library's, the innermost one.

    Args:
        frames: a stack, innermost frame first; not empty.
    """
    lines = [SourceLine(f.file, f.line, _named(f.function)) for f in frames]
    own = next((line for line in lines if not line.is_library), lines[0])
    return own if own is lines[0] else own._replace(called=lines[0])


def statement(lines: Sequence[SourceLine]) -> SourceLine | None:
    """The first of some lines, if it is a statement of the program that itself does what is told.

    Not so where it calls a library's function, or where a derivative goes back to it. An operator
    (``x ** p``) is no function that is called, though torch writes some of them in Python.
    """
    line = next(iter(lines), None)
    if line is None or line.is_library or line.backward_of:
        return None
    is_call = line.called and not line.called.file.endswith(OPERATORS)
    return None if is_call else line


def _named(function: str) -> str:
    """The innermost named function of a qualified name: ``step`` of ``main.<locals>.step``."""
    parts = function.split(".<locals>.")
    return next((part for part in reversed(parts) if not part.startswith("<")), function)


def bare(operation: str) -> str:
    """An operation's name as torch writes it: ``mul`` of ``aten__mul``."""
    return operation.removeprefix("aten__").removeprefix("xla__")


def knows_lines(module: Module) -> bool:
    """Whether any instruction has a source line: torch_xla writes them where it is asked to."""
    return any("source_" in a.metadata or "stack_" in a.metadata for a in module.attributes)


def operations(module: Module, instructions: Iterable[int]) -> Message:
    """The framework's operations that instructions come from: `` (native_dropout, mul)``."""
    counts: Counter[str] = Counter()
    for i in instructions:
        metadata = module.metadata(i)
        if metadata and metadata.op_type:
            counts[bare(metadata.op_type)] += 1
    ordered = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_LINES]
    return say(" (", join(map(Operation, ordered)), ")") if ordered else say()


def at(lines: Sequence[SourceLine]) -> Message:
    """`` at train.py:10`` for a title, or nothing."""
    if not lines:
        return say()
    operation = lines[0].backward_of
    before = say(" in the backward of ", Operation(operation)) if operation else say()
    return say(before, " at ", lines[0])


def backward_line(module: Module, instructions: Iterable[int]) -> SourceLine | None:
    """The program's line that called ``backward()``, if that ran these instructions.

    They have no lines where what they are the derivative of is not in the graph: torch's engine
    calls no Python. What they begin with, the gradient of the loss itself, has that of the call.
    """
    alone = (i for i in instructions if module.opcodes[i] != "tuple")
    front = [i for i in alone if line_of(module, i) is None]
    seen = set(front)
    for i in front:  # grows while it is read
        for o in module.operands[i]:
            line = line_of(module, o)
            if line and line.called and "torch/autograd/" in line.called.file:
                return line
            if line is None and o not in seen and len(seen) < MAX_NEAR:
                seen.add(o)
                front.append(o)
    return None


def backward_call(module: Module) -> SourceLine | None:
    """The one line of the program that calls ``backward()`` for this module, if it is one."""
    called = (line_of(module, i) for i in range(len(module)) if not module.operands[i])
    lines = {
        line._replace(called=None)
        for line in called
        if line and line.called and "torch/autograd/" in line.called.file and not line.is_library
    }
    return lines.pop() if len(lines) == 1 else None


def lines_near(module: Module, instructions: Iterable[int]) -> tuple[SourceLine, ...]:
    """The program's lines on the way to these instructions and from them, the nearest first.

    The second is left out where it is much further away.

    The text of torch_xla has only the innermost frame of each instruction, which is often inside
    a library; the values that go in or come out know more. What merely shares an input with them
    says nothing. A call of a library counts as one: what it is given is as near to its numbers as
    what it gives back.
    """
    starts = _calls_of(module, instructions)
    found = [_along(module, starts, edges) for edges in (module.operands, module.users)]
    by_steps = sorted((one for one in found if one), key=lambda one: one[0])
    return tuple(
        dict.fromkeys(line for steps, line in by_steps if steps <= by_steps[0][0] + MAX_FURTHER)
    )


def line_behind(module: Module, instructions: Iterable[int]) -> SourceLine | None:
    """The nearest of the program's own lines that takes in what these instructions make."""
    found = _along(module, _calls_of(module, instructions), module.users)
    return found[1] if found and is_forward(found[1]) else None


def _calls_of(module: Module, instructions: Iterable[int]) -> list[int]:
    """These instructions, with what hangs together with them at the same lines of a library.

    An optimizer is given the gradients of all layers: its lines are no call by themselves.
    """
    found = sorted(instructions)
    seen = set(found)
    for i in found:  # grows while it is read
        line = line_of(module, i)
        if line is None or not line.is_library or line.backward_of:
            continue
        if "torch/optim/" in line.file:
            continue
        for k in (*module.operands[i], *module.users[i]):
            if k not in seen and len(seen) < MAX_NEAR and line_of(module, k) == line:
                seen.add(k)
                found.append(k)
    return found


def line_around(module: Module, instructions: Iterable[int]) -> SourceLine | None:
    """The nearest line of the program's forward pass, from the first of these instructions on.

    On any way that leads through no input and no constant: of what a library computes with a
    number, and hands to nobody, the values beside know more.
    """
    front = sorted(instructions)[:1]
    seen = {*front, module.entry_computation.root}
    for i in front:  # grows while it is read
        line = line_of(module, i)
        if line and is_forward(line) and module.opcodes[i] != "parameter":
            return line
        for k in (*module.operands[i], *module.users[i]):
            if k not in seen and module.operands[k] and len(seen) < MAX_NEAR:
                seen.add(k)
                front.append(k)
    return None


def _along(
    module: Module, starts: Sequence[int], edges: Sequence[Sequence[int]]
) -> tuple[int, SourceLine] | None:
    """The first line of the program that is met along these edges, and after how many steps."""
    front, seen, steps = list(starts), set(starts), 0
    while front and len(seen) < MAX_NEAR:
        for i in front:
            line = line_of(module, i)
            if line and not line.is_library:
                return steps, line
        front = [o for o in dict.fromkeys(o for i in front for o in edges[i]) if o not in seen]
        seen.update(front)
        steps += 1
    return None
