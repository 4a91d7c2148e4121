"""Asynchronous calls of one instruction, which XLA prints under that instruction's name.

``async-start`` of a computation that holds only a custom call is printed as
``custom-call-start`` with the attributes of the custom call, and the computation is left out
(``syntax_sugar_async_ops`` in ``hlo_print_options.h``, on for all of XLA's dumps).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.hlo.proto.kinds import Row, make_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.hlo.proto.body import Body
    from xlagraph.hlo.proto.kinds import Kind

_SUFFIXES = {"async-update": "-update", "async-done": "-done"}
_ASYNC = frozenset({"async-start", *_SUFFIXES})


def expand(bodies: Sequence[Body], indices: Mapping[int, int]) -> list[Body]:
    """The bodies that are printed; asynchronous instructions get the kind of what they wrap."""
    wrapped = _wrapped(bodies, indices)
    if not wrapped:
        return list(bodies)
    for body in bodies:
        if any(row.opcode == "async-start" for row in body.rows):
            _rename(body, wrapped, indices)
    return [body for index, body in enumerate(bodies) if index not in wrapped]


def _wrapped(bodies: Sequence[Body], indices: Mapping[int, int]) -> dict[int, Kind]:
    """Computations of one instruction that only asynchronous calls use, with its kind."""
    found: dict[int, Kind] = {}
    others: set[int] = set()
    calling = {
        id(row): row.kind for body in bodies for row in map(body.rows.__getitem__, body.special)
    }
    if not any(kind.opcode == "async-start" for kind in calling.values()):
        return {}
    for kind in calling.values():
        called = [indices[number] for number in kind.callees if number in indices]
        if kind.opcode not in _ASYNC:
            others.update(called)
        elif kind.opcode == "async-start" and len(called) == 1:
            single = _single(bodies[called[0]])
            if single is not None:
                found[called[0]] = single
    return {index: kind for index, kind in found.items() if index not in others}


def _single(body: Body) -> Kind | None:
    """The root's kind, where all other instructions are parameters."""
    rest = [
        row.kind
        for number, row in zip(body.ids, body.rows, strict=True)
        if row.opcode != "parameter" or number == body.root
    ]
    return rest[0] if len(rest) == 1 else None


def _rename(body: Body, wrapped: Mapping[int, Kind], indices: Mapping[int, int]) -> None:
    inner: dict[int, Kind] = {}
    for at, (number, row) in enumerate(zip(body.ids, body.rows, strict=True)):
        kind = row.kind
        if kind.opcode == "async-start" and kind.callees:
            found = wrapped.get(indices.get(kind.callees[0], -1))
            if found is not None:
                inner[number] = found
                body.rows[at] = Row(_started(kind, found), row.shape, row.metadata)
        elif kind.opcode in _SUFFIXES and body.operands[at] and body.operands[at][0] in inner:
            found = inner[number] = inner[body.operands[at][0]]
            opcode = found.opcode + _SUFFIXES[kind.opcode]
            later = kind._replace(opcode=opcode, callees=(), is_linked=bool(kind.controls))
            body.rows[at] = Row(later, row.shape, row.metadata)
    body.find_special()


def _started(kind: Kind, inner: Kind) -> Kind:
    """The kind of an ``async-start`` that is printed as what it wraps."""
    has_own = any(key == "frontend_attributes" for key, _ in kind.shared)
    shared = tuple(p for p in inner.shared if not (has_own and p[0] == "frontend_attributes"))
    threads = tuple(pair for pair in kind.own if pair[0] == "async_execution_thread")
    rest = tuple(pair for pair in kind.own if pair[0] != "async_execution_thread")
    return make_kind(
        f"{inner.opcode}-start",
        threads + inner.own,
        (shared + inner.notes + rest + kind.shared, kind.notes, kind.backend_config),
        callees=inner.callees,
        controls=kind.controls,
        calls_as=inner.opcode,
    )
