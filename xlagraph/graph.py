"""The module graph: a columnar value that every stage after the reader works on.

Instructions are numbers. Column ``k`` of each list describes instruction ``k``; the
instructions of one computation are consecutive, in text order, and an operand always has a
smaller number than its user (XLA prints definitions before uses and its parser insists on
it, ``hlo_parser.cc``). A 40,000-instruction module so costs a few lists instead of 40,000
objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import networkx as nx

    from xlagraph.hlo.origin import Origin

MAIN_THREAD = "main"
_THREAD = re.compile(r"""execution_thread\s*=\s*["']([^"']*)["']""")


@dataclass(frozen=True, slots=True, eq=False)
class Attributes:
    """The attribute list of an instruction, split once per distinct text.

    Values stay verbatim, so that attributes nobody knows yet survive a round trip.
    """

    text: str
    """As printed, from after the closing parenthesis to the end of the line."""
    items: tuple[tuple[str, str], ...]
    """Key and value text in printed order, without metadata, callees and control edges."""
    metadata: str
    """The text between the braces of ``metadata={...}``, or ``""``."""
    callees: tuple[tuple[str, tuple[str, ...]], ...]
    """Key (``to_apply``, ``body``, ...) and the names of the computations it calls."""
    controls: tuple[str, ...]
    """Names of the control predecessors."""

    def get(self, key: str) -> str | None:
        """The value text of an attribute, or None."""
        for name, value in self.items:
            if name == key:
                return value
        return None


class SourceFrame(NamedTuple):
    """One frame of an instruction's origin, as its metadata tells it."""

    file: str
    line: int
    function: str = ""


class Metadata(NamedTuple):
    """What ``metadata={...}`` says: the framework's op and the frames, innermost first."""

    op_type: str
    op_name: str
    frames: tuple[SourceFrame, ...]


@dataclass(frozen=True, slots=True)
class Computation:
    """A computation: a name and the half-open range of its instructions."""

    index: int
    name: str
    start: int
    stop: int
    root: int
    parameters: tuple[int, ...]
    """Instruction numbers in order of parameter number."""
    first_line: int
    """Line of the first instruction in the file (1-based); 0 where it came from no text."""
    suffix: str = ""
    """Text after the closing brace, such as ``execution_thread="main"``."""
    lines: tuple[int, ...] = ()
    """Line of each instruction; empty where the text has one instruction a line."""

    @property
    def execution_thread(self) -> str:
        """The thread that it runs on, ``main`` where none is named."""
        named = _THREAD.search(self.suffix)
        return named[1] if named else MAIN_THREAD

    def line_of(self, instruction: int) -> int:
        """Line number in the file of one of its instructions; 0 where it came from no text."""
        if not self.first_line:
            return 0
        offset = instruction - self.start
        return self.lines[offset] if self.lines else self.first_line + offset


