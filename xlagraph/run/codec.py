"""Records to JSON lines and back, by their dataclass fields.

Empty and zero fields are left out of a line, and a missing field reads as the empty value
of its type: lines stay short, and a reader accepts records written before a field existed. A
tensor is a list of its fields up to the last that is not empty, and null where it is not known.
A call site is written once a file, as a ``site`` line, and named by number afterwards. A sync
like an earlier one but for its times is an ``again`` line, which names that one.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Protocol

from xlagraph.run.legacy import FIELDS, holders_of, tensor_of
from xlagraph.run.records import (
    FlushRecord,
    Frame,
    GraphRecord,
    NoteRecord,
    ProcessRecord,
    Record,
    SettingRecord,
    SourceRecord,
    SyncRecord,
)
from xlagraph.tensors import Holder, Role, Tensor

NANOSECONDS = 1e9
_ROLES = frozenset(Role)
RECORD_TYPES: dict[str, type[Record]] = {
    "process": ProcessRecord,
    "sync": SyncRecord,
    "graph": GraphRecord,
    "flush": FlushRecord,
    "note": NoteRecord,
    "source": SourceRecord,
    "setting": SettingRecord,
}
RECORD_NAMES: dict[type[Record], str] = {cls: name for name, cls in RECORD_TYPES.items()}

_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class RecordError(ValueError):
    """A line that is JSON but not a record of a known type with fields of their types."""


def _plain(value: object) -> object:
    if isinstance(value, Frame):
        return [value.file, value.line, value.function]
    if isinstance(value, Tensor):
        return _tensor(value)  # by the hundred, where tensors wait in buckets
    if isinstance(value, tuple):
        if value and isinstance(value[0], str):
            return value
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    return value


@lru_cache(maxsize=1 << 16)
def _tensor(tensor: Tensor) -> list[object]:
    fields = [tensor.owner, tensor.name, tensor.role, tensor.optimizer, tensor.key, tensor.shard]
    while not fields[-1]:
        del fields[-1]
    return fields


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


def _fields(value: object) -> dict[str, object]:
    found: dict[str, object] = {}
    cls: Any = type(value)
    for name in _names(cls):
        item = getattr(value, name)
        if item:
            found[name] = _plain(item)
    return found


def encode(record: Record) -> str:
    """One record as one line of JSON, without the line end."""
    return _dumps({"record": RECORD_NAMES[type(record)], **_fields(record)})


_REPEATED = (
    "rank", "kind", "entry", "outcome", "compile_seconds", "graphs", "graph_is_inferred",
    "fingerprint",
)  # fmt: skip


class SyncFacts(Protocol):
    """What a sync without live tensors and buckets says; fields as in ``SyncRecord``."""

    @property
    def rank(self) -> int:
        """``SyncRecord.rank``."""

    @property
    def time(self) -> float:
        """``SyncRecord.time``."""

    @property
    def seconds(self) -> float:
        """``SyncRecord.seconds``."""

    @property
    def kind(self) -> str:
        """``SyncRecord.kind``."""

    @property
    def entry(self) -> str:
        """``SyncRecord.entry``."""

    @property
    def outcome(self) -> str:
        """``SyncRecord.outcome``."""

    @property
    def compile_seconds(self) -> float:
        """``SyncRecord.compile_seconds``."""

    @property
    def graphs(self) -> tuple[str, ...]:
        """``SyncRecord.graphs``."""

    @property
    def graph_is_inferred(self) -> bool:
        """``SyncRecord.graph_is_inferred``."""

    @property
    def fingerprint(self) -> tuple[int, ...]:
        """``SyncRecord.fingerprint``."""

    @property
    def call_site(self) -> tuple[Frame, ...]:
        """``SyncRecord.call_site``."""


class SyncEncoder:
    """Writes syncs with call sites by number: a stable step's line costs microseconds.

    What repeats is encoded once; index, step and times are put before it.
    """

    def __init__(self) -> None:
        self._sites: dict[tuple[Frame, ...], int] = {}
        self._by_identity: dict[int, tuple[tuple[Frame, ...], int]] = {}
        self._tails: dict[tuple[object, ...], str] = {}

    def encode(self, record: SyncRecord) -> str:
        """The line of ``record``, after a ``site`` line when its call site is new."""
        prefix, number = self._site(record.call_site)
        fields: dict[str, object] = {"record": "sync", **_fields(record)}
        if number >= 0:
            fields["call_site"] = number
        return prefix + _dumps(fields)

    def encode_plain(self, sync: SyncFacts, index: int, step: int) -> str:
        """The same for a sync without live tensors and buckets, in a few microseconds."""
        prefix, number = self._site(sync.call_site)
        key = (
            sync.rank, sync.kind, sync.entry, sync.outcome, sync.graphs,
            sync.graph_is_inferred, sync.fingerprint, sync.compile_seconds, number,
        )  # fmt: skip
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = self._tail(sync, number)
        return (
            f'{prefix}{{"record":"sync","index":{index},"step":{step},'
            f'"time":{sync.time:.6f},"seconds":{sync.seconds:.7f},{tail}'
        )

    def _site(self, site: tuple[Frame, ...]) -> tuple[str, int]:
        """The ``site`` line to write first, if any, and the site's number; -1 for none."""
        if not site:
            return "", -1
        # Capture hands over the same tuple for the same place: no frame is hashed again.
        known = self._by_identity.get(id(site))
        if known is not None and known[0] is site:
            return "", known[1]
        prefix = ""
        number = self._sites.get(site)
        if number is None:
            number = self._sites[site] = len(self._sites)
            line = {"record": "site", "number": number, "frames": _plain(site)}
            prefix = _dumps(line) + "\n"
        self._by_identity[id(site)] = (site, number)
        return prefix, number

    @staticmethod
    def _tail(sync: SyncFacts, number: int) -> str:
        fields = {name: _plain(getattr(sync, name)) for name in _REPEATED if getattr(sync, name)}
        if number >= 0:
            fields["call_site"] = number
        return _dumps(fields)[1:]


