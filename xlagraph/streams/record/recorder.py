"""What is recorded, as it happens: operators, events, waits, memory, gradients."""

# ruff: noqa: SLF001 - what a recorder reads of torch has private names

from __future__ import annotations

import sys
import threading
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

from xlagraph.streams.record.ranges import Ranges
from xlagraph.streams.record.replicas import Replicas
from xlagraph.streams.record.schema import Argument, Plan, is_written, plan_of
from xlagraph.streams.record.sites import Sites
from xlagraph.streams.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xlagraph.streams.format import Record
    from xlagraph.streams.record.device import Device
    from xlagraph.streams.record.journal import Journal
    from xlagraph.streams.record.ranges import Range

_NO_POINTER = (RuntimeError, NotImplementedError, TypeError, ValueError)
"""What tensors without memory of their own raise when they are asked for it."""

MOST_SITES = 1 << 20
"""Sequence numbers of which the forward line is kept."""
FLUSH = 50_000
"""Records after which what is waiting is written."""


class Node:
    """The autograd node that a thread of the engine runs."""

    __slots__ = ("name", "owner", "parameter", "sequence")

    def __init__(
        self, name: str, sequence: int, parameter: str, owner: tuple[int, str] | None = None
    ):
        self.name = name
        self.sequence = sequence
        self.parameter = parameter
        self.owner = owner
        """The DistributedDataParallel whose parameter's gradient it accumulates."""


class _Local(threading.local):
    """What a thread is in."""

    node: Node | None = None
    op: Record | None = None


class Captured:
    """What a CUDA graph was captured from: its reads and writes, in place of records."""

    def __init__(self) -> None:
        self.operators = 0
        self.reads: dict[tuple[int, ...], None] = {}
        self.writes: dict[tuple[int, ...], None] = {}

    def add(self, record: Record) -> None:
        """Takes what an operator accesses; anything else happens when the graph is replayed."""
        if record["k"] == "op":
            self.operators += 1
            for item in record["r"]:
                if tuple(item) not in self.writes:
                    self.reads[tuple(item)] = None
        if record["k"] in ("op", "out"):
            for item in record["w"]:
                self.writes[tuple(item)] = None


