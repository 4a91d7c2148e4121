"""Detector for other shardings: annotations of tensors, constraints, the mesh itself.

JAX writes each sharding twice, for GSPMD (``sharding={devices=[2,1]<=[2]}``) and, by the names
of the mesh's axes, for Shardy (``xla.sdy.sharding`` among the frontend attributes; the mesh stands
in the header). torch_xla writes the first one only.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count, join, parameter_name, short_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Attributes, Module

_SHARDY = re.compile(r'xla\.sdy\.[\w.]+=(?:"(?:[^"\\]|\\.)*"|\{(?:[^{}]|\{[^{}]*\})*\}),?')
"""A frontend attribute that Shardy reads."""
_AXES = re.compile(r"@\w+, (\[.*?\])(?:, replicated=\{.*?\})?>")
_MESH = re.compile(r"#sdy\.mesh<\[([^\]]*)\]")
_KEYS = frozenset({"sharding", "frontend_attributes"})
FIX = "Give the tensors the same sharding in every step."
MESH_FIX = "Make the mesh once, and keep its shape and the names of its axes in every step."


def sharding_change(case: Case) -> list[Finding]:
    """Tensors sharded in another way; a mesh that differs comes first and takes what follows."""
    pairs = {
        x: y
        for x, y, fields in case.open_changes()
        if fields == ("attributes",) and _differ_in_sharding(*_attributes(case, x, y))
    }
    old, new = mesh_of(case.diff.a), mesh_of(case.diff.b)
    findings = []
    if old and new and old != new:
        follows = {x: y for x, y in pairs.items() if _follows_mesh(*_attributes(case, x, y))}
        findings.append(_mesh_finding(case, old, new, follows))
        pairs = {x: y for x, y in pairs.items() if x not in follows}
    if pairs:
        findings.append(_annotation_finding(case, pairs))
    return findings + [f for forward in (True, False) for f in _constraints(case, forward=forward)]


def mesh_of(module: Module) -> str:
    """The mesh that Shardy is given: ``"x"=2, "y"=2``, or ``""``."""
    found = _MESH.search(module.header_fields.get("frontend_attributes", ""))
    return found[1].replace('"', "") if found else ""


def without_shardy(text: str) -> str:
    """Frontend attributes without those that tell of shardings; ``""`` where none is left."""
    rest = _SHARDY.sub("", text).replace(",}", "}")
    return "" if rest.strip() == "{}" else rest


def _attributes(case: Case, x: int, y: int) -> tuple[Attributes, Attributes]:
    return case.diff.a.attributes[x], case.diff.b.attributes[y]


def _differ_in_sharding(first: Attributes, second: Attributes) -> bool:
    old, new = dict(first.items), dict(second.items)
    keys = {k for k in old.keys() | new.keys() if old.get(k) != new.get(k)}
    rest = [without_shardy(part.get("frontend_attributes", "")) for part in (old, new)]
    return bool(keys) and keys <= _KEYS and rest[0] == rest[1]


def _follows_mesh(first: Attributes, second: Attributes) -> bool:
    """Whether the axes are named alike, so that only the mesh behind the names differs."""
    return first.get("frontend_attributes") == second.get("frontend_attributes") is not None


def _with_sharding(first: Attributes, second: Attributes) -> Attributes:
    kept = tuple((k, v) for k, v in first.items if k not in _KEYS)
    return replace(first, items=kept + tuple((k, v) for k, v in second.items if k in _KEYS))


def _readable(attributes: Attributes) -> str:
    """A sharding in Shardy's words if there are any, else in GSPMD's."""
    axes = _AXES.search((attributes.get("frontend_attributes") or "").replace("\\", ""))
    if axes:
        return axes[1].replace('"', "")
    return attributes.get("sharding") or "not sharded"


def _named(case: Case, x: int, y: int) -> str:
    old, new = (_readable(attributes) for attributes in _attributes(case, x, y))
    b = case.diff.b
    if y in b.entry_computation.parameters:
        name = parameter_name(b, case.context_b, y)
    else:
        name = f"{b.names[y]} ({short_shape(b, y)})"
    return f"{name} {old} -> {new}"


def _lines(module: Module, instructions: Mapping[int, int]) -> tuple[str, ...]:
    """Where annotated values are made, or, for parameters without a line, used."""
    found = instructions.values()
    return where(module, found) or where(module, [u for i in found for u in module.users[i]])


def _mesh_finding(case: Case, old: str, new: str, pairs: Mapping[int, int]) -> Finding:
    lines = _lines(case.diff.b, pairs)
    return Finding(
        kind="mesh",
        title=f"the device mesh is another one: ({old}) became ({new}){at(lines)}",
        evidence=(
            Evidence(f"mesh in the header: ({old}) -> ({new})"),
            Evidence(
                f"{count(len(pairs), 'tensor')} sharded over axes of the same names",
                tuple(pairs),
                tuple(pairs.values()),
                lines,
            ),
        ),
        fix=MESH_FIX,
        proof=f"{A}'s tensors were given {B}'s shardings; the comparison leaves the header out",
        a=frozenset(pairs),
        b=frozenset(pairs.values()),
        undo=_undo(pairs),
    )


def _annotation_finding(case: Case, pairs: Mapping[int, int]) -> Finding:
    lines = _lines(case.diff.b, pairs)
    changes = [_named(case, x, y) for x, y in pairs.items()]
    return Finding(
        kind="sharding",
        title=f"{count(len(pairs), 'tensor')} sharded in another way: {join(changes, 2)}"
        + at(lines),
        evidence=(Evidence(join(changes, 8), tuple(pairs), tuple(pairs.values()), lines),),
        fix=FIX,
        proof=f"{A}'s tensors were given {B}'s shardings",
        a=frozenset(pairs),
        b=frozenset(pairs.values()),
        undo=_undo(pairs),
    )


def _undo(pairs: Mapping[int, int]) -> Callable[[Draft, Draft], None]:
    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for x, y in pairs.items():
            draft_a.attributes[x] = _with_sharding(draft_a.attributes[x], draft_b.attributes[y])

    return undo


def _constraints(case: Case, *, forward: bool) -> list[Finding]:
    """Sharding constraints that stand on one side only (A if `forward`), on what both have."""
    module = case.diff.a if forward else case.diff.b
    partners = case.diff.match.to_b if forward else case.diff.match.to_a
    lone = case.diff.removed if forward else case.diff.added
    claimed = case.claimed_a if forward else case.claimed_b
    root = module.entry_computation.root
    found = [
        i
        for i in lone
        if i not in claimed
        and _is_constraint(module, i)
        and any(partners[n] >= 0 for n in (*module.operands[i], *module.users[i]) if n != root)
    ]
    if not found:
        return []
    side = A if forward else B
    lines = where(module, found)
    names = join(f"{short_shape(module, i)} {_readable(module.attributes[i])}" for i in found)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        (draft_a if forward else draft_b).bypass(found)

    cited: tuple[int, ...] = tuple(found)
    nothing: tuple[int, ...] = ()
    return [
        Finding(
            kind="sharding",
            title=f"{count(len(found), 'sharding constraint')} in {side} only: {names}{at(lines)}",
            evidence=(
                Evidence(
                    f"{side} pins {names}",
                    cited if forward else nothing,
                    nothing if forward else cited,
                    lines,
                ),
            ),
            fix=FIX,
            proof=f"the constraints of {side} were bypassed",
            a=frozenset(cited if forward else nothing),
            b=frozenset(nothing if forward else cited),
            undo=undo,
        )
    ]


def _is_constraint(module: Module, i: int) -> bool:
    target = module.attributes[i].get("custom_call_target")
    return module.opcodes[i] == "custom-call" and target == '"Sharding"'
