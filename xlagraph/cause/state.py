"""Detectors for tensors that begin to be updated: optimizer state, averages, unfrozen layers."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.draft import exclusive_slice, is_input
from xlagraph.cause.finding import (
    Case,
    Finding,
    count,
    join,
    parameter_name,
    short_shape,
    unpaired_outputs,
)
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, short_line, where
from xlagraph.cause.sides import A, B
from xlagraph.cause.updates import at_zero, made_anew, new_values, updates
from xlagraph.diff.header import given_away
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module

OPTIMIZER_NAME = re.compile(r"\(\w+ \w+\)$")
"""How a capture names optimizer state: ``0.weight (SGD momentum_buffer)``."""
OPTIMIZER_FILE = re.compile(r"(^|/)optim/")
STEPS = 8
"""An update is a short formula: its result is this near to what it updates."""
MAX_NEAR = 200


def is_optimizer_state(names: Iterable[str], lines: Iterable[str]) -> bool:
    """Whether names, else source lines, tell of an optimizer.

    Where nothing is known, state is what the other side gives back without taking it in.
    """
    known = [name for name in names if name]
    if known:
        return all(OPTIMIZER_NAME.search(name) for name in known)
    return all(OPTIMIZER_FILE.search(line) for line in lines)


def optimizer_state(case: Case) -> list[Finding]:
    """State tensors that one side takes in and gives back and the other only gives, or has not.

    An optimizer makes its buffers in its first step: that graph differs from all later ones
    and comes once. State that is no optimizer's is an update that one side leaves out. Only its
    own new values are set aside; what is computed with it is compared with zeros in its place.
    """
    return [f for forward in (False, True) for f in _state_finding(case, forward=forward)]


def _state_finding(case: Case, *, forward: bool) -> list[Finding]:
    """`forward`: A has the state; otherwise B."""
    diff = case.diff
    module, context = (diff.a, case.context_a) if forward else (diff.b, case.context_b)
    anew = {p for _, p, _ in made_anew(case, forward=not forward)}
    new_inputs = [
        module.entry_computation.parameters[own]
        for slot in diff.parameters
        for own, other in [(slot.a, slot.b) if forward else (slot.b, slot.a)]
        if other is None and own is not None
        if is_input(module, module.entry_computation.parameters[own])
        and module.entry_computation.parameters[own] not in anew
    ]
    new_outputs = unpaired_outputs(case, forward=forward, replaced=True)
    state = _state_pairs(module, new_inputs, new_outputs)
    if not state:
        return []
    inputs = [p for p, _ in state]
    dropped = frozenset(_lone(case, new_values(module, inputs), forward=forward))
    zeros, left = at_zero(module, inputs)
    claimed = frozenset(exclusive_slice(module, dropped) | zeros | left.keys())
    names = [context.input_name(module, p) for p in inputs]
    values = output_values(module)
    lines = where(module, [values[k] for _, k in state]) or where(module, inputs)
    is_state = (
        is_optimizer_state(names, lines)
        if any(names) or lines
        else zeros.issuperset(inputs) and _gives_back(case, inputs, forward=not forward)
    )
    listed = join(name or short_shape(module, p) for name, p in zip(names, inputs, strict=True))
    side, less = (A, B) if forward else (B, A)
    number = count(len(state), "state tensor" if is_state else "tensor")
    nothing: frozenset[int] = frozenset()

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        (draft_a if forward else draft_b).replace_uses(left)

    return [
        Finding(
            kind="optimizer-state" if is_state else "newly-updated",
            title=f"optimizer state came into being: {side} takes in and updates {number} that "
            f"{less} has not ({listed})"
            if is_state
            else f"{side} takes in and updates {number} that {less} leaves alone "
            f"({listed}){at(lines)}",
            evidence=(
                Evidence(
                    f"{count(len(state), 'parameter')} of {side} alone with an output of the same "
                    f"shape that is computed from it",
                    a=tuple(inputs) if forward else (),
                    b=() if forward else tuple(inputs),
                    sources=lines,
                ),
            ),
            fix=STATE_FIX if is_state else UPDATE_FIX,
            proof=f"{count(len(zeros.intersection(inputs)), 'new tensor')} taken to be zero"
            + (f", {count(len(dropped), 'output')} of {side} alone set aside" if dropped else ""),
            a=claimed if forward else nothing,
            b=nothing if forward else claimed,
            undo=undo,
            dropped_a=dropped if forward else nothing,
            dropped_b=nothing if forward else dropped,
            expected=is_state and not forward,
        )
    ]


STATE_FIX = (
    "Expected once, in the first optimizer step. To save the extra compile, create the state "
    "before the loop (a first step with zero gradients)."
)
UPDATE_FIX = (
    "Update the same tensors in every step, or update the others in a sync of their own "
    "(torch_xla.sync() before and after), so that the training graph stays the same."
)


LAYER_FIX = (
    " A layer that is to be unfrozen later can get a learning rate of (nearly) zero until then."
)
OWN_FIX = (
    "An evaluation, or whatever else is no training step, has a graph of its own: nothing is wrong "
    "with its first one. To compile it before training, run it once then."
)


def _any(_parameter: int, _output: int) -> bool:
    return True


def _state_pairs(
    module: Module,
    inputs: list[int],
    outputs: Collection[int],
    fits: Callable[[int, int], bool] = _any,
) -> list[tuple[int, int]]:
    """Parameters with an output of equal shape that depends on them, one to one."""
    values = output_values(module)
    free = sorted(outputs)
    shapes = {module.shapes[values[k]] for k in free} - {"s64[]", "f32[]"}
    pairs = []
    for parameter in inputs:
        if not module.users[parameter] or module.shapes[parameter] not in shapes:
            continue
        near = _near_users(module, parameter)
        for k in free:
            is_alike = module.shapes[values[k]] == module.shapes[parameter]
            if is_alike and values[k] in near and fits(parameter, k):
                pairs.append((parameter, k))
                free.remove(k)
                break
    return pairs


def _near_users(module: Module, start: int) -> set[int]:
    """Instructions that depend on `start` within a few steps."""
    found = {start}
    front = [start]
    for _ in range(STEPS):
        front = [u for i in front for u in module.users[i] if u not in found][:MAX_NEAR]
        found.update(front)
    return found


def _gives_back(case: Case, state: Sequence[int], *, forward: bool) -> bool:
    """Whether a side (A if `forward`) has outputs of its own like the other's state."""
    module, other = (case.diff.a, case.diff.b) if forward else (case.diff.b, case.diff.a)
    values = output_values(module)
    own = unpaired_outputs(case, forward=forward, replaced=True)
    given = Counter(short_shape(module, values[k]) for k in own)
    return Counter(short_shape(other, p) for p in state) <= given


