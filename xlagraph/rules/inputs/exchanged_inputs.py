"""Tensors that both sides know by name and that took each other's places in the computation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, called_at
from xlagraph.diff import diff_modules
from xlagraph.message import A, B, count, join, say
from xlagraph.rules.inputs.other_blocks import brings, exchanged_weights, title, told
from xlagraph.rules.order.output_order import OUTPUT_ORDER, PLACES_FIX
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors, ModuleEditor

MAX_NAMED = 8
SHORT = say("Tensors took each other's places in the computation")


class _Exchange(NamedTuple):
    """How A's computation is found in B if nobody asks which tensor is which."""

    instead: Mapping[int, int]
    """Inputs of B to those that by name stand in their place in A; a permutation."""
    outputs: Sequence[int]
    """For each output of A the position of B's that is computed likewise."""


def find(case: Case) -> list[Finding]:
    """Inputs exchanged for each other, where nothing else differs: layers in another order.

    By name the operations take other operands; without names both modules are equal.
    """
    exchange = _exchange(case) if case.open_changes() else None
    return [_finding(case, exchange)] if exchange else []


def _exchange(case: Case) -> _Exchange | None:
    a, b = case.a, case.b
    known_a, known_b = a.context.names(a.module).inputs, b.context.names(b.module).inputs
    places_b = {tensor: q for q, tensor in known_b.items()}
    if len(places_b) < len(known_b) or not set(places_b).intersection(known_a.values()):
        return None
    plain = diff_modules(a.module, b.module)
    outputs = [slot.b for slot in plain.outputs if slot.a is not None and slot.b is not None]
    if plain.differing or not len(outputs) == len(plain.outputs) == len(a.module.outputs):
        return None
    partners = plain.match.to_b
    instead = {
        partners[p]: places_b[tensor]
        for p, tensor in known_a.items()
        if partners[p] >= 0 and places_b.get(tensor, partners[p]) != partners[p]
    }
    if not instead or set(instead) != set(instead.values()):
        return None
    return _Exchange(instead, outputs)


def _finding(case: Case, exchange: _Exchange) -> Finding:
    b = case.b
    users = {user for q in exchange.instead for user in b.module.users[q] if b.matched.live[user]}
    users.discard(b.module.entry_computation.root)
    lines = called_at(b.module, users)
    named = [
        say(parameter_name(b, q), " in place of ", parameter_name(b, own))
        for q, own in sorted(exchange.instead.items())
    ]
    changed = case.open_changes()
    claimed_b = frozenset({*users, *exchange.instead, *(y for _, y, _ in changed)})

    def undo(edit: Editors) -> None:
        _put_back(edit.b, exchange)

    finding = Finding(
        kind=OUTPUT_ORDER,
        title=say(
            f"{count(len(named), 'tensor')} took each other's places in the computation: ",
            B,
            " uses ",
            join(named, MAX_NAMED),
            at(lines),
        ),
        evidence=(
            Evidence(
                say("inputs known by name, used where ", A, " uses others of the same shapes"),
                tuple(x for x, _, _ in changed),
                tuple(sorted({*exchange.instead, *(y for _, y, _ in changed)})),
                lines,
            ),
        ),
        fix=PLACES_FIX,
        short=SHORT,
        short_fix=say("Use the layers in the same order in every step."),
        proof=say("in ", B, " each of them was put back into its place in ", A),
        a=frozenset(x for x, _, _ in changed),
        b=claimed_b,
        undo=undo,
    )
    return _of_blocks(case, finding)


def _of_blocks(case: Case, finding: Finding) -> Finding:
    """The finding; where each side leaves alone weights that the other uses, as other blocks."""
    weights = exchanged_weights(case)
    if weights is None:
        return finding
    evidence = told(case, *weights)
    return replace(
        finding,
        kind=SKIPPED_BLOCK,
        title=title(evidence),
        evidence=(*evidence, finding.evidence[0]),
        fix=say(),
        short=say(),
        short_fix=say(),
        brings=partial(brings, weights[0]),
    )


def _put_back(editor: ModuleEditor, exchange: _Exchange) -> None:
    """Lets all users take the tensors that A has there, and gives A's order to the outputs.

    Outputs that another cause has set aside have no places any more.
    """
    instead = exchange.instead
    for user in {user for q in instead for user in editor.users(q)}:
        editor.set_operands(user, [instead.get(o, o) for o in editor.operands[user]])
    outputs = editor.outputs
    if len(outputs) == len(exchange.outputs):
        editor.outputs = [instead.get(outputs[k], outputs[k]) for k in exchange.outputs]


RULE = Rule(
    name="exchanged-inputs",
    kinds=(),
    find=find,
    after=("repeated-expression",),
    before=("repeated-pass",),
)