@dataclass(frozen=True, slots=True)
class StackTables:
    """Numbered tables of source positions; numbers begin at 1, and 0 means none.

    Newer XLA prints them after the header (``StackFrames`` etc.), protobufs have them as
    ``stack_frame_index``.
    """

    files: Mapping[int, str] = field(default_factory=dict)
    functions: Mapping[int, str] = field(default_factory=dict)
    locations: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    frames: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """``file_location_id`` and ``parent_frame_id`` of each frame."""
    stacks: dict[int, tuple[SourceFrame, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Stacks that were asked for, innermost frame first, by their frame's number."""


@dataclass(frozen=True, eq=False)
class Module:
    """An HLO module. Equality is identity; compare with `xlagraph.canon`."""

    name: str
    header: tuple[tuple[str, str], ...]
    """Header fields (``entry_computation_layout``, ``buffer_donor``, ...) verbatim, in order."""
    computations: tuple[Computation, ...]
    entry: int
    names: Sequence[str]
    opcodes: Sequence[str]
    shapes: Sequence[str]
    """Shape texts as printed, layout included; `xlagraph.hlo.shapes` reads them."""
    operands: Sequence[tuple[int, ...]]
    attributes: Sequence[Attributes]
    payloads: Mapping[int, str]
    """What stands between the parentheses of a ``constant`` or ``parameter``."""
    callees: Mapping[int, tuple[int, ...]]
    """Computation numbers that an instruction calls, in attribute order; sparse."""
    controls: Mapping[int, tuple[int, ...]]
    """Control predecessors; sparse."""
    tables: StackTables
    file: str
    """Where the module came from."""
    unstated: frozenset[str] = frozenset()
    """Header fields that its source has no place for; that they are missing says nothing."""
    effect_order: Mapping[int, int] = field(default_factory=dict)
    """In an edited module the places of instructions with effects among each other, where these
    are not their numbers."""

    def __len__(self) -> int:
        """Number of instructions in all computations."""
        return len(self.names)

    @property
    def entry_computation(self) -> Computation:
        """The computation that runs when the module does."""
        return self.computations[self.entry]

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """The instructions that become outputs, by position: the root tuple's operands, or it."""
        root = self.entry_computation.root
        return self.operands[root] if self.opcodes[root] == "tuple" else (root,)

    @property
    def is_scheduled(self) -> bool:
        """Whether XLA is done with it, and its instructions stand in the order they run in."""
        return self.header_fields.get("is_scheduled") == "true"

    @property
    def gives_tuple(self) -> bool:
        """Whether the outputs are a list: the root is a tuple."""
        return self.opcodes[self.entry_computation.root] == "tuple"

    @cached_property
    def users(self) -> Sequence[tuple[int, ...]]:
        """For each instruction its users, ascending; an operand used twice counts once."""
        users: list[list[int]] = [[] for _ in self.names]
        for user, operands in enumerate(self.operands):
            for operand in operands:
                known = users[operand]
                if not known or known[-1] != user:
                    known.append(user)
        return [tuple(known) for known in users]

    @cached_property
    def effects(self) -> tuple[int, ...]:
        """Instructions that XLA runs although nobody uses their result, ascending."""
        from xlagraph.hlo.effects import find_effects

        return find_effects(self)

    @cached_property
    def callers(self) -> Mapping[int, tuple[int, ...]]:
        """Instructions that call a computation, ascending, by computation."""
        found: dict[int, list[int]] = {}
        for i, callees in sorted(self.callees.items()):
            for computation in dict.fromkeys(callees):
                found.setdefault(computation, []).append(i)
        return {computation: tuple(calls) for computation, calls in found.items()}

    @cached_property
    def header_fields(self) -> Mapping[str, str]:
        """Header fields by name."""
        return dict(self.header)

    def computation_of(self, instruction: int) -> Computation:
        """The computation that holds an instruction; O(log n)."""
        low, high = 0, len(self.computations)
        while high - low > 1:
            middle = (low + high) // 2
            if self.computations[middle].start <= instruction:
                low = middle
            else:
                high = middle
        return self.computations[low]

    def line_of(self, instruction: int) -> int:
        """Line number of an instruction in its file."""
        return self.computation_of(instruction).line_of(instruction)

    def metadata(self, instruction: int) -> Metadata | None:
        """The instruction's op and source frames, or None where the dump has none."""
        text = self.attributes[instruction].metadata
        if not text:
            return None
        from xlagraph.hlo.metadata import read_metadata

        return read_metadata(text, self.tables)

    @cached_property
    def origins(self) -> Mapping[int, Origin]:
        """The forward operation of instructions of the backward pass that have no frames."""
        from xlagraph.hlo.origin import find_origins

        return find_origins(self)

    def source(self, instruction: int) -> SourceFrame | None:
        """The innermost source frame of an instruction, or None."""
        metadata = self.metadata(instruction)
        return metadata.frames[0] if metadata and metadata.frames else None

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """The graph as ``networkx.MultiDiGraph``: operand -> user edges with ``position``.

        Nodes carry ``name, opcode, shape, computation, source`` (``file:line`` or ``""``);
        control edges have ``position=-1``.
        """
        import networkx as nx

        graph: nx.MultiDiGraph[int] = nx.MultiDiGraph(name=self.name)
        for computation in self.computations:
            for i in range(computation.start, computation.stop):
                graph.add_node(
                    i,
                    name=self.names[i],
                    opcode=self.opcodes[i],
                    shape=self.shapes[i],
                    computation=computation.name,
                    source=_place(self.source(i)),
                )
        for user, operands in enumerate(self.operands):
            for position, operand in enumerate(operands):
                graph.add_edge(operand, user, position=position)
        for user, predecessors in self.controls.items():
            for predecessor in predecessors:
                graph.add_edge(predecessor, user, position=-1)
        return graph


def _place(source: SourceFrame | None) -> str:
    return f"{source.file}:{source.line}" if source else ""
