"""Detector for module-level differences: aliases, donors, sharding, replica counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import mark
from xlagraph.cause.finding import (
    Case,
    Finding,
    count,
    join,
    parameter_name,
    unpaired_outputs,
)
from xlagraph.cause.layouts import lone_copies
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.sharding import mesh_of, without_shardy
from xlagraph.cause.sides import A, B
from xlagraph.diff.changes import positions
from xlagraph.diff.header import aliases
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xlagraph.cause.layouts import Copies
    from xlagraph.diff import HeaderChange
    from xlagraph.graph import Module

BUFFER_FIELDS = ("buffer_donor", "input_output_alias")
_NUMBER = re.compile(r"\((\d+)\s*,")
"""A parameter's number in either of these fields."""

KINDS = {
    "buffer_donor": (
        "donors",
        "other parameters are donated (their buffers may be reused for outputs)",
        "Update the same tensors in place in every step.",
    ),
    "input_output_alias": (
        "alias",
        "other parameters share a buffer with an output",
        "Update the same tensors in place in every step.",
    ),
    "replica_count": (
        "replica-count",
        "the number of replicas differs",
        "Run every step with the same world size.",
    ),
    "num_partitions": (
        "partitions",
        "the number of partitions differs",
        "Keep the mesh the same in every step.",
    ),
    "frontend_attributes": (
        "frontend-attributes",
        "the module's frontend attributes differ",
        "Keep compiler options and annotations the same in every step.",
    ),
}


def header_change(case: Case) -> list[Finding]:
    """Header fields that differ, where no other cause brings the difference along.

    Donors and aliases follow the live tensors: a parameter whose new value comes or goes as
    an output is donated, or not, as a consequence. A value that is read takes nobody's buffer.
    """
    findings = []
    reads = [c.sync_kind == "value" for c in (case.context_a, case.context_b) if c.sync_kind]
    for change in case.diff.header:
        if change.field in BUFFER_FIELDS:
            findings += _buffer_findings(case, change) if len(set(reads)) < 2 else []
        elif not _follows_mesh(case, change):
            findings.append(_field_finding(change))
    return findings


def _field_finding(change: HeaderChange) -> Finding:
    kind, title, fix = KINDS.get(
        change.field,
        ("header", f"the header field {change.field} differs", "Keep it the same."),
    )
    if "sharding" in change.field:
        kind, fix = "sharding", "Give the tensors the same sharding in every step."
    return Finding(
        kind=kind,
        title=title,
        evidence=(Evidence(_both(change)),),
        fix=fix,
        proof="the comparison leaves the header out",
    )


def _buffer_findings(case: Case, change: HeaderChange) -> list[Finding]:
    """Other parameters that give their buffers away, else others to which they give them."""
    kind, title, fix = KINDS[change.field]
    only_a, only_b = _other_parameters(case, change.field)
    names = [_named_parameter(case, p, in_a=True) for p in only_a]
    names += [_named_parameter(case, q, in_a=False) for q in only_b]
    if not names:
        title = "parameters share their buffers with outputs in another way"
        names = _other_outputs(case, change) if change.field == "input_output_alias" else []
    if not names:
        return []
    a, b = case.diff.a, case.diff.b
    lines = where(a, [u for p in only_a for u in a.users[p]])
    lines = lines or where(b, [u for p in only_b for u in b.users[p]])
    copies = lone_copies(case)
    return [
        Finding(
            kind=kind,
            title=f"{title}: {join(names)}{at(lines)}",
            evidence=(
                Evidence(_both(change), tuple(only_a), tuple(only_b), lines),
                *_told(copies),
            ),
            fix=fix,
            proof="the comparison leaves the header out"
            + (", and copies were bypassed" if copies else ""),
            a=copies.claimed_a,
            b=copies.claimed_b,
            undo=copies.skip,
        )
    ]


def _both(change: HeaderChange) -> str:
    return f"{change.field}: {_cut(change.a)} -> {_cut(change.b)}"


def _named_parameter(case: Case, parameter: int, *, in_a: bool) -> str:
    """A parameter that only one side names, with its other number where it was moved."""
    if in_a:
        own, other, partners = case.diff.a, case.diff.b, case.diff.match.to_b
        context, side, opposite = case.context_a, A, B
    else:
        own, other, partners = case.diff.b, case.diff.a, case.diff.match.to_a
        context, side, opposite = case.context_b, B, A
    number = other.payloads[partners[parameter]]
    moved = f", which is {opposite}'s {number}" if number != own.payloads[parameter] else ""
    return f"{parameter_name(own, context, parameter)} in {side} only{moved}"