class Recorder:
    """Turns what hooks see into records.

    It reads shapes, strides and addresses, and never values: nothing waits for the device, no
    tensor is held, no result changes.
    """

    def __init__(self, device: Device, journal: Journal):
        self.device = device
        self.journal = journal
        self.active = False
        self.captured: Captured | None = None
        """The CUDA graph that is being captured."""
        self.unseen: Counter[str] = Counter()
        """What could not be seen, and how often."""
        self.sites = Sites()
        self.ranges = Ranges()
        self.replicas = Replicas()
        self.names: dict[int, str] = {}
        """Names of parameters by Python's id, as of the last search."""
        self.search: Callable[[], None] | None = None
        """Looks for names; None if that has been done in this step."""
        self._tensor = sys.modules["torch"].Tensor
        self._sequence = sys.modules["torch"]._C._autograd._get_sequence_nr
        self._running_node = sys.modules["torch"]._C._current_autograd_node
        self._plans: dict[object, Plan] = {}
        self._forward: dict[int, str] = {}
        self._local = _Local()
        self._numbers = count(1)

    def add(self, record: Record) -> None:
        """Adds a record, or gives it to the graph that is being captured."""
        (self.captured or self.journal).add(record)

    # ---- operators

    def begin(self, operator: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Record | None:
        """An operator is about to run; None where it touches no bytes."""
        plan = self._plans.get(operator)
        if plan is None:
            plan = self._plans[operator] = plan_of(operator)
        if plan.silent:
            return None
        if plan.name.startswith("aten.record_stream"):
            self._record_stream(given)
            return None
        reads: list[Range] = []
        writes: list[Range] = []
        for one in plan.arguments:
            value = given[one.place] if one.place < len(given) else named.get(one.name)
            if value is not None:
                into = writes if is_written(plan, one, given, named) else reads
                self._collect(value, one, into)
        record = self._operator(plan.name, reads, writes)
        local = self._local
        if local.node is not None:
            self._add_node(record, local)
        else:
            self._remember_site(record)
        local.op = record
        if plan.collective:
            record["w"], record["outs"] = [], writes
            if local.node is not None and local.node.owner is not None:
                bucket = self.replicas.sends(local.node.owner, plan.name, given)
                record.update({"bucket": bucket} if bucket else {})
        self.add(record)
        return record

    def end(self, operator: Any, record: Record, result: Any) -> None:
        """An operator has returned."""
        self._local.op = None
        plan = self._plans[operator]
        made: list[Range] = record.get("outs", []) if plan.collective else []
        if plan.fresh:
            old = record["r"] + record["w"]
            fresh: list[Range] = []
            self._collect(result, _RESULT, fresh)
            made = made + [one for one in fresh if not _is_within(one, old)]
        if made or (plan.collective and record["r"]):
            stream = self.device.stream(made[0][0] if made else record["r"][0][0])
            self.add({"k": "out", "i": record["i"], "t": record["t"], "s": stream, "w": made})
        elif not (record["r"] or record["w"]):
            self.journal.drop(record)
        if len(self.journal) > FLUSH and self.captured is None:
            self.flush()

    def abandon(self) -> None:
        """An operator has raised."""
        self._local.op = None

    def launched(
        self, name: str, reads: list[Range], writes: list[Range], stream: int | None = None
    ) -> None:
        """A kernel or graph outside the dispatcher is launched."""
        record = self._operator(name, reads, writes)
        if stream is not None:
            record["s"] = stream
        if self._local.node is not None:
            self._add_node(record, self._local)
        self.add(record)

    def _operator(self, name: str, reads: list[Range], writes: list[Range]) -> Record:
        some = reads or writes
        device = some[0][0] if some else self.device.current()
        return {
            "k": "op",
            "i": next(self._numbers),
            "t": threading.get_ident(),
            "s": self.device.stream(device),
            "op": name,
            "r": reads,
            "w": writes,
            "at": self.sites.here(3),
        }

    def _collect(self, value: Any, one: Argument, into: list[Range]) -> None:
        """Adds the ranges of the device's tensors in an argument or result."""
        if isinstance(value, self._tensor):
            if not self.device.holds(value):
                return
            try:
                of = self.ranges.some_of if one.some else self.ranges.of
                found = of(value, value.get_device())
            except _NO_POINTER:
                self.unseen[Unseen.WITHOUT_MEMORY] += 1
                return
            if found is not None:
                into.append(found)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._collect(item, one, into)

    def range_of(self, tensor: Any) -> list[Range]:
        """The range of a tensor, as a list that is empty where it has none."""
        found: list[Range] = []
        self._collect(tensor, _RESULT, found)
        return found

    def _remember_site(self, record: Record) -> None:
        """Keeps the forward line of the node that was made for this operator, if one was."""
        if record["at"] is not None:
            if len(self._forward) > MOST_SITES:
                self._forward.clear()
            self._forward[self._sequence() - 1] = record["at"]

    def _add_node(self, record: Record, local: _Local) -> None:
        node = local.node
        if node is None or self._running_node() is None:
            local.node = None
            return
        record["node"], record["q"] = node.name, node.sequence
        record["fwd_at"] = self._forward.get(node.sequence)
        if node.parameter:
            record["param"] = node.parameter

    def _record_stream(self, given: Sequence[Any]) -> None:
        torch = sys.modules["torch"]
        tensor, stream = given[0], given[1]
        if not self.device.holds(tensor):
            return
        storage = tensor.untyped_storage()
        device = tensor.get_device()
        raw = torch.cuda.Stream(
            stream_id=stream.stream_id,
            device_index=stream.device_index,
            device_type=stream.device_type,
        ).cuda_stream
        self.add(
            {
                "k": "rs",
                "t": threading.get_ident(),
                "r": [device, storage.data_ptr(), storage.nbytes()],
                "s": raw or -stream.device_index,
                "at": self.sites.here(3),
            }
        )

    # ---- events, waits, memory: torch's callbacks

    def on_event_record(self, event: int, stream: int) -> None:
        """An event is recorded."""
        self._call("record", e=event, s=self.device.named(stream))

    def on_event_wait(self, event: int, stream: int) -> None:
        """A stream waits for an event."""
        self._call("wait", e=event, s=self.device.named(stream))

    def on_event_gone(self, event: int) -> None:
        """An event is destroyed."""
        self._call("ev_del", e=event)

    def on_sync_device(self) -> None:
        """The host waits for a device."""
        self._call("sync_dev", d=self.device.current())

    def on_sync_stream(self, stream: int) -> None:
        """The host waits for a stream."""
        self._call("sync_st", s=self.device.named(stream))

    def on_sync_event(self, event: int) -> None:
        """The host waits for an event."""
        self._call("sync_ev", e=event)

    def on_alloc(self, pointer: int) -> None:
        """Memory is handed out; its size comes from the allocator's history."""
        if not self.active:
            return
        op = self._local.op
        at = (op.get("at") or op.get("fwd_at")) if op else self.sites.here(3)
        record: Record = {
            "k": "alloc",
            "t": threading.get_ident(),
            "p": pointer,
            "n": 0,
            "s": self.device.stream(self.device.current()),
            "at": at,
        }
        if self.captured is not None:
            record["graph"] = 1
        self.journal.add(record)

    def on_free(self, pointer: int) -> None:
        """Memory goes back."""
        if self.active:
            at = self.sites.here(3)
            self.journal.add({"k": "free", "t": threading.get_ident(), "p": pointer, "at": at})

    def polled(self, kind: str, **fields: object) -> None:
        """The host has asked whether an event or a stream is done, and was told that it is."""
        self._call(kind, via="query", **fields)

    def _call(self, kind: str, **fields: object) -> None:
        if self.active:
            self.add({"k": kind, "t": threading.get_ident(), **fields})

    # ---- threads, gradients, marks

    def know(self, leaves: Iterable[Any]) -> None:
        """Looks for names, once a step, if a leaf has none: its model was made since."""
        search = self.search
        if search is not None and any(id(one) not in self.names for one in leaves):
            self.search = None
            search()

    def enter_node(self, node: Node, gradients: Iterable[Any], stream: int | None) -> None:
        """The engine is about to run a node in this thread."""
        self._local.node = node
        received: list[Range] = []
        for one in gradients:
            if one is not None:
                self._collect(one, _RESULT, received)
        if stream is None:
            stream = self.device.stream(received[0][0] if received else self.device.current())
        self.add(
            {
                "k": "node",
                "t": threading.get_ident(),
                "name": node.name,
                "q": node.sequence,
                "s": stream,
                "r": received,
                **({"param": node.parameter} if node.parameter else {}),
            }
        )

    def mark(self, name: str, tensors: Sequence[Any] = (), **fields: object) -> None:
        """Marks a place in the log."""
        received: list[Range] = []
        self._collect(list(tensors), _RESULT, received)
        device = received[0][0] if received else self.device.current()
        self.add(
            {
                "k": "mark",
                "name": name,
                "t": threading.get_ident(),
                "s": self.device.stream(device),
                "r": received,
                "at": self.sites.here(3),
                **fields,
            }
        )

    def tell(self, channel: int) -> None:
        """This thread hands on what it knows."""
        self._call("tell", m=channel)

    def hear(self, channel: int) -> None:
        """This thread comes to know what was handed on."""
        self._call("hear", m=channel)

    def flush(self) -> None:
        """Writes what is waiting."""
        self.journal.flush(self.device.allocations())


_RESULT = Argument(0, "", writes=True)


def _is_within(item: Range, others: list[Range]) -> bool:
    """Whether a result shares an argument's memory: a view that its schema does not mark."""
    start = item[1]
    return any(one[1] <= start < one[1] + one[2] for one in others)
