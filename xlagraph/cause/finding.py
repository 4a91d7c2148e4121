"""What a detector hands over, and what detectors share."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Context, Evidence
from xlagraph.cause.places import where
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xlagraph.cause.draft import Draft
    from xlagraph.diff import Diff
    from xlagraph.graph import Attributes, Module


MAX_TEXT = 40
"""Characters of a value that a sentence shows."""
MAX_STEPS = 8
"""Instructions between an output and the one that took its place."""


ELEMENT_TYPE = re.compile(r"\b[a-z]+\d*\w*(?=\[)")
"""The type in the text of a shape."""


def _nothing(_a: Draft, _b: Draft) -> None:
    """Undoes nothing: the comparison forgives the difference by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """A suspected cause: what it accounts for and how to undo it on drafts of both sides."""

    kind: str
    title: str
    evidence: tuple[Evidence, ...]
    fix: str
    proof: str
    a: frozenset[int] = frozenset()
    b: frozenset[int] = frozenset()
    undo: Callable[[Draft, Draft], None] = _nothing
    dropped_a: frozenset[int] = frozenset()
    """Output positions of A that undoing sets aside."""
    dropped_b: frozenset[int] = frozenset()
    reorders: bool = False
    """Undoing puts B's outputs into A's order."""
    expected: bool = False
    incidental: bool = False
    """Never the reason of a compile: undone for the comparison, named only if it is alone."""

    @property
    def is_silent(self) -> bool:
        """No instruction is cited and no output set aside: the header, or the outputs' order."""
        return not (self.a or self.b or self.dropped_a or self.dropped_b)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The two modules, their difference, and what is already accounted for."""

    diff: Diff
    context_a: Context = field(default_factory=Context)
    context_b: Context = field(default_factory=Context)
    claimed_a: set[int] = field(default_factory=set)
    claimed_b: set[int] = field(default_factory=set)
    dropped_a: set[int] = field(default_factory=set)
    dropped_b: set[int] = field(default_factory=set)

    def open_changes(self) -> list[tuple[int, int, tuple[str, ...]]]:
        """Changed pairs that no finding has claimed yet."""
        return [
            (c.a, c.b, c.fields)
            for c in self.diff.changes
            if c.a not in self.claimed_a and c.b not in self.claimed_b
        ]

    def replaced_outputs(self) -> list[tuple[int, int]]:
        """Outputs of A and of B that are the same tensor, computed in another way.

        They are told by name, by one being computed from the other, by creation line and
        shape, by place and shape; in this order.
        """
        left = [
            [s.a for s in self.diff.outputs if s.a is not None and s.b is None],
            [s.b for s in self.diff.outputs if s.b is not None and s.a is None],
        ]
        left = [sorted(set(left[0]) - self.dropped_a), sorted(set(left[1]) - self.dropped_b)]
        found: list[tuple[int, int]] = []
        if not (left[0] and left[1]):
            return found
        stable = [s for s in self.diff.outputs if s.a is not None and s.b is not None]
        paired_a = sorted(s.a for s in stable if s.a is not None)
        paired_b = sorted(s.b for s in stable if s.b is not None)

        def place(position: int, *, forward: bool) -> tuple[int, str]:
            """Between which paired outputs it stands, with its shape."""
            module = self._side(forward=forward)[0]
            before = bisect_left(paired_a if forward else paired_b, position)
            return before, bare_shape(module, output_values(module)[position])

        successors = self._successors(left[0], left[1])

        def successor(position: int, *, forward: bool) -> object:
            return successors.get(position) if forward else position

        for identity in (self._name, successor, self._line, place):
            free: dict[object, list[int]] = {}
            for position in left[1]:
                free.setdefault(identity(position, forward=False), []).append(position)
            for position in left[0]:
                key = identity(position, forward=True)
                if key is not None and free.get(key):
                    found.append((position, free[key].pop(0)))
            told_a, told_b = {x for x, _ in found}, {y for _, y in found}
            left = [
                [p for p in left[0] if p not in told_a],
                [p for p in left[1] if p not in told_b],
            ]
        return sorted(found)

    def _side(self, *, forward: bool) -> tuple[Module, Context]:
        return (self.diff.a, self.context_a) if forward else (self.diff.b, self.context_b)

    def _name(self, position: int, *, forward: bool) -> object:
        return self._side(forward=forward)[1].outputs.get(position)

    def _successors(self, places_a: list[int], places_b: list[int]) -> dict[int, int]:
        """Outputs of one side that the other computes on the way to an output of its own."""
        found: dict[int, int] = {}
        for forward, own, others in ((True, places_a, places_b), (False, places_b, places_a)):
            module, other = self._side(forward=forward)[0], self._side(forward=not forward)[0]
            partners = self.diff.match.to_b if forward else self.diff.match.to_a
            values = output_values(other)
            ends = {values[k]: k for k in others}
            for position in own:
                value = partners[output_values(module)[position]]
                for _ in range(MAX_STEPS):
                    users = other.users[value] if value >= 0 and value not in ends else ()
                    value = users[0] if len(users) == 1 else value
                if value in ends:
                    pair = (position, ends[value]) if forward else (ends[value], position)
                    found.setdefault(*pair)
        return found

    def _line(self, position: int, *, forward: bool) -> object:
        module = self._side(forward=forward)[0]
        value = output_values(module)[position]
        line = next(iter(where(module, [value])), None)
        return (line, bare_shape(module, value)) if line else None

    def claim(self, finding: Finding) -> None:
        """Takes note of what a finding accounts for; outputs are set aside in pairs."""
        self.claimed_a.update(finding.a)
        self.claimed_b.update(finding.b)
        replaced = self.replaced_outputs() if finding.dropped_a or finding.dropped_b else []
        gone = [(x, y) for x, y in replaced if x in finding.dropped_a or y in finding.dropped_b]
        self.dropped_a.update(finding.dropped_a, (x for x, _ in gone))
        self.dropped_b.update(finding.dropped_b, (y for _, y in gone))


def unpaired_outputs(case: Case, *, forward: bool, replaced: bool = False) -> list[int]:
    """Output positions of one side (A if `forward`) without a partner, not yet set aside.

    Those computed in another way on the other side are among them if `replaced`.
    """
    taken = set(case.dropped_a if forward else case.dropped_b)
    if not replaced:
        taken |= {(x if forward else y) for x, y in case.replaced_outputs()}
    found = []
    for slot in case.diff.outputs:
        own, other = (slot.a, slot.b) if forward else (slot.b, slot.a)
        if own is not None and other is None and own not in taken:
            found.append(own)
    return found


def parameter_name(module: Module, context: Context, instruction: int) -> str:
    """A parameter as a person knows it: tensor name if captured, else number and shape."""
    name = context.input_name(module, instruction)
    shape = short_shape(module, instruction)
    return f"{name or f'parameter {module.payloads[instruction]}'} ({shape})"


def output_name(module: Module, context: Context, position: int, value: int) -> str:
    """An output as a person knows it: its number, its tensor if captured, its shape."""
    name = context.outputs.get(position)
    shape = short_shape(module, value)
    return f"output {position}: {name} ({shape})" if name else f"output {position} ({shape})"


def short_shape(module: Module, instruction: int) -> str:
    """A shape without layout, tuples cut after three parts."""
    text = bare_shape(module, instruction)
    return text if len(text) <= 48 else text[:45] + "..."


def told_apart(old: str, new: str) -> tuple[str, str]:
    """Two values for reading: long ones from the first part in which they differ."""
    same = next((k for k, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), 0)
    start = old.rfind(", ", 0, same) + 2 if ", " in old[:same] else old.rfind(" ", 0, same) + 1
    if same - start > MAX_TEXT // 2:
        start = same - MAX_TEXT // 4
    if max(len(old), len(new)) <= MAX_TEXT or not start:
        return _cut(old), _cut(new)
    return _cut("..." + old[start:]), _cut("..." + new[start:])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def attribute_text(first: Attributes, second: Attributes) -> str:
    """What differs between the attributes of two instructions: ``dimensions: {0} -> {1}``."""
    old, new = dict(first.items), dict(second.items)
    keys = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
    shown = {k: told_apart(old.get(k, "none"), new.get(k, "none")) for k in keys}
    return "; ".join(f"{k}: {before} -> {after}" for k, (before, after) in shown.items())


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 tensor``, ``2 tensors``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Seconds for reading: ``12 ms``, ``0.25 s``, ``4.1 s``, ``2 min 40 s``, ``1.5 h``."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 60:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds else "0 s"


def grouped(names: Iterable[str], groups: int = 3, members: int = 4) -> str:
    """Tensor names ``owner: tensor`` gathered by owner: ``blocks.0: up.weight, up.bias``.

    A name met several times is counted. Other names stand as they are.
    """
    owners: dict[str, Counter[str]] = {}
    for name in names:
        owner, colon, tensor = name.partition(": ")
        owners.setdefault(owner if colon else "", Counter())[
            (tensor if colon else owner).removesuffix(" shard")
        ] += 1
    parts = []
    for owner, tensors in list(owners.items())[:groups]:
        listed = [f"{t} x{n}" if n > 1 else t for t, n in tensors.items()]
        parts.append((f"{owner}: " if owner else "") + join(listed, members))
    left = list(owners.values())[groups:]
    if left:
        parts.append(f"{count(sum(t.total() for t in left), 'tensor')} of {len(left)} more modules")
    return "; ".join(parts)


def join(items: Iterable[str], limit: int = 4) -> str:
    """Items in a row, cut after `limit` with the number of those left out."""
    listed = list(items)
    shown = ", ".join(listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit} more"
