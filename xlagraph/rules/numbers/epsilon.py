"""The eps of a normalisation or an optimizer: constants, and an option of XLA's batch norm."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import differing_keys
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.training.epsilons import NORMALISATION, epsilon_of
from xlagraph.message import A, B, Change, Code, count, say
from xlagraph.rules.numbers.constant_value import CHANGED, CONSTANT_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors

OPTION = "epsilon"
"""What XLA calls it where batch norm is one operation."""
FIX = {
    True: say(
        "The eps of a normalisation (nn.LayerNorm, nn.BatchNorm2d, RMSNorm) is a constant of the "
        "graph, as an option of the layer: give each layer the same ",
        Code("eps"),
        " in every step, and in every version that is to compute the same.",
    ),
    False: say(
        "The eps that an optimizer (Adam, RMSprop, Adagrad) adds before it divides by a root is a "
        "constant of the graph: give it the same ",
        Code("eps"),
        " in every step, and in every version that is to compute the same.",
    ),
}
"""By whether it is a normalisation's."""
SHORT_FIX = {
    True: say("Give the layer the same ", Code("eps"), " everywhere."),
    False: say("Give the optimizer the same ", Code("eps"), " everywhere."),
}


def find(case: Case) -> list[Finding]:
    """Numbers that are an eps on both sides; one finding for each two values of one kind."""
    groups: dict[tuple[str, float, float], list[tuple[int, int]]] = defaultdict(list)
    texts: dict[tuple[str, float, float], Change] = {}
    for x, y, old, new, of in _pairs(case):
        groups[of, float(old), float(new)].append((x, y))
        texts.setdefault((of, float(old), float(new)), Change(old, new, "became"))
    return [
        _finding(case, key[0], texts[key], sorted(pairs)) for key, pairs in sorted(groups.items())
    ]


def _pairs(case: Case) -> list[tuple[int, int, str, str, str]]:
    """Pairs that have another eps, with both values, and what it belongs to."""
    a, b = case.diff.a, case.diff.b
    found = []
    for x, y in case.changed_alone("payload"):
        of = epsilon_of(a, x) if a.opcodes[x] == "constant" else ""
        if of and epsilon_of(b, y) == of:
            found.append((x, y, a.payloads[x], b.payloads[y], of))
    for x, y in case.changed_alone("attributes"):
        old, new = a.attributes[x], b.attributes[y]
        if differing_keys(old, new) == {OPTION} and a.opcodes[x].startswith("batch-norm"):
            found.append((x, y, old.get(OPTION) or "0", new.get(OPTION) or "0", NORMALISATION))
    return found


def _finding(case: Case, of: str, change: Change, pairs: Sequence[tuple[int, int]]) -> Finding:
    b = case.diff.b
    lines = where(b, [y for _, y in pairs]) or where(b, [u for _, y in pairs for u in b.users[y]])
    is_layer = of == NORMALISATION

    def undo(edit: Editors) -> None:
        for x, y in pairs:
            if b.opcodes[y] == "constant":
                edit.a.payloads[x] = b.payloads[y]
            else:
                edit.a.attributes[x] = b.attributes[y]

    return Finding(
        kind=CONSTANT_VALUE,
        title=say(
            f"the eps of {of} is baked into the graph: ",
            change,
            f" at {count(len(pairs), 'place')}",
            at(lines),
        ),
        evidence=(
            Evidence(
                say("it is added to a variance, or to its root, that values are divided by"),
                tuple(x for x, _ in pairs),
                tuple(y for _, y in pairs),
                lines,
            ),
        ),
        short=say(f"the eps of {of}", CHANGED),
        fix=FIX[is_layer],
        short_fix=SHORT_FIX[is_layer],
        proof=say(A, "'s eps was set to that of ", B),
        a=frozenset(x for x, _ in pairs),
        b=frozenset(y for _, y in pairs),
        undo=undo,
    )


RULE = Rule(
    name="epsilon",
    kinds=(),
    find=find,
    after=("batch-norm-momentum",),
    before=("attributes", "written-index"),
)
