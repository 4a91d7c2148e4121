"""The values that a number of a program took over the graphs of a cause.

``dimension 1 of x took 180 sizes, 16 to 195`` says more than any one of 180 comparisons does.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Level, instruction_text, without_layout
from xlagraph.message import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.cause.model import Cause, Context
    from xlagraph.graph import Module
    from xlagraph.message import Message, Part
    from xlagraph.runs.model import CauseGroup, GraphNode

MIN_VALUES = 3
"""Fewer are told by the comparisons themselves."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


@dataclass(frozen=True, slots=True)
class Taken:
    """A number that differs from graph to graph."""

    message: Message
    values: tuple[tuple[float, int], ...]
    """Ascending; with each how many syncs ran a graph of it, as far as known."""


@dataclass(frozen=True, slots=True)
class _Cited:
    """The instruction that a cause cites first, with its numbers taken out."""

    shape: str
    rest: str
    """Opcode, payload and attributes, without numbers."""
    opcode: str
    number: int
    """Of a parameter; -1 for all else."""
    sizes: tuple[float, ...]
    others: tuple[float, ...]


def values_taken(group: CauseGroup, nodes: Sequence[GraphNode]) -> Taken | None:
    """What varies most in the instruction that the graphs of a group cite; None if nothing does.

    Graphs in which another instruction is cited do not count.
    """
    members = [node for node in nodes if node.digest in set(group.graphs)]
    cited = dict(_cited(members))
    forms = Counter((one.shape, one.rest) for one in cited.values())
    if not forms:
        return None
    form = max(forms, key=lambda key: forms[key])
    alike = {digest: one for digest, one in cited.items() if (one.shape, one.rest) == form}
    runs = {node.digest: node.compiles + node.hits for node in nodes}
    found = [
        taken
        for place, column in _columns(list(alike.values()))
        if (taken := _taken(place, dict(zip(alike, column, strict=True)), runs, alike, nodes))
    ]
    return max(found, key=lambda taken: len(taken.values), default=None)


def _cited(members: Iterable[GraphNode]) -> Iterator[tuple[str, _Cited]]:
    """By digest: in each graph, and in the one that it was compared with."""
    for node in members:
        explanation = node.explanation
        if explanation is None or not explanation.causes:
            continue
        a, b = _first(explanation.causes[0])
        if a is not None:
            yield node.nearest, _instruction(explanation.diff.a, a)
        if b is not None:
            yield node.digest, _instruction(explanation.diff.b, b)


def _first(cause: Cause) -> tuple[int | None, int | None]:
    """The first instruction of A and of B in the first evidence that cites any."""
    for evidence in cause.evidence:
        if evidence.a or evidence.b:
            return next(iter(evidence.a), None), next(iter(evidence.b), None)
    return None, None


def _instruction(module: Module, i: int) -> _Cited:
    shape, opcode, payload, attributes = instruction_text(module, i, Level.NAMES)
    shape = without_layout(shape)
    is_parameter = opcode == "parameter"
    rest = f"({'' if is_parameter else payload}){attributes}"
    return _Cited(
        _NUMBER.sub("#", shape),
        opcode + _NUMBER.sub("#", rest),
        opcode,
        int(payload) if is_parameter and payload.isdecimal() else -1,
        tuple(map(float, _NUMBER.findall(shape))),
        tuple(map(float, _NUMBER.findall(rest))),
    )


def _columns(cited: Sequence[_Cited]) -> Iterator[tuple[tuple[str, int], tuple[float, ...]]]:
    for what, rows in (("size", [c.sizes for c in cited]), ("value", [c.others for c in cited])):
        for place, column in enumerate(zip(*rows, strict=True)):
            yield (what, place), column


def _taken(
    place: tuple[str, int],
    value_of: Mapping[str, float],
    runs: Mapping[str, int],
    cited: Mapping[str, _Cited],
    nodes: Sequence[GraphNode],
) -> Taken | None:
    counts: Counter[float] = Counter()
    for digest, value in value_of.items():
        counts[value] += runs.get(digest, 0)
    if len(counts) < MIN_VALUES:
        return None
    one = next(iter(cited.values()))
    least, most = f"{min(counts):g}", f"{max(counts):g}"
    if place[0] == "size":
        contexts = [node.context for node in nodes if node.digest in cited]
        whose = _named(one, contexts)
        text = f" took {len(counts)} sizes, {least} to {most}"
        message = say(f"dimension {place[1]} of ", whose, text)
    else:
        what = "the constant" if one.opcode == "constant" else f"a number of this {one.opcode}"
        message = say(f"{what} took {len(counts)} values, {least} to {most}")
    return Taken(message, tuple(sorted(counts.items())))


def _named(cited: _Cited, contexts: Sequence[Context]) -> Part | str:
    """The tensor that a parameter is, where the capture knows it."""
    known = (context.parameters.get(cited.number) for context in contexts)
    named = next((tensor for tensor in known if tensor), None)
    if named:
        return named
    return f"parameter {cited.number}" if cited.number >= 0 else cited.opcode
