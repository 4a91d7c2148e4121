"""Detectors for the live set: outputs that come and go, optimizer state, output order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.buckets import reach
from xlagraph.cause.draft import exclusive_slice
from xlagraph.cause.finding import Case, Finding, count, grouped, join, output_name
from xlagraph.cause.finding import short_shape as shape_of
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.graph import Module


def optimizer_state(case: Case) -> list[Finding]:
    """State tensors that B takes in and gives back and that A only gives, or has not.

    An optimizer makes its buffers in its first step: that graph differs from all later ones
    and comes once.
    """
    diff = case.diff
    a, b = diff.a, diff.b
    new_inputs = [
        b.entry_computation.parameters[slot.b]
        for slot in diff.parameters
        if slot.a is None and slot.b is not None
    ]
    new_outputs = _unpaired(case, forward=False)
    state = _state_pairs(b, new_inputs, new_outputs)
    if not state:
        return []
    updated = _updated_outputs(case, state)
    gone = _unpaired(case, forward=True)
    touched_a, touched_b = set(gone), set(new_outputs)
    for slot in diff.outputs:
        if slot.a is not None and slot.b is not None and slot.b in updated:
            touched_a.add(slot.a)
            touched_b.add(slot.b)
    inputs = [p for p, _ in state]
    names = [case.context_b.parameters.get(int(b.payloads[p])) or shape_of(b, p) for p in inputs]
    claimed_a, claimed_b = exclusive_slice(a, touched_a), exclusive_slice(b, touched_b)
    return [
        Finding(
            kind="optimizer-state",
            title=f"optimizer state came into being: B takes in and updates "
            f"{count(len(state), 'state tensor')} that A had not yet ({join(names)})",
            evidence=(
                Evidence(
                    f"{count(len(state), 'new parameter')} of B with an output of the same shape "
                    f"that is computed from it",
                    b=tuple(inputs),
                    sources=where(b, inputs),
                ),
            ),
            fix="Expected once, in the first optimizer step. To save the extra compile, create "
            "the state before the loop (a first step with zero gradients).",
            proof=f"the {len(touched_b)} outputs of B and {len(touched_a)} of A that the state "
            "takes part in were set aside",
            a=frozenset(claimed_a),
            b=frozenset(claimed_b),
            dropped_a=frozenset(touched_a),
            dropped_b=frozenset(touched_b),
            expected=True,
        )
    ]


def _state_pairs(
    module: Module, inputs: list[int], outputs: Collection[int]
) -> list[tuple[int, int]]:
    """New parameters with a new output of equal shape that depends on them, one to one."""
    values = output_values(module)
    free = sorted(outputs)
    pairs = []
    for parameter in inputs:
        if not module.users[parameter] or module.shapes[parameter].startswith(("s64[]", "f32[]")):
            continue
        near = _near(module, parameter)
        for k in free:
            if module.shapes[values[k]] == module.shapes[parameter] and values[k] in near:
                pairs.append((parameter, k))
                free.remove(k)
                break
    return pairs


def _near(module: Module, start: int, steps: int = 8, limit: int = 200) -> set[int]:
    """Instructions that depend on `start` within a few steps: an update is a short formula."""
    found = {start}
    front = [start]
    for _ in range(steps):
        front = [u for i in front for u in module.users[i] if u not in found][:limit]
        found.update(front)
    return found


def _updated_outputs(case: Case, state: list[tuple[int, int]]) -> set[int]:
    """Paired outputs of B that depend on the new state."""
    b = case.diff.b
    reached = reach(b, [p for p, _ in state])
    return {k for k, value in enumerate(output_values(b)) if reached[value]}


def _unpaired(case: Case, *, forward: bool) -> list[int]:
    """Output positions of one side without a partner and not yet dropped."""
    taken = case.dropped_a if forward else case.dropped_b
    found = []
    for slot in case.diff.outputs:
        own, other = (slot.a, slot.b) if forward else (slot.b, slot.a)
        if own is not None and other is None and own not in taken:
            found.append(own)
    return found


def live_tensors(case: Case) -> list[Finding]:
    """Outputs that one side has and the other has not: a logged, leaked or missing tensor."""
    early = _early_part(case)
    if early:
        return [early]
    return [
        _live_finding(case, places, forward=forward)
        for forward in (False, True)
        for places in _by_creation(case, _unpaired(case, forward=forward), forward=forward)
    ]


def _early_part(case: Case) -> Finding | None:
    """One module is only the beginning of the other: its sync was a value being read."""
    for forward in (False, True):
        context = case.context_a if forward else case.context_b
        whole, part = (case.diff.b, case.diff.a) if forward else (case.diff.a, case.diff.b)
        own = _unpaired(case, forward=forward)
        missing = _unpaired(case, forward=not forward)
        if context.sync_kind != "value" or own or not missing or case.open_changes():
            continue
        side, other = ("A", "B") if forward else ("B", "A")
        gone = frozenset(missing)
        claimed = frozenset(exclusive_slice(whole, missing))
        lines = (context.call_site,) if context.call_site else ()
        return Finding(
            kind="early-execution",
            title=f"a value was read early{at(lines)}: {side} is the part of {other} that computes "
            f"{count(len(output_values(part)), 'output')}",
            evidence=(
                Evidence(
                    f"{side} ran because Python asked for a value (.item(), print, if), before "
                    f"the step's sync; it has {count(len(missing), 'output')} fewer than {other}",
                    sources=lines,
                ),
            ),
            fix="Read the value after the sync, every step or never: keep it on the device "
            "(detach) and fetch it with xm.add_step_closure.",
            proof=f"{count(len(missing), 'output')} of {other} were set aside",
            a=frozenset() if forward else claimed,
            b=claimed if forward else frozenset(),
            dropped_a=frozenset() if forward else gone,
            dropped_b=gone if forward else frozenset(),
        )
    return None


def _by_creation(case: Case, positions: list[int], *, forward: bool) -> list[list[int]]:
    """Groups outputs by the line that made them: one line, one cause."""
    module = case.diff.a if forward else case.diff.b
    context = case.context_a if forward else case.context_b
    values = output_values(module)
    groups: dict[str, list[int]] = defaultdict(list)
    for k in positions:
        line = context.created.get(k) or next(iter(where(module, [values[k]])), "")
        groups[line].append(k)
    return [groups[line] for line in sorted(groups)]


def _live_finding(case: Case, places: list[int], *, forward: bool) -> Finding:
    module, context = (case.diff.a, case.context_a) if forward else (case.diff.b, case.context_b)
    values = output_values(module)
    claimed = frozenset(exclusive_slice(module, places))
    side, other = ("A", "B") if forward else ("B", "A")
    names = [output_name(module, context, k, values[k]) for k in places]
    lines = tuple(context.created[k] for k in places if k in context.created)[:3] or where(
        module, [values[k] for k in places]
    )
    holders = sorted({context.holders[k] for k in places if k in context.holders})
    made = f", made{at(lines)}" if lines else ""
    held = f", kept alive by {join(holders)}" if holders else ""
    empty: frozenset[int] = frozenset()
    gone_a, gone_b = (places, []) if forward else ([], places)
    cited = tuple(values[k] for k in places)
    return Finding(
        kind="live-tensor",
        title=f"{side} has {count(len(places), 'live tensor')} more than {other}: "
        f"{join(names)}{made}{held}",
        evidence=(
            Evidence(
                f"{join(names)} {'is' if len(places) == 1 else 'are'} alive at the sync, which "
                f"adds {count(len(claimed), 'instruction')} that nothing else needs",
                a=cited if forward else (),
                b=() if forward else cited,
                sources=lines,
            ),
        ),
        fix="If the tensor is logged, keep it every step, or detach it and move it to the host "
        "with xm.add_step_closure; if it is leaked, drop the reference (list, closure, "
        "attribute) before the sync.",
        proof=f"{count(len(places), 'output')} of {side} "
        f"{'was' if len(places) == 1 else 'were'} set aside with what only "
        f"{'it needs' if len(places) == 1 else 'they need'}",
        a=claimed if forward else empty,
        b=empty if forward else claimed,
        dropped_a=frozenset(gone_a),
        dropped_b=frozenset(gone_b),
    )


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
    a, context = case.diff.a, case.context_a
    values = output_values(a)
    evidence = [Evidence("output positions A -> B: " + join((f"{x} -> {y}" for x, y in moved), 8))]
    named = [context.outputs[x] for x, _ in moved if x in context.outputs]
    if named:
        evidence.append(
            Evidence(f"among them {grouped(named)}", tuple(values[x] for x, _ in moved))
        )
    if case.context_a.waiting or case.context_b.waiting:
        evidence.append(
            Evidence(
                f"reduce-scatter callbacks pending as the sync began: {len(case.context_a.waiting)} "
                f"in A, {len(case.context_b.waiting)} in B; live tensors are ordered by age, "
                "so that one left from an earlier step stands before those of this step"
            )
        )
    return [
        Finding(
            kind="output-order",
            title=f"{count(len(moved), 'output')} stand in another order",
            evidence=tuple(evidence),
            fix="Create the tensors in the same order in every step; live tensors are ordered by "
            "their creation (iterating over a set or a dict in changing order is the usual "
            "reason).",
            proof="B's outputs were put into A's order",
        )
    ]
