"""From a profile to the records of a log.

Accesses come from the ExecutionTrace, the stream and time of each from Kineto, sizes and
streams of allocations from the snapshot. Edges between streams are taken where Kineto resolves
them only; where it leaves one open, the log says that its edges are not known.
"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from xlagraph.content import Content
from xlagraph.errors import SpecError
from xlagraph.streams.format import VERSION
from xlagraph.streams.log import Log
from xlagraph.streams.traces.execution import Node, Piece, read_nodes
from xlagraph.streams.traces.files import read_json, read_snapshot
from xlagraph.streams.traces.kineto import Kineto, Sites, backwards, read_kineto
from xlagraph.streams.unseen import PROFILE, Unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.streams.format import Record
    from xlagraph.streams.traces.files import Json
    from xlagraph.streams.traces.kineto import Call, Memory, Operator

UNPLACED = 1 << 60
"""Addresses from here on stand for storages that were there before the trace began."""
SPREAD = 1 << 36
"""Bytes of address between two of them."""
ROUNDED = 512
"""What the allocator rounds sizes to; Kineto has those."""
DEFAULT_STREAM = 7
"""Kineto's number for the default stream."""
_EVALUATE = "autograd::engine::evaluate_function: "
_UNKNOWN_EVENT = -1


class Allocation(NamedTuple):
    """An allocation as a snapshot has it."""

    size: int
    stream: int
    """The driver's handle."""
    site: str


Allocations = dict[int, deque[Allocation]]
"""By address, in order."""


def log_of_profile(trace: str, execution: str, snapshot: str) -> Log:
    """The log of a profile; `snapshot` may be ``""``.

    Raises:
        SpecError, InputError: a file is not what it should be.
    """
    kineto = read_kineto(read_json(trace), trace)
    nodes = read_nodes(read_json(execution), execution)
    allocations = _allocations(read_snapshot(snapshot), snapshot) if snapshot else None
    converter = _Converter(kineto, nodes, allocations)
    records = converter.records()
    meta: Record = {
        "k": "meta", "v": VERSION, "began": PROFILE, "edges": not kineto.unresolved,
    }  # fmt: skip
    unseen: dict[str, int | None] = {
        Unseen.NO_RECORD_STREAM: None,
        Unseen.NO_INITIAL_GRADIENTS: None,
    }
    if kineto.unresolved:
        unseen[Unseen.OPEN_WAITS] = kineto.unresolved
    if kineto.outside:
        unseen[Unseen.OUTSIDE] = kineto.outside
    if converter.opaque:
        unseen[Unseen.OPAQUE] = converter.opaque
    if not snapshot:
        unseen[Unseen.NO_SIZES] = None
    last = {"k": "coverage", "edges": not kineto.unresolved, "unseen": unseen}
    text = "".join(json.dumps(one) + "\n" for one in (meta, *records, last))
    return Log(Content(trace, io.BytesIO(text.encode())))


def _allocations(snapshot: Json, name: str) -> Allocations:
    found: Allocations = defaultdict(deque)
    try:
        for trace in snapshot["device_traces"]:
            for entry in trace:
                if entry["action"] == "alloc":
                    site = _frame(entry.get("frames") or ())
                    one = Allocation(int(entry["size"]), int(entry["stream"]), site)
                    found[int(entry["addr"])].append(one)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"{name}: not as a memory snapshot has it: {error!r}") from None
    return found


def _frame(frames: Any) -> str:
    for frame in frames:
        file = str(frame["filename"])
        if "/torch/" not in file and not file.startswith("<"):
            return f"{file.rpartition('/')[2]}:{frame['line']} {frame['name']}"
    return ""


