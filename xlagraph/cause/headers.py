"""Detector for module-level differences: aliases, donors, sharding, replica counts."""

from __future__ import annotations

from xlagraph.cause.finding import Case, Finding
from xlagraph.cause.model import Evidence

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
    """Header fields that differ while parameters and outputs pair off.

    Donors and aliases follow the live tensors: with parameters or outputs that come and go
    they are a consequence and not named.
    """
    stable = all(slot.a is not None and slot.b is not None for slot in case.diff.outputs)
    findings = []
    for change in case.diff.header:
        if change.field in ("buffer_donor", "input_output_alias") and not stable:
            continue
        kind, title, fix = KINDS.get(
            change.field,
            ("header", f"the header field {change.field} differs", "Keep it the same."),
        )
        if "sharding" in change.field:
            kind, fix = "sharding", "Give the tensors the same sharding in every step."
        findings.append(
            Finding(
                kind=kind,
                title=title,
                evidence=(Evidence(f"{change.field}: {_cut(change.a)} -> {_cut(change.b)}"),),
                fix=fix,
                proof="the comparison leaves the header out",
            )
        )
    return findings


def _cut(text: str) -> str:
    return (text if len(text) <= 120 else text[:117] + "...") or "absent"
