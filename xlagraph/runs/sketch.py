"""What is kept of a module while a run is explained: enough to choose what it is compared with."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.facts.named_inputs import replaced_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.graph import Module

    Histogram = Counter[tuple[str, str]]
    """How often each opcode stands with each shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A module in a few kilobytes; it depends on the module alone."""

    instructions: int
    counts: tuple[tuple[str, str, int], ...]
    """Opcode, shape, and how often the two stand together."""
    replaced: tuple[tuple[int, int], ...]
    """Parameter number and the output that replaces it; see `replaced_inputs`."""
    files: tuple[str, ...]
    """The Python files that its instructions come from, sorted."""

    def histogram(self) -> Histogram:
        """The counts, to be compared with those of others; equal texts share one string."""
        intern = sys.intern
        return Counter({(intern(o), intern(s)): number for o, s, number in self.counts})

    def replaced_by(self) -> Mapping[int, int]:
        """`replaced` as a mapping."""
        return dict(self.replaced)


def sketch_of(module: Module) -> Sketch:
    """The sketch of a module; linear in instructions."""
    found = Counter(zip(module.opcodes, module.shapes, strict=True))
    return Sketch(
        instructions=len(module),
        counts=tuple((opcode, shape, number) for (opcode, shape), number in found.items()),
        replaced=tuple(replaced_inputs(module).items()),
        files=tuple(sorted(_files(module))),
    )


def _files(module: Module) -> set[str]:
    found: set[str] = set()
    seen: set[str] = set()
    for i, attributes in enumerate(module.attributes):
        if attributes.metadata and attributes.metadata not in seen:
            seen.add(attributes.metadata)
            metadata = module.metadata(i)
            found.update(frame.file for frame in (metadata.frames if metadata else ()))
    return found
