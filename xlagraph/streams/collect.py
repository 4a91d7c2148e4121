"""From single conflicts to findings: one for each mistake, with what would mend it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.streams.accesses import operator_of
from xlagraph.streams.model import Access, Bucket, Bytes, Edge, Finding, Kind, Lifetime, State
from xlagraph.streams.order import COLLECTIVE, COPY, kind_of
from xlagraph.streams.shadow import history

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from xlagraph.streams.accesses import Conflict
    from xlagraph.streams.backward import Backward
    from xlagraph.streams.clocks import Stream
    from xlagraph.streams.format import Record
    from xlagraph.streams.memory import Unordered
    from xlagraph.streams.order import Order
    from xlagraph.streams.shadow import Block, Freed

Key = tuple["Hashable", ...]
"""What is the same about all occurrences of one mistake."""


class Edit(NamedTuple):
    """A wait or a recorded stream to be put into the log before a line."""

    line: int
    source: int
    """The stream that is waited for, or that is recorded."""
    target: int
    """The stream that waits. For a recorded stream: 0."""
    data: tuple[int, int, int] | None = None
    """The range whose memory is recorded."""


@dataclass(slots=True)
class Group:
    """The occurrences of one mistake."""

    kind: Kind
    later: Access | None
    earlier: dict[Key, Access] = field(default_factory=dict)
    edges: dict[tuple[str, int, int], Edge] = field(default_factory=dict)
    edits: dict[Edit, None] = field(default_factory=dict)
    """What is missing, at every occurrence."""
    count: int = 0
    doubt: str | None = None
    """``""`` as soon as one occurrence is beyond doubt."""
    warning: bool = False
    bucket: Bucket | None = None
    lifetime: Lifetime | None = None
    backward: Backward | None = None
    _occurrence: Hashable = None
    _later_line: int = 0
    _parts: dict[int, Key] = field(default_factory=dict)
    """The keys of the accesses that the latest occurrence was met with, by line."""

    def met(self, occurrence: Hashable, doubt: str) -> None:
        """Counts an occurrence once, in however many pieces it is met."""
        self.count += occurrence != self._occurrence
        self._occurrence = occurrence
        self.doubt = doubt if self.doubt is None else self.doubt and doubt

    def mend(self, edge: Edge, edit: Edit) -> None:
        """Adds an edge that is missing, and where to put it into the log."""
        self.edges.setdefault((edge.action, edge.source, edge.target), edge)
        self.edits[edit] = None

    def add_earlier(self, key: Key, access: Access, later_line: int) -> None:
        """Adds the earlier access of an occurrence; pieces of the same one are put together."""
        if self._later_line != later_line:
            self._later_line, self._parts = later_line, {}
        known = self._parts.setdefault(access.line, key)
        before = self.earlier.get(known)
        if before is None:
            self.earlier[known] = access
        elif before.line == access.line:
            self.earlier[known] = replace(before, data=_both(before.data, access.data))

    @property
    def state(self) -> State:
        """How sure it is."""
        if self.warning:
            return State.WARNING
        return State.UNKNOWN if self.doubt else State.FOUND

    def finding(self, number: int) -> Finding:
        """The group as a frozen value."""
        backward = self.backward
        return Finding(
            number,
            self.kind,
            self.state,
            tuple(self.earlier.values()),
            self.later,
            tuple(self.edges.values()),
            self.count,
            self.bucket,
            self.lifetime,
            backward.stream.index if backward else 0,
            _text(backward.record, "at") if backward else "",
            self.doubt or "",
        )


class _Gradient(NamedTuple):
    """An initial gradient that ``backward`` was called without waiting for."""

    backward: Backward
    by: Record
    stream: Stream
    data: Bytes

    @property
    def occurrence(self) -> tuple[int, int]:
        """What a conflict over it has in common with it."""
        return self.backward.number, self.by["line"]


class Collector:
    """Takes what the analysis meets, and groups it."""

    def __init__(self) -> None:
        self.order: Order | None = None
        self.groups: dict[Key, Group] = {}
        self._unordered: list[Unordered] = []
        self._reused: set[tuple[int, int]] = set()
        """Lines of frees whose memory was handed out again, and streams that still used it."""
        self._gradients: dict[Key, list[_Gradient]] = {}
        self._unfilled: set[tuple[int, int]] = set()
        self._raced: set[tuple[int, int]] = set()
        """Backward passes, by number, and lines of what filled their gradients too late."""

    def conflict(self, found: Conflict) -> None:
        """Adds two accesses without order to the mistake that they are part of."""
        if found.freed is not None or _is_new(found.block, found.earlier):
            self._reuse(found)
        elif (backward := self._unfilled_for(found)) is not None:
            self._initial(found, backward)
        elif (bucket := self._bucket(found)) is not None:
            self._bucket_race(found, bucket)
        else:
            key = (Kind.RACE, *_sites(found))
            group = self._group(key, Kind.RACE, found)
            self._add(group, found, _wait(found.earlier_stream, found.later_stream, found.later))

    def unordered_free(self, found: Unordered) -> None:
        """Keeps it until the end: the memory may be handed out yet."""
        self._unordered.append(found)

    def unordered_gradient(self, backward: Backward, by: Record, stream: Stream) -> None:
        """Keeps it until the end: an operator of the backward may read it too early."""
        key = (Kind.INITIAL_GRADIENT, "ordered", site_of(by), _text(backward.record, "at"))
        start, end = backward.gradients[0]
        assert self.order is not None
        data = self._bytes(start, end, self.order.memory.blocks.holding(start))
        gradient = _Gradient(backward, by, stream, data)
        self._gradients.setdefault(key, []).append(gradient)
        self._unfilled.add(gradient.occurrence)

    def finish(self) -> list[tuple[Key, Group]]:
        """All mistakes, in the order in which the log has them."""
        latent: dict[Key, list[Unordered]] = {}
        for one in self._unordered:
            left = [a for a in one.accesses if (one.freed.line, a[0]) not in self._reused]
            if left:
                by = site_of(left[0][2])
                frees = latent.setdefault((by, _text(one.freed.record, "at")), [])
                frees.append(replace(one, accesses=left))
        for key, frees in latent.items():
            group = (Kind.LATENT_REUSE, *key)
            self.groups[group] = self._latent(frees)
        for key, gradients in self._gradients.items():
            kept = [one for one in gradients if one.occurrence not in self._raced]
            if kept:
                self.groups[key] = self._ordered_gradient(kept)
        return sorted(self.groups.items(), key=lambda item: min(e.line for e in item[1].edits))

    def _group(self, key: Key, kind: Kind, found: Conflict, data: Bytes | None = None) -> Group:
        group = self.groups.get(key)
        if group is None:
            data = data or self._bytes(found.start, found.end, found.block)
            later = _access(found.later, found.later_stream, data, writes=found.later_writes)
            group = self.groups[key] = Group(kind, later)
        return group

    def _add(
        self,
        group: Group,
        found: Conflict,
        missing: tuple[Edge, Edit],
        occurrence: Hashable = None,
        key: Key = (),
    ) -> None:
        """Adds an occurrence, with its earlier access under a key of its own."""
        lines = found.earlier["line"], found.later["line"]
        group.met(occurrence or lines, found.doubt)
        group.mend(*missing)
        access = _access(
            found.earlier,
            found.earlier_stream,
            self._earlier_bytes(found),
            writes=found.earlier_writes,
        )
        if not access.parameter:
            access = replace(access, parameter=self._gradient_of(found))
        group.add_earlier(key, access, lines[1])

    def _reuse(self, found: Conflict) -> None:
        key = (Kind.REUSE, *_sites(found))
        group = self._group(key, Kind.REUSE, found)
        freed, block, user = found.freed, found.block, found.earlier_stream
        if freed is not None and freed.block is not None:
            if group.lifetime is None:
                group.lifetime = _lifetime(freed, freed.block, block)
            if user.index != freed.block.stream:
                self._reused.add((freed.line, user.index))
                self._add(group, found, self._record(freed, freed.block, user))
                return
        self._add(group, found, _wait(user, found.later_stream, found.later))

    def _unfilled_for(self, found: Conflict) -> Backward | None:
        """The backward pass that was called before the earlier access had filled its gradient."""
        backward = found.backward
        if backward is None or "node" not in operator_of(found.later):
            return None
        return backward if (backward.number, found.earlier["line"]) in self._unfilled else None

    def _initial(self, found: Conflict, backward: Backward) -> None:
        at = _text(backward.record, "at")
        key = (Kind.INITIAL_GRADIENT, site_of(found.earlier), found.earlier_stream.raw, at)
        group = self._group(key, Kind.INITIAL_GRADIENT, found)
        group.backward = group.backward or backward
        self._raced.add((backward.number, found.earlier["line"]))
        mark = {**backward.record, "line": backward.line}
        missing = _wait(found.earlier_stream, backward.stream, mark)
        self._add(group, found, missing, backward.number)

    def _bucket(self, found: Conflict) -> Bucket | None:
        """The bucket that the later access empties, if it empties one."""
        if not found.earlier_writes:
            return None
        reduction = found.reduce or {}
        for item in reduction.get("r", ()):
            if _overlaps(item, found):
                data = self._bytes(item[1], item[1] + item[2], found.block)
                return Bucket(_text(reduction, "bucket"), data)
        operator = operator_of(found.later)
        kind = kind_of(operator["op"])
        if kind == COLLECTIVE or (kind == COPY and not found.later_writes):
            name = _text(operator, "bucket")
            for item in operator["r"]:
                if _overlaps(item, found) and (name or self._filled_by_several(item)):
                    return Bucket(name, self._bytes(item[1], item[1] + item[2], found.block))
        return None

    def _filled_by_several(self, item: Sequence[int]) -> bool:
        assert self.order is not None
        found: set[int] = set()
        for cell in self.order.shadow.overlapping(item[1], item[1] + item[2]):
            found |= {operator_of(by)["line"] for _, _, by, wrote, _ in history(cell) if wrote}
        return len(found) > 1

    def _bucket_race(self, found: Conflict, bucket: Bucket) -> None:
        later = (site_of(found.later), found.later_stream.raw)
        key = (Kind.BUCKET_RACE, bucket.name, *later)
        group = self._group(key, Kind.BUCKET_RACE, found, bucket.data)
        group.bucket = group.bucket or bucket
        part = (
            found.earlier_stream.raw,
            site_of(found.earlier),
            _text(operator_of(found.earlier), "param") or found.start - bucket.data.start,
        )
        missing = _wait(found.earlier_stream, found.later_stream, found.later)
        self._add(group, found, missing, found.later["line"], part)

    def _latent(self, frees: list[Unordered]) -> Group:
        first = frees[0]
        group = Group(Kind.LATENT_REUSE, None, count=len(frees), warning=True)
        group.lifetime = _lifetime(first.freed, first.block, first.taken)
        assert self.order is not None
        for one in frees:
            for stream, _, by in one.accesses:
                user = self.order.clocks.by_index[stream - 1]
                group.mend(*self._record(one.freed, one.block, user))
                data = Bytes(one.block.start, one.block.size, "", 0, one.block.size)
                writes = one.block.start in (item[1] for item in by["w"])
                key = (site_of(by), user.raw)
                group.earlier.setdefault(key, _access(by, user, data, writes=writes))
        return group

    def _ordered_gradient(self, found: list[_Gradient]) -> Group:
        first = found[0]
        group = Group(Kind.INITIAL_GRADIENT, None, count=len(found), warning=True)
        group.backward = first.backward
        group.earlier[()] = _access(first.by, first.stream, first.data, writes=True)
        for one in found:
            mark = {**one.backward.record, "line": one.backward.line}
            group.mend(*_wait(one.stream, one.backward.stream, mark))
        return group

    @staticmethod
    def _record(freed: Freed, block: Block, user: Stream) -> tuple[Edge, Edit]:
        edge = Edge(
            "record_stream", user.index, block.stream, freed.line, _text(freed.record, "at")
        )
        return edge, Edit(freed.line, user.raw, 0, (0, block.start, block.size))

    def _bytes(self, start: int, end: int, block: Block | None) -> Bytes:
        """Bytes with the name of the tensor that has them now."""
        assert self.order is not None
        name = self.order.names.holding(start)
        if name is not None and (block is None or name.line > block.line):
            return Bytes(start, end - start, name.text, start - name.start, name.size)
        if block is None:
            return Bytes(start, end - start)
        return Bytes(start, end - start, "", start - block.start, block.size)

    def _gradient_of(self, found: Conflict) -> str:
        """The parameter whose gradient the earlier access wrote, as its node received it since."""
        assert self.order is not None
        written, block = found.earlier["line"], found.block
        if not found.earlier_writes or found.freed is not None or _is_new(block, found.earlier):
            return ""
        name = self.order.backwards.gradients.holding(found.start)
        return name.text if name is not None and name.line > written else ""

    def _earlier_bytes(self, found: Conflict) -> Bytes:
        """Bytes with the name of the tensor that had them at the earlier access."""
        assert self.order is not None
        if found.freed is None:
            return self._bytes(found.start, found.end, found.block)
        size, block = found.end - found.start, found.freed.block
        name = self.order.names.holding(found.start)
        if name is not None and name.line < found.freed.line and block and name.line > block.line:
            return Bytes(found.start, size, name.text, found.start - name.start, name.size)
        if block is None:
            return Bytes(found.start, size)
        return Bytes(found.start, size, "", found.start - block.start, block.size)


def site_of(access: Record) -> Key:
    """Where in the program an operator was called."""
    record = operator_of(access)
    return (
        record["op"],
        record.get("node") or "",
        record.get("at") or "",
        record.get("fwd_at") or "",
    )


def _sites(found: Conflict) -> Key:
    return (
        site_of(found.earlier),
        found.earlier_stream.raw,
        site_of(found.later),
        found.later_stream.raw,
    )


def _wait(source: Stream, target: Stream, access: Record) -> tuple[Edge, Edit]:
    before = operator_of(access)
    line = before["line"]
    edge = Edge("wait", source.index, target.index, line, _text(before, "at"))
    return edge, Edit(line, source.raw, target.raw)


def _access(access: Record, stream: Stream, data: Bytes, *, writes: bool) -> Access:
    record = operator_of(access)
    return Access(
        record["line"],
        record["op"],
        stream.index,
        writes,
        data,
        record.get("node") or "",
        record.get("at") or "",
        record.get("fwd_at") or "",
        record.get("param") or "",
    )


def _lifetime(freed: Freed, block: Block, taken: Block | None) -> Lifetime:
    return Lifetime(
        block.size,
        block.stream,
        _text(block.record, "at"),
        freed.line,
        _text(freed.record, "at"),
        taken.line if taken else 0,
        _text(taken.record, "at") if taken else "",
    )


def _both(one: Bytes, other: Bytes) -> Bytes:
    """Two pieces of one tensor as the bytes from the first to the last."""
    first, last = sorted((one, other), key=lambda piece: piece.start)
    end = max(first.start + first.size, last.start + last.size)
    return replace(first, size=end - first.start)


def _is_new(block: Block | None, earlier: Record) -> bool:
    return block is not None and block.line > earlier["line"]


def _overlaps(item: Sequence[int], found: Conflict) -> bool:
    return item[1] < found.end and found.start < item[1] + item[2]


def _text(record: Record, field: str) -> str:
    return record.get(field) or ""
