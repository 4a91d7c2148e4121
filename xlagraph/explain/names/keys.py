"""Causes that are a random key: one side splits it, the other draws with the same key again.

JAX calls what splits a key ``_threefry_split``, and a key of another kind is split by an operation
that its ``op_name`` calls ``random_split``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import line_of
from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.message import A, B, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

SPLITS = ("_threefry_split", "random_split")
DRAWS = ("random_bits", "_bernoulli", "_normal", "_uniform", "_gumbel", "_truncated_normal")
"""What JAX calls that draws with a key."""
FIX = say(
    "Split the key wherever numbers are drawn (key, sub = jax.random.split(key)) and hand on the "
    "new one: with one key all draws give the same numbers. Keep one of the two versions."
)
SHORT_FIX = say("Split the key before each draw, and hand on the new one (jax.random.split).")


def with_split_keys(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, as one those of a key that one side alone splits.

    With it goes what a formula tells as drawn with the key.
    """
    pieces = [cause for cause in causes if cause.kind in BRANCHES and cause.proved]
    for cause in pieces:
        own = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
        splits = [*_called(diff.a, own[0], SPLITS)], [*_called(diff.b, own[1], SPLITS)]
        if bool(splits[0]) == bool(splits[1]):
            continue
        side, module, split = (A, diff.a, splits[0]) if splits[0] else (B, diff.b, splits[1])
        is_turned = module.computation_of(split[0]).index != module.entry_computation.index
        each = " in each turn of a loop" if is_turned else ""
        short = say(
            f"a random key is split{each} in ",
            *(side, ", and used again as it is in ", side.other),
        )
        line = line_of(module, split[0])
        return merged(
            causes,
            cause,
            [cause, *(one for one in pieces if one is not cause and _draws(one))],
            [Evidence(say("what splits the key"), sources=(line,) if line else ())],
            title=short.sentence,
            short=short,
            fix=FIX,
            short_fix=SHORT_FIX,
            place=cause.place.at(line),
        )
    return list(causes)


def _called(module: Module, own: Collection[int], names: Sequence[str]) -> Iterator[int]:
    """What of a piece calls functions of such names, or is such an operation."""
    for i in sorted(own):
        called = [module.computations[c].name for c in module.callees.get(i, ())]
        metadata = module.metadata(i)
        if metadata is not None:
            called.append(metadata.op_name)
        if any(name in one for one in called for name in names):
            yield i


def _draws(cause: Cause) -> bool:
    """Whether a formula tells a cause as what draws with a key."""
    return any(name in text for text in cause.in_short.code for name in DRAWS)