class _Converter:
    """Goes through the three sources by time."""

    def __init__(self, kineto: Kineto, nodes: dict[int, Node], allocations: Allocations | None):
        self._kineto = kineto
        self._nodes = nodes
        self._allocations = allocations
        self.opaque = 0
        """Launches outside of operators with a schema."""
        self._records: list[tuple[float, Record]] = []
        self._bases: dict[int, tuple[int, float]] = {}
        """Address of each storage, and when it was given."""
        self._stacks: dict[int, list[Operator]] = defaultdict(list)
        """The operators that each thread is in, outermost first."""
        self._unplaced: dict[int, list[Memory]] = defaultdict(list)
        """Allocations of each thread that belong to no storage so far."""
        self._votes: dict[int, Counter[int]] = defaultdict(Counter)
        """How often an allocation for a driver's stream was made where a stream was used."""
        self._sites, self._forward = self._find_sites()
        self._launched = self._streams_within()
        self._sources = {
            sync.record: sync.source
            for sync in kineto.syncs.values()
            if sync.source >= 0 and sync.record >= 0
        }

    def records(self) -> list[Record]:
        """All records by time."""
        for time, kind, item in sorted(self._timeline(), key=lambda one: one[:2]):
            (self._end, self._memory, self._call, self._begin)[kind](time, item)
        for begin, end, thread in backwards(self._kineto):
            for name, time in (("backward_begin", begin), ("backward_end", end)):
                self._add(time, k="mark", name=name, t=thread, s=DEFAULT_STREAM, r=[])
        self._records.sort(key=lambda one: one[0])
        return self._named([record for _, record in self._records])

    def _timeline(self) -> Iterator[tuple[float, int, Any]]:
        for one in self._kineto.operators:
            yield one.end, 0, one
            yield one.start, 3, one
        for memory in self._kineto.memory:
            yield memory.start, 1, memory
        for call in self._kineto.calls:
            yield call.start, 2, call

    def _add(self, time: float, **record: Any) -> Record:
        self._records.append((time, record))
        return record

    def _find_sites(self) -> tuple[dict[int, str], dict[int, str]]:
        """Call sites by operator, and those of forward operators by sequence number."""
        sites = Sites(self._kineto.python)
        found: dict[int, str] = {}
        forward: dict[int, str] = {}
        for one in self._kineto.operators:
            found[one.function] = site = sites.at(one.thread, one.start)
            if one.sequence >= 0 and not one.is_backward and site:
                forward.setdefault(one.sequence, site)
        return found, forward

    def _streams_within(self) -> dict[int, int]:
        """The stream of the first thing that was launched within each operator."""
        found: dict[int, int] = {}
        stacks: dict[int, list[Operator]] = defaultdict(list)
        for one in self._kineto.operators:
            stack = stacks[one.thread]
            while stack and stack[-1].end < one.end:
                stack.pop()
            stack.append(one)
            stream = self._kineto.streams.get(one.external)
            if stream is not None:
                for outer in stack:
                    found.setdefault(outer.function, stream)
        return found

    def _begin(self, time: float, one: Operator) -> None:
        """An operator begins; its inputs are where they are now."""
        stack, node = self._stacks[one.thread], self._nodes.get(one.function)
        outer = stack[-1] if stack else None
        stack.append(one)
        if node is None:
            return
        stream = self._kineto.streams.get(one.external)
        if stream is not None and node.is_known:
            self._operator(time, one, node, stream)
            return
        self.opaque += stream is not None
        if outer is not None and outer.name == _EVALUATE + one.name:
            launched = self._launched.get(outer.function)
            if launched is not None:
                received = [self._range(piece) for piece in (*node.reads, *node.writes)]
                self._add(time, k="node", t=one.thread, name=one.name, s=launched, r=received)

    def _operator(self, time: float, one: Operator, node: Node, stream: int) -> None:
        record = self._add(
            time,
            k="op",
            i=one.function,
            t=one.thread,
            s=stream,
            op=one.name.replace("::", ".", 1),
            r=[self._range(piece) for piece in node.reads],
            w=[self._range(piece) for piece in node.writes],
            at=self._sites[one.function] or None,
        )
        for outer in reversed(self._stacks[one.thread]):
            if outer.is_backward:
                record["node"] = outer.name.removeprefix(_EVALUATE)
                record["fwd_at"] = self._forward.get(outer.sequence)
                break

    def _end(self, time: float, one: Operator) -> None:
        """An operator ends; new storages get the addresses that were allocated within it."""
        stack, node = self._stacks[one.thread], self._nodes.get(one.function)
        if one in stack:
            del stack[stack.index(one) :]
        if node is not None:
            for piece in node.fresh:
                self._place(one, piece)
            stream = self._kineto.streams.get(one.external)
            if node.fresh and node.is_known and stream is not None:
                made = [self._range(piece) for piece in node.fresh]
                self._add(time, k="out", i=one.function, t=one.thread, s=stream, w=made)
        if not stack:
            self._unplaced[one.thread].clear()

    def _place(self, one: Operator, piece: Piece) -> None:
        """Finds the allocation of a new storage, unless an inner operator has."""
        if one.start <= self._bases.get(piece.storage, (0, -1.0))[1] <= one.end:
            return
        made = self._unplaced[one.thread]
        inside = [memory for memory in made if memory.start >= one.start]
        exact = -(-piece.end // ROUNDED) * ROUNDED
        found = next((memory for memory in inside if memory.bytes == exact), None)
        found = found or next((memory for memory in inside if memory.bytes >= piece.end), None)
        if found is not None:
            made.remove(found)
            self._bases[piece.storage] = found.address, one.end
        else:
            self._bases[piece.storage] = UNPLACED + len(self._bases) * SPREAD, one.end

    def _range(self, piece: Piece) -> list[int]:
        known = self._bases.get(piece.storage)
        if known is None:
            known = self._bases[piece.storage] = UNPLACED + len(self._bases) * SPREAD, -1.0
        return [piece.device, known[0] + piece.offset, *piece.shape]

    def _memory(self, time: float, one: Memory) -> None:
        if one.bytes < 0:
            self._add(time, k="free", t=one.thread, p=one.address)
            return
        self._unplaced[one.thread].append(one)
        known = self._allocations.get(one.address) if self._allocations is not None else None
        if not known:
            return
        found = known.popleft()
        for outer in reversed(self._stacks[one.thread]):
            stream = self._launched.get(outer.function)
            if stream is not None:
                self._votes[found.stream][stream] += 1
                break
        self._add(
            time, k="alloc", t=one.thread, p=one.address, n=found.size, s=found.stream,
            at=found.site or None,
        )  # fmt: skip

    def _named(self, records: list[Record]) -> list[Record]:
        """The records with streams by Kineto's numbers, the default stream as 0.

        A snapshot has the driver's handles: one stands for the stream that is used where memory
        is allocated for it. Allocations for a stream that is never used are left out.
        """
        known = {raw: votes.most_common(1)[0][0] for raw, votes in self._votes.items()}
        default = known.get(0, DEFAULT_STREAM)
        kept = []
        for record in records:
            if record["k"] == "alloc":
                if record["s"] not in known:
                    continue
                record["s"] = known[record["s"]]
            if record.get("s") == default:
                record["s"] = 0
            kept.append(record)
        return kept

    def _call(self, time: float, one: Call) -> None:
        """A call that orders something; what the trace leaves open becomes an unknown event."""
        sync = self._kineto.syncs.get(one.correlation)
        known = sync is not None and sync.source >= 0 and sync.record >= 0
        event = sync.record if sync is not None and known else _UNKNOWN_EVENT
        if one.name == "cudaStreamWaitEvent" and sync is not None:
            self._add(time, k="wait", t=one.thread, e=event, s=sync.stream)
        elif one.name.startswith("cudaEventRecord") and one.correlation in self._sources:
            source = self._sources[one.correlation]
            self._add(time, k="record", t=one.thread, e=one.correlation, s=source)
        elif one.name == "cudaDeviceSynchronize":
            self._add(time, k="sync_dev", t=one.thread)
        elif one.name == "cudaStreamSynchronize" and sync is not None and sync.stream >= 0:
            self._add(time, k="sync_st", t=one.thread, s=sync.stream)
        elif one.name == "cudaEventSynchronize":
            self._add(time, k="sync_ev", t=one.thread, e=event)