def _other_outputs(case: Case, change: HeaderChange) -> list[str]:
    """Parameters that share a buffer on both sides, and with another output or in another way.

    Outputs of one side only may shift the others: nothing is said then.
    """
    if _moving(case, forward=True) or _moving(case, forward=False):
        return []
    parameters, own = positions(case.diff.parameters)
    outputs, own_outputs = positions(case.diff.outputs)
    before = {b: a for a, b in outputs.items()}
    old = {(n, i): (out, kind) for out, n, i, kind in aliases(change.a, parameters, outputs)}
    new = {(n, i): (out, kind) for out, n, i, kind in aliases(change.b, own, own_outputs)}
    b = case.diff.b
    found = []
    for key in sorted(old.keys() & new.keys()):
        (place, kind), (new_place, new_kind) = old[key], new[key]
        if old[key] != new[key]:
            name = parameter_name(b, case.context_b, b.entry_computation.parameters[key[0]])
            number = before[place[0]] if place else 0
            found.append(
                f"{name} with output {number} ({kind}) in {A} and output "
                f"{new_place[0] if new_place else 0} ({new_kind}) in {B}"
            )
    return found


def _told(copies: Copies) -> tuple[Evidence, ...]:
    """The copies that keep a value from being overwritten in its buffer, if there are any."""
    if not copies:
        return ()
    text = f"{count(len(copies), 'copy', 'copies')} on one side only, to keep what is overwritten"
    return (Evidence(text, copies.a, copies.b),)


def _follows_mesh(case: Case, change: HeaderChange) -> bool:
    """Whether a field differs because the mesh does, which is a finding of its own."""
    old, new = mesh_of(case.diff.a), mesh_of(case.diff.b)
    if change.field == "num_partitions":
        return bool(old and new and old != new)
    is_frontend = change.field == "frontend_attributes"
    return is_frontend and without_shardy(change.a) == without_shardy(change.b)


def _other_parameters(case: Case, field: str) -> tuple[list[int], list[int]]:
    """The parameters that this field names on one side and not for their partner."""
    a, b, match = case.diff.a, case.diff.b, case.diff.match
    named_a = _named(a, a.header_fields.get(field, ""))
    named_b = _named(b, b.header_fields.get(field, ""))
    only_a = [p for p in named_a if match.to_b[p] >= 0 and match.to_b[p] not in named_b]
    only_b = [p for p in named_b if match.to_a[p] >= 0 and match.to_a[p] not in named_a]
    moving_a = _updates(a, _moving(case, forward=True)) if only_a else {}
    moving_b = _updates(b, _moving(case, forward=False)) if only_b else {}
    return (
        [p for p in only_a if not _is_updated(a, p, moving_a)],
        [q for q in only_b if not _is_updated(b, q, moving_b)],
    )


def _updates(module: Module, values: Collection[int]) -> dict[str, bytearray]:
    """For each shape among `values`, what these values are computed from."""
    found: dict[str, bytearray] = {}
    for value in sorted(values):
        needed = found.setdefault(bare_shape(module, value), bytearray(len(module)))
        mark(module, needed, [value])
    return found


def _is_updated(module: Module, parameter: int, updates: Mapping[str, bytearray]) -> bool:
    """Whether one of the values may be the parameter's next one: it has its shape, and uses it."""
    needed = updates.get(bare_shape(module, parameter))
    return bool(needed and needed[parameter])


def _moving(case: Case, *, forward: bool) -> set[int]:
    """Values that are outputs of one side only, or were set aside with another cause."""
    module = case.diff.a if forward else case.diff.b
    values = output_values(module)
    dropped = case.dropped_a if forward else case.dropped_b
    return {values[k] for k in (*unpaired_outputs(case, forward=forward), *dropped)}


def _named(module: Module, text: str) -> list[int]:
    parameters = module.entry_computation.parameters
    numbers = {int(n) for n in _NUMBER.findall(text)}
    return [p for n, p in enumerate(parameters) if n in numbers]


def _cut(text: str) -> str:
    return (text if len(text) <= 120 else text[:117] + "...") or "absent"
