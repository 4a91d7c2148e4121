"""Bucketed collectives as they stand in a module: which tensors they take, and from where."""

from __future__ import annotations

from itertools import compress, count
from typing import TYPE_CHECKING

from xlagraph.canon.barriers import element
from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.model import BucketRow
from xlagraph.facts.values.opcodes import ELEMENTWISE, PLUMBING
from xlagraph.facts.values.scalars import is_number
from xlagraph.message import HloName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.cause.model import Context, Member
    from xlagraph.graph import Module

BUCKETED = frozenset({"reduce-scatter", "all-reduce", "all-gather"})
MAX_STEPS = 64
"""How far a bucketed tensor is followed back to where it was made."""


def bucket_rows(module: Module, context: Context) -> tuple[BucketRow, ...]:
    """The collectives that take several tensors at once, in the order of the text."""
    rows = []
    flushed = iter(context.flushed)
    for i in _buckets(module):
        origins = [origin(module, o) for o in module.operands[i]]
        names: Sequence[Member] = next(flushed, ())
        if len(names) != len(origins):
            names = [_member(module, context, o) for o in origins]
        rows.append(
            BucketRow(
                i,
                module.opcodes[i],
                tuple(names),
                tuple(bare_shape(module, o) for o in module.operands[i]),
                tuple(module.opcodes[o] == "parameter" for o in origins),
            )
        )
    return tuple(rows)


def lone_rows(module: Module, context: Context, opcodes: Collection[str]) -> tuple[BucketRow, ...]:
    """The collectives of these kinds that take one tensor each: buckets of one."""
    rows = []
    for i, opcode in enumerate(module.opcodes):
        if opcode in opcodes and len(module.operands[i]) == 1:
            (operand,) = module.operands[i]
            made = origin(module, operand)
            name, shape = _member(module, context, made), bare_shape(module, operand)
            carried = module.opcodes[made] == "parameter"
            rows.append(BucketRow(i, opcode, (name,), (shape,), (carried,)))
    return tuple(rows)


def _buckets(module: Module) -> list[int]:
    collectives = compress(count(), map(BUCKETED.__contains__, module.opcodes))
    return [i for i in collectives if len(module.operands[i]) > 1]


def _member(module: Module, context: Context, instruction: int) -> Member:
    if is_input(module, instruction):
        known = context.input_tensor(module, instruction)
        return known or f"input {module.payloads[instruction]}"
    return HloName(module.names[instruction], module.opcodes[instruction])


def origin(module: Module, instruction: int) -> int:
    """Follows a collective's operand back to the instruction that made the tensor."""
    return chain(module, instruction)[-1]


def chain(module: Module, instruction: int) -> list[int]:
    """The way from a bucketed tensor back to where it was made, both ends included.

    Tuples, barriers, reshapes and element-wise steps with a broadcast scalar (the token
    that orders collectives, a division by the world size) are passed through.
    """
    way = [instruction]
    for _ in range(MAX_STEPS):
        before = _before(module, way[-1])
        if before is None:
            break
        way.append(before)
    return way


def _before(module: Module, i: int) -> int | None:
    operands = module.operands[i]
    opcode = module.opcodes[i]
    if opcode == "get-tuple-element":
        return element(module, i)
    if opcode in ELEMENTWISE:
        main = [o for o in operands if not is_number(module, o)]
        return main[0] if len(main) == 1 else None
    return operands[0] if opcode in PLUMBING and operands else None


def reach(module: Module, starts: Iterable[int]) -> bytearray:
    """One byte an instruction: 1 where it is, or depends on, one of `starts`."""
    reached = bytearray(len(module))
    users, stack = module.users, list(starts)
    while stack:
        i = stack.pop()
        if not reached[i]:
            reached[i] = 1
            stack += users[i]
    return reached


def value_reach(module: Module, starts: Iterable[int]) -> bytearray:
    """As `reach`, but an element picked out of a tuple depends on that element alone."""
    reached = bytearray(len(module))
    for i in starts:
        reached[i] = 1
    is_reached = reached.__getitem__
    for i, operands in enumerate(module.operands):
        if any(map(is_reached, operands)):
            part = element(module, i) if module.opcodes[i] == "get-tuple-element" else None
            reached[i] = part is None or reached[part]
    return reached


def near_buckets(module: Module, rows: Sequence[BucketRow]) -> set[int]:
    """The instructions on the way into the buckets, and into what is updated with them."""
    starts = [o for row in rows for o in module.operands[row.instruction]]
    depends = value_reach(module, [row.instruction for row in rows])
    for i, operands in enumerate(module.operands):
        if depends[i] and module.opcodes[i] in ("add", "subtract", "multiply"):
            starts += [o for o in operands if not depends[o]]
    found: set[int] = set()
    for start in starts:
        if not is_number(module, start):
            found.update(chain(module, start))
    return found
