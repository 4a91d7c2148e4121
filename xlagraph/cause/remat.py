"""Detector for values that one side computes again instead of keeping them (checkpointing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.repeated import merge_expressions
from xlagraph.cause.sides import A, B

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


def rematerialized(case: Case) -> list[Finding]:
    """A barrier on one side, behind which values are computed a second time.

    ``jax.checkpoint`` and ``torch_xla.utils.checkpoint`` put an ``opt-barrier`` before the second
    computation, so that XLA does not merge it with the first one.
    """
    return [f for forward in (True, False) for f in _barriers(case, forward=forward)]


def _barriers(case: Case, *, forward: bool) -> list[Finding]:
    module = case.diff.a if forward else case.diff.b
    lone = set(case.diff.removed if forward else case.diff.added)
    lone -= case.claimed_a if forward else case.claimed_b
    barriers = [i for i in sorted(lone) if module.opcodes[i] == "opt-barrier"]
    if not barriers:
        return []
    piece = _behind(module, barriers, lone)
    changed = [
        (x, y)
        for x, y, fields in case.open_changes()
        if fields == ("operands",) and piece.intersection(module.operands[x if forward else y])
    ]
    side = A if forward else B
    again = sorted(i for i in piece if module.opcodes[i] not in _PLUMBING)
    lines = where(module, again) or where(module, barriers)
    cited: tuple[int, ...] = tuple(again)[:50]
    nothing: tuple[int, ...] = ()

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        _open(draft_a if forward else draft_b, barriers)
        merge_expressions(draft_a)
        merge_expressions(draft_b)

    return [
        Finding(
            kind="rematerialization",
            title=f"{side} computes {count(len(again), 'value')} again instead of keeping "
            f"{'it' if len(again) == 1 else 'them'}{at(lines)}",
            evidence=(
                Evidence(
                    f"{count(len(barriers), 'opt-barrier')} in {side} only, and behind "
                    f"{'it' if len(barriers) == 1 else 'them'} instructions that stand there "
                    "before it too",
                    cited if forward else nothing,
                    nothing if forward else cited,
                    lines,
                ),
            ),
            fix="Use checkpointing (jax.checkpoint, torch_xla.utils.checkpoint) in every step or "
            "in none.",
            proof=f"the barriers of {side} were opened, and equal expressions merged in both",
            a=frozenset((piece if forward else set()) | {x for x, _ in changed}),
            b=frozenset((set() if forward else piece) | {y for _, y in changed}),
            undo=undo,
        )
    ]


_PLUMBING = frozenset({"opt-barrier", "tuple", "get-tuple-element"})


def _behind(module: Module, barriers: Iterable[int], lone: set[int]) -> set[int]:
    """The barriers, what they take in and what follows them on this side only."""
    found: set[int] = set()
    stack = list(barriers)
    for i in stack:  # grows while it is read
        if i not in found:
            found.add(i)
            stack += [u for u in module.users[i] if u in lone]
    for i in tuple(found):
        found.update(o for o in module.operands[i] if o in lone and module.opcodes[o] == "tuple")
    return found


def _open(draft: Draft, barriers: Iterable[int]) -> None:
    """Lets the users of what comes out of a barrier use what goes in."""
    partners: dict[int, int] = {}
    for barrier in barriers:
        (given,) = draft.operands[barrier]
        if draft.opcodes[given] != "tuple":
            partners[barrier] = given
            continue
        for u in draft.module.users[barrier]:
            if draft.opcodes[u] == "get-tuple-element":
                index = int(draft.attributes[u].get("index") or 0)
                partners[u] = draft.operands[given][index]
    draft.replace_uses(partners)
