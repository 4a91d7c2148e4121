"""Explanations call the two modules A and B; over a run they go by their graphs' letters."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import sentence

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause, Explanation

_SIDE = re.compile(r"(?<![\w.'\"/%-])[AB](?!\w|[./-]\w)")


def named_sides(explanation: Explanation, a: str, b: str) -> Explanation:
    """The explanation with its modules called `a` and `b` in every sentence."""

    def text(raw: str) -> str:
        return _SIDE.sub(lambda found: a if found[0] == "A" else b, raw)

    def named(cause: Cause) -> Cause:
        return replace(
            cause,
            title=text(cause.title),
            evidence=tuple(replace(e, text=text(e.text)) for e in cause.evidence),
            proof=text(cause.proof),
        )

    verdict = explanation.verdict
    for cause in explanation.causes:
        title = sentence(cause.title)
        verdict = verdict.replace(title, sentence(text(cause.title)))
    return replace(
        explanation,
        verdict=verdict,
        causes=tuple(named(cause) for cause in explanation.causes),
    )