def again(index: int) -> bytes:
    """The line of a sync like the one with this index; to be filled in by ``%``.

    With four whole numbers: index, step, start (Unix time) and duration, both in ns. Whole
    numbers, because formatting floats touches 20 us worth of cold memory.
    """
    return (
        b'{"record":"again","of":%d,"index":%%d,"step":%%d,"time_ns":%%d,"took_ns":%%d}\n' % index
    )


Decoder = Callable[[Any], Any]


def _decode_frame(value: Any) -> Frame:
    file, line, function = value
    return Frame(str(file), int(line), str(function))


def _decode_tensor(value: Any) -> Tensor | None:
    if value is None or isinstance(value, str):
        return tensor_of(value or "")
    owner, name, role, *more = value
    return Tensor(str(owner), str(name), _role(role), *more)


def _role(name: str) -> Role:
    """A role; one that a newer capture knows is that of any tensor."""
    return Role(name) if name in _ROLES else Role.TENSOR


def _decode_holders(value: Any) -> tuple[Holder, ...]:
    if isinstance(value, str):
        return holders_of(value)
    return tuple(_build(Holder, one) for one in value)


def _decode_tuple(items: tuple[Any, ...]) -> Decoder:
    if len(items) == 2 and items[1] is Ellipsis:
        each = _decoder(items[0])
        return lambda value: tuple(each(item) for item in value)
    decoders = tuple(_decoder(item) for item in items)

    def decode_fixed(value: Any) -> tuple[Any, ...]:
        return tuple(one(item) for one, item in zip(decoders, value, strict=True))

    return decode_fixed


@cache
def _decoder(hint: Any) -> Decoder:
    if hint is Frame:
        return _decode_frame
    if hint in (Tensor, Tensor | None):
        return _decode_tensor
    if hint == tuple[Holder, ...]:
        return _decode_holders
    if typing.get_origin(hint) is tuple:
        return _decode_tuple(typing.get_args(hint))
    if dataclasses.is_dataclass(hint):
        return lambda value: _build(hint, value)
    convert: Decoder = hint
    return convert


@cache
def _plan(cls: Any) -> tuple[tuple[str, Decoder, object], ...]:
    hints = typing.get_type_hints(cls)
    plan: list[tuple[str, Decoder, object]] = []
    for name in _names(cls):
        hint = hints[name]
        plan.append((name, _decoder(hint), _empty(hint)))
    return tuple(plan)


def _empty(hint: Any) -> object:
    if typing.get_origin(hint) is tuple:
        return ()
    if hint in (Tensor, Tensor | None):
        return Tensor("", "") if hint is Tensor else None
    empty: object = _build(hint, {}) if dataclasses.is_dataclass(hint) else hint()
    return empty


def _build(cls: Any, fields: dict[str, Any]) -> Any:
    values = {
        name: decode(fields[there]) if (there := _field(cls, name, fields)) else empty
        for name, decode, empty in _plan(cls)
    }
    return cls(**values)


def _field(cls: Any, name: str, fields: dict[str, Any]) -> str:
    """The key of a field in a line, ``""`` if it is not there; older lines have other ones."""
    if name in fields:
        return name
    older = FIELDS.get((cls.__name__, name), "")
    return older if older in fields else ""


_UNREADABLE = (
    ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


class LineDecoder:
    """Reads the lines of one record file in order, remembering its call sites and syncs."""

    def __init__(self) -> None:
        self._sites: dict[int, list[Any]] = {}
        self._syncs: dict[int, SyncRecord] = {}

    def decode(self, line: str) -> Record | None:
        """The record of ``line``; None for a call site or a type this version does not know.

        Raises:
            RecordError: the line is not JSON, or its fields have other types.
        """
        try:
            fields = json.loads(line)
            name = fields.pop("record")
            if name == "site":
                self._sites[int(fields["number"])] = fields["frames"]
                return None
            if name == "again":
                return self.again(**fields)
            if isinstance(fields.get("call_site"), int):
                fields["call_site"] = self._sites[fields["call_site"]]
            cls = RECORD_TYPES.get(name)
            record: Record | None = None if cls is None else _build(cls, fields)
        except _UNREADABLE as error:
            raise RecordError(f"not a record: {error}: {line[:80]!r}") from error
        if isinstance(record, SyncRecord):
            self._syncs[record.index] = record
        return record

    def again(self, of: int, index: int, step: int, time_ns: int, took_ns: int) -> SyncRecord:
        """A sync like the one with index ``of``, which must have been decoded.

        Raises:
            KeyError: it was not.
        """
        return dataclasses.replace(
            self._syncs[of],
            index=int(index),
            step=int(step),
            time=int(time_ns) / NANOSECONDS,
            seconds=int(took_ns) / NANOSECONDS,
        )
