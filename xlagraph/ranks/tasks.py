"""What worker processes do for the ranks of a run: look at modules, one or two at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.sources import stack, where
from xlagraph.facts.distributed.buckets import value_reach
from xlagraph.message import SourceLine
from xlagraph.ranks.index import Differing, differing
from xlagraph.runs.pairs.tasks import GraphPlace, Side, kept, modules
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from xlagraph.cause.model import Context
    from xlagraph.graph import Module

MAX_TENSORS = 6
"""Named outputs that a collective may reach and still be called by them."""


class StandTask(NamedTuple):
    """A collective at which ranks stand."""

    side: Side
    instruction: int
    key: str


@dataclass(frozen=True, slots=True)
class Stand:
    """A collective at which ranks stand, as it is shown."""

    shapes: tuple[str, ...]
    """Of what goes in."""
    tensors: tuple[Tensor, ...]
    """What it is for, as far as that is known."""
    lines: tuple[SourceLine, ...]
    callers: tuple[SourceLine, ...] = ()
    """Of the first line's function those of the program that called it, innermost first."""


class DifferingTask(NamedTuple):
    """Graphs of two ranks."""

    first: GraphPlace
    other: GraphPlace
    key: str


@dataclass(frozen=True, slots=True)
class DifferingLines:
    """What differs between graphs of two ranks, and the lines that it comes from."""

    differing: Differing | None
    lines: tuple[SourceLine, ...]


def stand(task: StandTask) -> bytes:
    """A `Stand`, as the cache holds it.

    Raises:
        InputError: the module is not readable HLO.
        RunError: the module is damaged.
    """
    module, i = modules.read(task.side.graph), task.instruction
    if not 0 <= i < len(module):  # a forged sketch
        return kept(task.side.graph, task.key, Stand((), (), ()), len(module))
    operands = module.operands[i]
    sent = operands[:-1] if len(operands) > 1 and _is_token(module, operands[-1]) else operands
    found = Stand(
        shapes=tuple(bare_shape(module, one) for one in sent),
        tensors=_tensors(module, task.side.context, i, len(sent)),
        lines=where(module, [i]),
        callers=_callers(stack(module, i)),
    )
    return kept(task.side.graph, task.key, found, len(module))


def _callers(frames: tuple[SourceLine, ...]) -> tuple[SourceLine, ...]:
    """The program's own frames around the innermost one, without those of comprehensions."""
    own = [one for one in frames if not one.is_library]
    return tuple(one for one in own[1:] if one.function == "<module>" or one.function[:1] != "<")


def compare_ranks(task: DifferingTask) -> bytes:
    """A `DifferingLines`, as the cache holds it.

    Raises:
        InputError, RunError: as `stand`.
    """
    first, other = modules.read(task.first), modules.read(task.other)
    found = differing(first, other)
    lines = where(first, found.places) if found else ()
    return kept(task.first, task.key, DifferingLines(found, lines), len(first) + len(other))


def _is_token(module: Module, i: int) -> bool:
    """Whether an operand is the scalar with which torch_xla orders collectives."""
    return bare_shape(module, i).endswith("[]")


def _tensors(module: Module, context: Context, i: int, sent: int) -> tuple[Tensor, ...]:
    """The outputs with names that a collective's own results reach, if they are few."""
    results = [
        user
        for user in module.users[i]
        if module.opcodes[user] != "get-tuple-element"
        or int(module.attributes[user].get("index") or 0) < sent
    ]
    reached = value_reach(module, results)
    named = [t for k, t in sorted(context.outputs.items()) if reached[module.outputs[k]]]
    return tuple(named) if len(named) <= MAX_TENSORS else ()
