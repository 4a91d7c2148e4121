"""Parts of a module by what needs them: live work, private callees, exclusive slices."""

from __future__ import annotations

from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING

from xlagraph.canon.live import mark, roots
from xlagraph.cause.editor import UNDONE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.graph import Module

IDLE = {"parameter", "constant", "tuple", "get-tuple-element", UNDONE}
"""What computes nothing: two modules that have only these in common have nothing in common."""


def live_work(module: Module, live: bytearray | None = None) -> int:
    """How many instructions that compute something the entry's root and effects need.

    `live`: what they need, where that is known already.
    """
    entry = module.entry_computation
    if live is None:
        live = bytearray(len(module))
        mark(module, live, roots(module, entry))
    span = slice(entry.start, entry.stop)
    needed = Counter(compress(module.opcodes[span], live[span]))
    return needed.total() - sum(needed[opcode] for opcode in IDLE)


def called_only_by(module: Module, callers: Collection[int]) -> set[int]:
    """The instructions of computations that nothing but `callers`, or each other, calls."""
    called: set[int] = set()
    others: set[int] = set()
    for i, callees in module.callees.items():
        (called if i in callers else others).update(callees)
    mine = called - others
    found: set[int] = set()
    while mine:
        computation = module.computations[mine.pop()]
        body = range(computation.start, computation.stop)
        found.update(body)
        inner = {c for i in body for c in module.callees.get(i, ())}
        mine |= {c for c in inner if module.computations[c].start not in found}
    return found


def made_of(module: Module, value: int, within: Collection[int] | None = None) -> set[int]:
    """A value and all that it is computed from, within its computation.

    `within`: the instructions that are followed, if not all.
    """
    found, stack = {value}, [value]
    for i in stack:  # grows while it is read
        fresh = {*module.operands[i]} - found
        if within is not None:
            fresh = fresh.intersection(within)
        found |= fresh
        stack += sorted(fresh)
    return found


def exclusive_slice(module: Module, dropped: Iterable[int], extra: Sequence[int] = ()) -> set[int]:
    """The instructions that only the outputs at these positions need, `extra` values kept."""
    gone = set(dropped)
    entry = module.entry_computation
    root, *effects = roots(module, entry)
    values = module.outputs
    if module.opcodes[root] != "tuple":
        return set()
    kept, wanted = bytearray(len(module)), bytearray(len(module))
    mark(module, kept, [*effects, *extra, *(v for k, v in enumerate(values) if k not in gone)])
    mark(module, wanted, [values[k] for k in gone])
    return {i for i in range(entry.start, entry.stop) if wanted[i] and not kept[i]}
