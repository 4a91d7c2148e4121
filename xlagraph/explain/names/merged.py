"""Several causes of a pair that are one edit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xlagraph.message import join
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause

BRANCHES = (EXTRA_SUBGRAPH, REPLACED_SUBGRAPH)
"""What control flow in Python makes, or somebody who edits the program."""


def merged(
    causes: Sequence[Cause], main: Cause, parts: Sequence[Cause], **told: Any
) -> list[Cause]:
    """The causes, some of them as one in the place of the main one.

    `parts`: these, the main one among them, in the order of what they cite; `told`: the fields
    that say what they are.
    """
    whole = replace(
        main,
        evidence=tuple(one for cause in parts for one in cause.evidence),
        proof=join(dict.fromkeys(cause.proof for cause in parts), len(parts), "; "),
        share=min(1.0, sum(cause.share for cause in parts)),
        a=frozenset[int]().union(*(cause.a for cause in parts)),
        b=frozenset[int]().union(*(cause.b for cause in parts)),
        **told,
    )
    return [
        whole if cause is main else cause for cause in causes if cause is main or cause not in parts
    ]
