"""What sentences call the two modules: A and B, or the letters of a run's graphs.

Detectors write the placeholders `A` and `B`, which no dump contains; they are filled once, when
the explanation is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause, Explanation

A, B = "\ue000", "\ue001"
"""Of Unicode's private use: never in the text of a module."""
NAMES = ("A", "B")


def with_names(explanation: Explanation, names: tuple[str, str]) -> Explanation:
    """The explanation with its modules called by name in every sentence."""
    table = dict(zip((ord(A), ord(B)), names, strict=True))

    def named(cause: Cause) -> Cause:
        return replace(
            cause,
            title=cause.title.translate(table),
            evidence=tuple(replace(e, text=e.text.translate(table)) for e in cause.evidence),
            proof=cause.proof.translate(table),
        )

    return replace(
        explanation,
        verdict=explanation.verdict.translate(table),
        causes=tuple(named(cause) for cause in explanation.causes),
    )