def _lone(case: Case, outputs: Sequence[int], *, forward: bool) -> list[int]:
    """Those of these outputs that the other side has not: by name, else by number and shape."""
    module, context = (case.diff.a, case.context_a) if forward else (case.diff.b, case.context_b)
    other, known = (case.diff.b, case.context_b) if forward else (case.diff.a, case.context_a)
    gone, others_gone = (
        (case.dropped_a, case.dropped_b) if forward else (case.dropped_b, case.dropped_a)
    )
    values, other_values = output_values(module), output_values(other)
    by_name = bool(known.outputs) and all(k in context.outputs for k in outputs)
    keys = [
        context.outputs.get(k) if by_name else short_shape(module, v) for k, v in enumerate(values)
    ]
    room = Counter(key for k, key in enumerate(keys) if k not in gone)
    room.subtract(
        known.outputs.get(k) if by_name else short_shape(other, v)
        for k, v in enumerate(other_values)
        if k not in others_gone
    )
    found = []
    for k in outputs:
        room[keys[k]] -= 1
        if room[keys[k]] >= 0:
            found.append(k)
    return found


def newly_updated(case: Case) -> list[Finding]:
    """Tensors that both sides read and only one updates in place: a layer was unfrozen."""
    return [f for forward in (False, True) for f in _newly_updated(case, forward=forward)]


