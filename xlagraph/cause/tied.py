"""Detectors for what is one tensor on one side and two on the other: a weight, or an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.bucket_rows import PLUMBING
from xlagraph.cause.draft import exclusive_slice, is_input
from xlagraph.cause.finding import Case, Finding, count, join, parameter_name
from xlagraph.cause.model import Evidence
from xlagraph.cause.pieces import OUTPUT, open_edges
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.cause.state import OPTIMIZER_NAME
from xlagraph.cause.updates import formula, updates
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


def tied_weights(case: Case) -> list[Finding]:
    """A weight of one side is two of the other: both are updated, each by itself.

    An average of a weight is updated too, but from the weight.
    """
    found = []
    for forward in (True, False):
        one, two = (case.diff.a, case.diff.b) if forward else (case.diff.b, case.diff.a)
        of_one, of_two = updates(one), updates(two)
        for tied, first, second in _split(case, forward=forward):
            own, others = of_two.get(first, ()), of_two.get(second, ())
            if tied in of_one and own and others and not set(own).intersection(others):
                found.append(_tied_finding(case, tied, first, second, forward=forward))
    return found


def second_input(case: Case) -> list[Finding]:
    """One side takes in a tensor of its own where the other uses one that both have.

    A target beside the input, a memory, a frozen copy of a network: a tensor that this side
    never updates. Of two it is the other one where the first is updated on both sides.
    """
    found = []
    for forward in (True, False):
        one, two = (case.diff.a, case.diff.b) if forward else (case.diff.b, case.diff.a)
        of_one, of_two = updates(one), updates(two)
        claimed = case.claimed_b if forward else case.claimed_a
        split = []
        for tied, first, second in _split(case, forward=forward):
            if second in of_two and tied in of_one:
                first, second = second, first
            if second not in of_two and not claimed.intersection((first, second)):
                split.append((tied, first, second))
        if split:
            found.append(_second_finding(case, split, forward=forward))
    return found


def _split(case: Case, *, forward: bool) -> list[tuple[int, int, int]]:
    """Tensors used where the other side uses one of its own: A's, its partner in B, B's own.

    `forward`: one tensor in A, two in B; otherwise the other way round. Optimizer state that
    is known by name is no such tensor, and neither is a number.
    """
    match = case.diff.match
    one, two = (match.a.module, match.b.module) if forward else (match.b.module, match.a.module)
    to_one, to_two = (match.to_a, match.to_b) if forward else (match.to_b, match.to_a)
    context = case.context_b if forward else case.context_a
    split: dict[int, tuple[int, int, int]] = {}
    for edge in open_edges(case):
        p, q = (edge.p, edge.q) if forward else (edge.q, edge.p)
        if (
            _is_entry_input(one, p)
            and _is_entry_input(two, q)
            and one.shapes[p] == two.shapes[q]
            and to_two[p] >= 0
            and to_one[q] < 0
            and "[]" not in one.shapes[p]
        ):
            names = (context.input_name(two, k) for k in (q, to_two[p]))
            if not any(OPTIMIZER_NAME.search(name) for name in names) and _is_shared(
                one, p, two, (to_two[p], q)
            ):
                split[q] = (p, to_two[p], q)
    return [split[q] for q in sorted(split)]


def _is_shared(one: Module, tensor: int, two: Module, pair: tuple[int, int]) -> bool:
    """Whether one tensor serves for both, not only for another layer's: it has more uses."""
    return _uses(one, tensor) > max(_uses(two, p) for p in pair)


def _uses(module: Module, tensor: int) -> int:
    """How often a tensor is used, in whatever form it is brought first."""
    used, stack = 0, list(module.users[tensor])
    while stack:
        i = stack.pop()
        if module.opcodes[i] in PLUMBING:
            stack += module.users[i]
        else:
            used += 1
    return used


def _is_entry_input(module: Module, i: int) -> bool:
    entry = module.entry_computation
    return entry.start <= i < entry.stop and is_input(module, i)


