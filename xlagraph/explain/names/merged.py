"""Several causes of a pair that are one edit."""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from xlagraph.facts.shapes.products import values
from xlagraph.facts.values.terms import COMMUTATIVE
from xlagraph.message import Change, Code, join
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.cause.model import Cause, Evidence
    from xlagraph.diff import Diff
    from xlagraph.message import Part

EXACT = 1e-5
"""How far the quotient of two numbers may be from the number of elements, as texts round them."""
SWAPPED = COMMUTATIVE | {"maximum", "minimum"}
"""What gives the same of two values in either order."""
BRANCHES = (EXTRA_SUBGRAPH, REPLACED_SUBGRAPH)
"""What control flow in Python makes, or somebody who edits the program."""


def merged(
    causes: Sequence[Cause],
    main: Cause,
    parts: Sequence[Cause],
    cited: Sequence[Evidence] = (),
    /,
    **told: Any,
) -> list[Cause]:
    """The causes, some of them as one in the place of the main one.

    `parts`: these, the main one among them, in the order of what they cite; `cited`: what tells it
    before that; `told`: the fields that say what they are.
    """
    whole = replace(
        main,
        evidence=(*cited, *(one for cause in parts for one in cause.evidence)),
        proof=join(dict.fromkeys(cause.proof for cause in parts), len(parts), "; "),
        share=min(1.0, sum(cause.share for cause in parts)),
        a=frozenset[int]().union(*(cause.a for cause in parts)),
        b=frozenset[int]().union(*(cause.b for cause in parts)),
        **told,
    )
    return [
        whole if cause is main else cause for cause in causes if cause is main or cause not in parts
    ]


def pairs_of(diff: Diff, cause: Cause) -> Iterator[tuple[int, int]]:
    """What a cause is of on both sides, A's instructions with their partners, in A's order."""
    return ((x, y) for x in sorted(cause.a) if (y := diff.match.to_b[x]) in cause.b)


def is_order(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of the order in which terms are added up, or of two that may be swapped.

    Values that are joined in another order are others.
    """
    pairs = [(diff.a, i) for i in cause.a] + [(diff.b, i) for i in cause.b]
    is_swap = all(module.opcodes[i] in SWAPPED for module, i in pairs)
    is_one = cause.kind is REORDERED_SUM or (cause.kind is REORDERED_OPERANDS and is_swap)
    return is_one and cause.proved


def formula_of(cause: Cause) -> Iterator[Part]:
    """The short words of a cause from the first formula on."""
    return dropwhile(lambda part: not isinstance(part, Code), cause.short.parts)


def has_code(cause: Cause) -> bool:
    """Whether what is said in short of a cause has a formula, or a name of the program."""
    return bool(cause.in_short.code)


def numbers_of(cause: Cause) -> tuple[float, float] | None:
    """The one number of the text that a cause is of, as it was and as it is; neither is 0."""
    changes = [part for part in cause.title.parts if isinstance(part, Change)]
    if cause.kind is not CONSTANT_VALUE or len(changes) != 1 or not all(values(changes[0])):
        return None
    return values(changes[0])