def _newly_updated(case: Case, *, forward: bool) -> list[Finding]:
    diff = case.diff
    module, context = (diff.a, case.context_a) if forward else (diff.b, case.context_b)
    parameters = module.entry_computation.parameters
    shared = [
        parameters[own]
        for slot in diff.parameters
        for own, other in [(slot.a, slot.b) if forward else (slot.b, slot.a)]
        if own is not None and other is not None and is_input(module, parameters[own])
    ]
    outputs = unpaired_outputs(case, forward=forward)
    values = output_values(module)
    kept = {values[k] for k in range(len(values)) if k not in outputs}
    partners = diff.match.to_b if forward else diff.match.to_a
    other = diff.b if forward else diff.a
    away, other_away = given_away(module), given_away(other)
    shared = [p for p in shared if _number(other, partners[p]) not in other_away]

    def is_updated(parameter: int, output: int) -> bool:
        """Whether the output replaces the parameter: by name, else as it gives its buffer away."""
        number = _number(module, parameter)
        name = context.outputs.get(output)
        if name and number in context.parameters:
            return name == context.parameters[number]
        return number in away

    pairs = _state_pairs(module, shared, [k for k in outputs if values[k] not in kept], is_updated)
    return [_updated_finding(case, pairs, forward=forward)] if pairs else []


def _updated_finding(case: Case, pairs: Sequence[tuple[int, int]], *, forward: bool) -> Finding:
    """Parameters of one side (A if `forward`) with the outputs that replace them."""
    module, context = (case.diff.a, case.context_a) if forward else (case.diff.b, case.context_b)
    values = output_values(module)
    lines = where(module, [values[k] for _, k in pairs])
    side, less = (A, B) if forward else (B, A)
    listed = join(parameter_name(module, context, p) for p, _ in pairs)
    dropped = frozenset(k for _, k in pairs)
    claimed = frozenset(exclusive_slice(module, dropped))
    cited = tuple(p for p, _ in pairs)
    nothing: frozenset[int] = frozenset()
    site = _own_site(case, forward=not forward)
    number = count(len(pairs), "tensor")
    return Finding(
        kind="own-graph" if site else "newly-updated",
        title=f"{less} is a graph of its own, from {short_line(site)}: it updates none of the "
        f"{number} that {side} updates ({listed})"
        if site
        else f"{side} updates {number} that {less} only reads ({listed}){at(lines)}",
        evidence=(
            Evidence(
                f"{listed}: read by both, an output of {side} alone; "
                f"{count(len(claimed), 'instruction')} serve nothing else",
                a=cited if forward else (),
                b=() if forward else cited,
                sources=lines,
            ),
        ),
        fix=OWN_FIX if site else UPDATE_FIX + LAYER_FIX,
        proof=f"{count(len(pairs), 'output')} of {side} set aside with what only they need",
        a=claimed if forward else nothing,
        b=nothing if forward else claimed,
        dropped_a=dropped if forward else nothing,
        dropped_b=nothing if forward else dropped,
    )


def _own_site(case: Case, *, forward: bool) -> str:
    """Where a side (A if `forward`) was synced that updates no tensor, if the other one was not."""
    module, own, other = (
        (case.diff.a, case.context_a, case.context_b)
        if forward
        else (case.diff.b, case.context_b, case.context_a)
    )
    if not other.call_site or other.call_site == own.call_site:
        return ""
    numbers = (p for p in updates(module) if not module.shapes[p].endswith("[]"))
    return own.call_site if next(numbers, None) is None else ""


def _number(module: Module, parameter: int) -> int:
    """The number of an entry parameter, -1 for anything else."""
    is_there = parameter >= 0 and is_input(module, parameter)
    return int(module.payloads[parameter]) if is_there else -1
