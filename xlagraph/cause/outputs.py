"""Detectors for the live set: outputs that come and go, graphs cut early, output order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.buckets import CARRY_FIX
from xlagraph.cause.draft import exclusive_slice, is_input
from xlagraph.cause.finding import (
    Case,
    Finding,
    count,
    grouped,
    join,
    output_name,
    unpaired_outputs,
)
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.repeated import repeated_expression
from xlagraph.cause.sides import A, B
from xlagraph.cause.state import OPTIMIZER_NAME, STATE_FIX
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.draft import Draft
    from xlagraph.cause.model import Context
    from xlagraph.graph import Module

MEANINGFUL_CUT = 0.1
"""Part of a module that must come after a cut, where the capture does not tell of one."""


def started_early(case: Case) -> list[Finding]:
    """One module is only the beginning of the other: its sync was a value being read.

    Repeated expressions do not count: they come and go with what is traced.
    """
    if all(slot.a is not None and slot.b is not None for slot in case.diff.outputs):
        return []
    copies = repeated_expression(case)
    copied_a = frozenset[int]().union(*(f.a for f in copies))
    copied_b = frozenset[int]().union(*(f.b for f in copies))
    if any(x not in copied_a for x, _, _ in case.open_changes()):
        return []
    for forward in (False, True):
        part, partners = (
            (case.diff.a, case.diff.match.to_b) if forward else (case.diff.b, case.diff.match.to_a)
        )
        own = unpaired_outputs(case, forward=forward, replaced=True)
        missing = unpaired_outputs(case, forward=not forward, replaced=True)
        lone = set(case.diff.removed) - copied_a if forward else set(case.diff.added) - copied_b
        if lone - (case.claimed_a if forward else case.claimed_b):
            continue
        context = case.context_a if forward else case.context_b
        cut = [partners[output_values(part)[k]] for k in own]
        if not missing or min(cut, default=0) < 0:
            continue
        is_cut = bool(cut) and _may_be_cut(case, missing, cut, forward=forward)
        is_read = context.sync_kind == "value" and not own and not _at_one_place(case)
        if is_cut or is_read:
            return [_early_finding(case, own, missing, forward=forward)]
    return []


def _at_one_place(case: Case) -> bool:
    """Whether both syncs are of one kind and came from one line: neither is an early one."""
    a, b = case.context_a, case.context_b
    return (a.sync_kind, a.call_site) == (b.sync_kind, b.call_site)


def _may_be_cut(case: Case, missing: list[int], cut: list[int], *, forward: bool) -> bool:
    """Whether a sync that ends here is plausible: it came from elsewhere, or is far from the end.

    Where both came from one line, or the capture does not tell, values that only came in, or
    that stand in for equally many of the same shapes, are results that the other side computes
    further: no cut.
    """
    kind = (case.context_a if forward else case.context_b).sync_kind
    if kind and kind != "step" and not _at_one_place(case):
        return True
    whole = case.diff.b if forward else case.diff.a
    entry = whole.entry_computation
    rest = len(exclusive_slice(whole, missing, extra=cut))
    if rest < MEANINGFUL_CUT * (entry.stop - entry.start):
        return False
    if kind == "step":
        return not _at_one_place(case)
    values = output_values(whole)
    shapes = [[whole.shapes[i] for i in ends] for ends in (cut, [values[k] for k in missing])]
    return shapes[0] != shapes[1] and not any(is_input(whole, i) for i in cut)


def _early_finding(case: Case, own: list[int], missing: list[int], *, forward: bool) -> Finding:
    """`forward`: A is the beginning of B."""
    whole, part = (case.diff.b, case.diff.a) if forward else (case.diff.a, case.diff.b)
    partners = case.diff.match.to_b if forward else case.diff.match.to_a
    context = case.context_a if forward else case.context_b
    side, other = (A, B) if forward else (B, A)
    gone, here = frozenset(missing), frozenset(own)
    cut = [partners[output_values(part)[k]] for k in own]
    claimed = frozenset(exclusive_slice(whole, missing, extra=cut))
    is_value, is_step = context.sync_kind == "value", context.sync_kind == "step"
    is_known = bool(context.call_site) and (is_value or is_step)
    lines: tuple[str, ...] = (context.call_site,) if is_known else ()
    lines = lines or where(part, [output_values(part)[k] for k in own])
    values = [output_values(part)[k] for k in own]
    none: frozenset[int] = frozenset()
    nothing: tuple[int, ...] = ()

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        (draft_b if forward else draft_a).outputs += cut
        (draft_a if forward else draft_b).outputs += values

    number = count(len(output_values(part)), "output")
    return Finding(
        kind="early-execution",
        title=(
            "a value was read early" if is_value else "a sync" if is_step else "the graph was cut"
        )
        + f"{at(lines)}{' cut the graph' if is_step else ''}: "
        f"{side} is the part of {other} that computes {number}",
        evidence=(
            Evidence(
                f"{side} ran because Python asked for a value (.item(), print, if), before "
                f"the step's sync; it has {count(len(missing), 'output')} fewer than {other}"
                if is_value
                else f"{side} ends in {count(len(own), 'value')} that {other} computes on the way",
                nothing if forward else tuple(cut),
                tuple(cut) if forward else nothing,
                sources=lines,
            ),
        ),
        fix="Read the value after the sync, every step or never: keep it on the device "
        "(detach) and fetch it with xm.add_step_closure. If it is no part of the step (an "
        "evaluation, say), nothing is wrong with its first graph: run it once before training."
        if is_value
        else "A sync compiles a graph of its own for what is pending: leave it out, or, if it ends "
        "something else (an evaluation), run that in the first steps already."
        if is_step
        else "Something between the two parts needs a value or cannot be traced (a read, a "
        "print, a dynamo graph break): move it behind the sync.",
        proof=f"{other} was cut where {side} ends; {count(len(missing), 'output')} set aside",
        a=none if forward else claimed,
        b=claimed if forward else none,
        dropped_a=here if forward else gone,
        dropped_b=gone if forward else here,
        undo=undo,
    )


def live_tensors(case: Case) -> list[Finding]:
    """Outputs that one side has and the other has not: a logged, leaked or missing tensor.

    A root that is no tuple is no list of live tensors.
    """
    return [
        _live_finding(case, places, forward=forward)
        for forward in (False, True)
        if _gives_tuple(case.diff.a if forward else case.diff.b)
        for places in _by_creation(case, unpaired_outputs(case, forward=forward), forward=forward)
    ]


def _gives_tuple(module: Module) -> bool:
    return module.opcodes[module.entry_computation.root] == "tuple"


def _by_creation(case: Case, positions: list[int], *, forward: bool) -> list[list[int]]:
    """Groups outputs by the line that made them, optimizer state apart: one line, one cause."""
    module = case.diff.a if forward else case.diff.b
    context = case.context_a if forward else case.context_b
    values = output_values(module)
    groups: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for k in positions:
        line = next(iter(where(module, [values[k]])), "") or context.created.get(k, "")
        is_state = bool(OPTIMIZER_NAME.search(context.outputs.get(k, "")))
        groups[is_state, "" if is_state else line].append(k)
    return [groups[key] for key in sorted(groups)]


def _live_finding(case: Case, places: list[int], *, forward: bool) -> Finding:
    module, context = (case.diff.a, case.context_a) if forward else (case.diff.b, case.context_b)
    values = output_values(module)
    claimed = frozenset(exclusive_slice(module, places))
    side, other = (A, B) if forward else (B, A)
    names = [output_name(module, context, k, values[k]) for k in places]
    lines = where(module, claimed | {values[k] for k in places})
    lines = lines or tuple(context.created[k] for k in places if k in context.created)[:3]
    lines = lines or where(module, [u for k in places for u in module.users[values[k]]])
    holders = sorted({context.holders[k] for k in places if k in context.holders})
    held = f", kept alive by {join(holders)}" if holders else ""
    is_state = all(OPTIMIZER_NAME.search(context.outputs.get(k, "")) for k in places)
    empty: frozenset[int] = frozenset()
    gone_a, gone_b = (places, []) if forward else ([], places)
    cited = tuple(values[k] for k in places)
    number = count(len(places), "live tensor")
    return Finding(
        kind="optimizer-state" if is_state else "live-tensor",
        title=(
            f"optimizer state came into being: {side} gives back {number} that {other} has not: "
            if is_state
            else f"{side} has {number} more than {other}: "
        )
        + join(names)
        + (f", made{at(lines)}" if lines else "")
        + held,
        evidence=(
            Evidence(
                f"{join(names)} {'is' if len(places) == 1 else 'are'} alive at the sync"
                + (f", which adds {count(len(claimed), 'instruction')}" if claimed else "")
                + (" that nothing else needs" if claimed else "")
                + _copied(module, context, places),
                a=cited if forward else (),
                b=() if forward else cited,
                sources=lines,
            ),
        ),
        fix=STATE_FIX
        if is_state
        else "If the tensor is logged, keep it every step, or detach it and move it to the host "
        "with xm.add_step_closure; if it is leaked, drop the reference (list, closure, "
        "attribute) before the sync.",
        proof=f"{count(len(places), 'output')} of {side} "
        f"{'was' if len(places) == 1 else 'were'} set aside with what only "
        f"{'it needs' if len(places) == 1 else 'they need'}",
        a=claimed if forward else empty,
        b=empty if forward else claimed,
        dropped_a=frozenset(gone_a),
        dropped_b=frozenset(gone_b),
        expected=is_state and not forward,
    )


def _copied(module: Module, context: Context, places: list[int]) -> str:
    """Says which other outputs have the same value: the tensors are copies of these."""
    values = output_values(module)
    first = {value: k for k, value in reversed(list(enumerate(values))) if k not in places}
    sources = [first[values[k]] for k in places if values[k] in first]
    named = [context.outputs.get(k) or f"output {k}" for k in sources]
    return f"; same value as {join(named)}: a copy" if named else ""


def output_order(case: Case) -> list[Finding]:
    """The same outputs in another order."""
    paired = [(s.a, s.b) for s in case.diff.outputs if s.a is not None and s.b is not None]
    moved = [
        (x, y)
        for (x, y), y_sorted in zip(paired, sorted(y for _, y in paired), strict=True)
        if y != y_sorted
    ]
    if not moved:
        return []
    b, context = case.diff.b, case.context_b
    values = output_values(b)
    lines = where(b, [values[y] for _, y in moved])
    waiting = case.context_a.waiting or case.context_b.waiting
    places = tuple(values[y] for _, y in moved)
    text = f"output positions {A} -> {B}: " + join((f"{x} -> {y}" for x, y in moved), 8)
    evidence = [Evidence(text, b=places, sources=() if waiting else lines)]
    named = [context.outputs[y] for _, y in moved if y in context.outputs]
    if named:
        evidence.append(Evidence(f"among them {grouped(named)}", b=places))
    if waiting:
        evidence.append(
            Evidence(
                "reduce-scatter callbacks pending as the sync began: "
                f"{len(case.context_a.waiting)} in {A}, {len(case.context_b.waiting)} in {B}; "
                "live tensors are ordered by age, so that one left from an earlier step stands "
                "before those of this step"
            )
        )
    number = count(len(moved), "output")
    changed = _changed_places(case, moved)
    if changed and not waiting:
        return [_places_finding(changed, lines, evidence)]
    return [
        Finding(
            kind="bucket-carry" if waiting else "output-order",
            title=f"gradients that wait in buckets are older than the rest: {number} stand in "
            "another order"
            if waiting
            else f"{number} stand in another order{at(lines)}",
            evidence=tuple(evidence),
            fix=CARRY_FIX
            if waiting
            else "Create the tensors in the same order in every step; live tensors are ordered by "
            "their creation (iterating over a set or a dict in changing order is the usual "
            "reason).",
            proof=f"{B}'s outputs were put into {A}'s order",
            reorders=True,
        )
    ]


def _changed_places(case: Case, moved: Sequence[tuple[int, int]]) -> list[str]:
    """The moved outputs by name, if every one is another tensor in B than in A."""
    names = [(case.context_a.outputs.get(x), case.context_b.outputs.get(y)) for x, y in moved]
    if any(not first or not second or first == second for first, second in names):
        return []
    return [f"{second} in place of {first}" for first, second in names]


def _places_finding(
    changed: Sequence[str], lines: tuple[str, ...], evidence: Sequence[Evidence]
) -> Finding:
    """Other tensors in the same places: the same layers, used in another order."""
    return Finding(
        kind="output-order",
        title=f"{count(len(changed), 'tensor')} took each other's places in the computation: {B} "
        f"uses {join(changed)}{at(lines)}",
        evidence=tuple(evidence),
        fix="Use the layers (or the tensors) in the same order in every step.",
        proof=f"{B}'s outputs were put into {A}'s order",
        reorders=True,
    )
