"""The values that a number of a program took over the graphs of a cause.

``dimension 1 of x took 180 sizes, 16 to 195`` says more than any one of 180 comparisons does.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.facts.program.typed_slices import slice_bounds
from xlagraph.message import EMPTY, Code, say
from xlagraph.rules.shapes.growing_input import GROWING_INPUT
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.runs.causes.growth import main_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.cause.verdict import Place
    from xlagraph.message import Message, Part, SourceLine
    from xlagraph.runs.model import CauseGroup, GraphNode
    from xlagraph.runs.pairs.outcome import Cited
    from xlagraph.tensors import Tensor

MIN_VALUES = 3
"""Fewer are told by the comparisons themselves."""
MIN_GROWN = 5
"""So many sizes of an input, each as much larger than the one before, are no choice of a few."""
MIN_UNEVEN = 8
"""So many are none where each is larger than the one before, by whatever."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


@dataclass(frozen=True, slots=True)
class Taken:
    """A number that differs from graph to graph."""

    message: Message
    values: tuple[tuple[float, int], ...]
    """Ascending; with each how many syncs ran a graph of it, as far as known."""
    grows: bool = False
    """Each graph has more of it than the one before."""


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
    tensor: Tensor | None
    line: SourceLine | None
    """Where the program has it."""

    @property
    def form(self) -> tuple[str, str, SourceLine | None]:
        """What has to be alike for the numbers to be those of one instruction."""
        return self.shape, self.rest, self.line


def values_taken(group: CauseGroup, nodes: Sequence[GraphNode]) -> Taken | None:
    """What varies most in the instruction that the graphs of a group cite; None if nothing does.

    Graphs in which another instruction is cited do not count.
    """
    members = [node for node in nodes if node.digest in set(group.graphs)]
    # Of several lines that change, another may come first in a graph.
    members = [node for node in members if _is_at(node, group.place.line)] or members
    cited = {(digest, one.form): one for digest, one in _cited(members)}
    if group.kind is INPUT_SHAPE:  # rather than what is made as large
        cited = {key: one for key, one in cited.items() if one.opcode == "parameter"} or cited
    forms = Counter(form for _, form in cited)
    if not forms:
        return None
    form = max(forms, key=lambda key: forms[key])
    alike = {digest: one for (digest, its), one in cited.items() if its == form}
    runs = {node.digest: node.compiles + node.hits for node in nodes}
    is_many = len(set(alike)) >= MIN_GROWN
    grows = group.kind is GROWING_INPUT or (group.kind is INPUT_SHAPE and is_many)
    bounds = _bounds(group.place)
    found = [
        taken
        for place, column in _columns(list(alike.values()))
        for values in [dict(zip(alike, column, strict=True))]
        if (taken := _taken(place, values, runs, alike, grows=grows, bounds=bounds))
    ]
    return max(found, key=lambda taken: len(taken.values), default=None)


def _is_at(node: GraphNode, line: SourceLine | None) -> bool:
    """Whether the first cause of a graph is at a line."""
    causes = node.explanation.causes if node.explanation else ()
    return bool(causes) and main_line(causes[0]) == line


def _cited(members: Iterable[GraphNode]) -> Iterator[tuple[str, _Cited]]:
    """By digest: in each graph, and in the one that it was compared with."""
    for node in members:
        explanation = node.explanation
        if explanation is None or not explanation.causes:
            continue
        line = main_line(explanation.causes[0])
        if explanation.first_a:
            yield node.nearest, _instruction(explanation.first_a, line)
        if explanation.first_b:
            yield node.digest, _instruction(explanation.first_b, line)


def _instruction(cited: Cited, line: SourceLine | None) -> _Cited:
    is_parameter = cited.opcode == "parameter"
    rest = f"({'' if is_parameter else cited.payload}){cited.attributes}"
    return _Cited(
        _NUMBER.sub("#", cited.shape),
        cited.opcode + _NUMBER.sub("#", rest),
        cited.opcode,
        int(cited.payload) if is_parameter and cited.payload.isdecimal() else -1,
        tuple(map(float, _NUMBER.findall(cited.shape))),
        tuple(map(float, _NUMBER.findall(rest))),
        cited.tensor,
        line,
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
    *,
    grows: bool,
    bounds: tuple[str, str],
) -> Taken | None:
    counts: Counter[float] = Counter()
    for digest, value in value_of.items():
        counts[value] += runs.get(digest, 0)
    if len(counts) < MIN_VALUES:
        return None
    one = next(iter(cited.values()))
    grown = ""
    least, most = f"{min(counts):g}", f"{max(counts):g}"
    if place[0] == "size":
        whose = _named(one, cited.values())
        grown = _growth(list(value_of.values())) if grows else ""
        text = grown or f" took {len(counts)} sizes, {least} to {most}"
        message = say(f"dimension {place[1]} of ", whose, text)
    else:
        message = say(
            _number_of(one, place[1], bounds), f" took {len(counts)} values, {least} to {most}"
        )
    return Taken(message, tuple(sorted(counts.items())), grows=bool(grown))


def _number_of(one: _Cited, place: int, bounds: tuple[str, str]) -> Message:
    """What a number in an instruction's attributes is, with the program's own name for it."""
    if one.opcode == "slice" and len(one.others) == 2 * len(one.sizes):  # without strides
        is_end = place % 2
        name = say(" (", Code(bounds[is_end]), ")") if bounds[is_end] else EMPTY
        return say("where this slice ends" if is_end else "where this slice begins", name)
    return say("the constant" if one.opcode == "constant" else f"a number of this {one.opcode}")


def _bounds(place: Place) -> tuple[str, str]:
    """The first place and the one behind the last of a slice, as its line has them."""
    return slice_bounds(dict(place.source), place.line.line) if place.line else ("", "")


def _growth(values: Sequence[float]) -> str:
    """What is said of sizes that grow from graph to graph; empty of others."""
    steps = {after - before for before, after in pairwise(values)}
    seen = f"{values[0]:g}, {values[1]:g}, ... {values[-1]:g}"
    if min(steps) <= 0:
        return ""
    if len(steps) == 1:
        return f" grows by {steps.pop():g} per compile: {seen}"
    return f" grows from compile to compile: {seen}" if len(values) >= MIN_UNEVEN else ""


def _named(cited: _Cited, alike: Iterable[_Cited]) -> Part | str:
    """The tensor that a parameter is, where the capture knows it."""
    named = next((one.tensor for one in alike if one.tensor), None)
    if named:
        return named
    return f"input {cited.number}" if cited.number >= 0 else cited.opcode