def _second_finding(case: Case, split: Sequence[tuple[int, int, int]], *, forward: bool) -> Finding:
    two, context = (case.diff.b, case.context_b) if forward else (case.diff.a, case.context_a)
    partners = {second: first for _, first, second in split}
    both = {p for _, *pair in split for p in pair}
    uses = [e for e in open_edges(case) if (e.q if forward else e.p) in both]
    users_a = {e.x for e in uses if e.place != OUTPUT}
    users_b = {e.y for e in uses if e.place != OUTPUT}
    lines = where(two, users_b if forward else users_a)
    side, other = (A, B) if forward else (B, A)
    used = join(dict.fromkeys(parameter_name(two, context, first) for _, first, _ in split))
    new = join(parameter_name(two, context, second) for _, _, second in split)
    cited_one = tuple(sorted({p for p, _, _ in split}))
    cited_two = tuple(sorted(partners))
    number = count(len(split), "tensor")
    rest = f"where {side} uses tensors that it takes in anyway"

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        later = {max(pair): min(pair) for pair in partners.items()}  # operands come first
        (draft_b if forward else draft_a).replace_uses(later)

    return Finding(
        kind="second-input",
        title=f"{other} takes in {number} more ({new}) "
        + (f"beside {used}, where {side} uses one for both" if len(split) == 1 else rest)
        + at(lines),
        evidence=(
            Evidence(
                f"{count(len(uses), 'use')} of {new} or {used} in {other}, "
                f"where {side} has one in place of both",
                cited_one if forward else cited_two,
                cited_two if forward else cited_one,
                lines,
            ),
        ),
        fix="If both are meant to be one tensor, use that one in every step. If not (a target "
        "beside the input, a frozen copy of a network), let them be two from the first step on: "
        "a copy made before the loop (clone(), then torch_xla.sync()).",
        proof=f"{other} was given the tensor that {side} uses in place of the second one",
        a=frozenset(users_a if forward else users_a | both),
        b=frozenset(users_b | both if forward else users_b),
        undo=undo,
    )


def _tied_finding(case: Case, tied: int, first: int, second: int, *, forward: bool) -> Finding:
    diff = case.diff
    one, two = (diff.a, diff.b) if forward else (diff.b, diff.a)
    context = case.context_b if forward else case.context_a
    gone_one = _updates(one, [tied])
    gone_two = _updates(two, [first, second])
    own_one = exclusive_slice(one, gone_one)
    own_two = exclusive_slice(two, gone_two) | {second}
    users = {e.x if forward else e.y for e in open_edges(case) if second in (e.p, e.q)}
    users_two = {e.y if forward else e.x for e in open_edges(case) if second in (e.p, e.q)}
    lines = where(two, users_two)
    side, other = (A, B) if forward else (B, A)
    names = f"{parameter_name(two, context, first)} and {parameter_name(two, context, second)}"

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        (draft_b if forward else draft_a).replace_uses({max(first, second): min(first, second)})

    cited_one, cited_two = (tied,), (first, second)
    return Finding(
        kind="tied-weights",
        title=f"weights are tied in {side} and not in {other}: {names} are one tensor there"
        f"{at(lines)}",
        evidence=(
            Evidence(
                f"{side} takes in one tensor where {other} takes in {names}",
                cited_one if forward else cited_two,
                cited_two if forward else cited_one,
                lines,
            ),
        ),
        fix="Tie the weights again after loading or copying the model (assign one Parameter to "
        "both), before the optimizer is made.",
        proof=f"in {other} one tensor was used in place of both, and their updates set aside",
        a=frozenset((own_one if forward else own_two) | (users if forward else users_two)),
        b=frozenset((own_two if forward else own_one) | (users_two if forward else users)),
        dropped_a=frozenset(gone_one if forward else gone_two),
        dropped_b=frozenset(gone_two if forward else gone_one),
        undo=undo,
    )


def _updates(module: Module, parameters: list[int]) -> set[int]:
    """Outputs that are new values of these parameters, or state that those are computed from."""
    values, of_all = output_values(module), updates(module)
    found = set[int]()
    for p in parameters:
        used = set[int]().union(*(formula(module, values[k]) for k in of_all.get(p, ())))
        shape = module.shapes[p]
        found |= {k for k, v in enumerate(values) if v in used and module.shapes[v] == shape}
    return found
