"""Values that one side computes again instead of keeping them (checkpointing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.calls.called_results import take_results_apart
from xlagraph.facts.values.expressions import merge_both
from xlagraph.message import count, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors, ModuleEditor
    from xlagraph.graph import Module

REMATERIALIZATION = Kind(
    id="rematerialization",
    title="Values are computed again instead of being kept",
    section=Section.PIECES,
    meaning="Checkpointing computes activations a second time during backward. It puts an "
    "opt-barrier before the second computation, so that XLA does not merge it with the first. With "
    "checkpointing in some steps only, the graph changes.",
    before="""\
for step, (x, y) in enumerate(loader):
    x = x.clone().requires_grad_()
    keep = step % 4 != 3
    out = model(x) if keep else checkpoint(model, x, use_reentrant=True)
    update(loss_fn(out, y))
""",
    after="""\
for x, y in loader:
    x = x.clone().requires_grad_()
    update(loss_fn(checkpoint(model, x, use_reentrant=True), y))
""",
    evidence="The barriers of one side, and what stands behind them a second time.",
    fix="Use checkpointing (jax.checkpoint, torch_xla.utils.checkpoint) in every step or in none.",
    proof="The barriers are opened, and equal expressions merged in both modules, results of calls "
    "among them, whatever else the called function gives back.",
    examples=("remat", "checkpoint_toggle", "block_computed_again"),
    short_fix="Use checkpointing in every step or in none.",
)
_PLUMBING = frozenset({"opt-barrier", "tuple", "get-tuple-element"})


def find(case: Case) -> list[Finding]:
    """A barrier on one side, behind which values are computed a second time."""
    return [f for view in (case.a, case.b) for f in _barriers(case, view)]


def _barriers(case: Case, view: SideView) -> list[Finding]:
    module, side = view.module, view.side
    lone = set(view.open_lone())
    barriers = [i for i in sorted(lone) if module.opcodes[i] == "opt-barrier"]
    if not barriers:
        return []
    piece = _behind(module, barriers, lone)
    changed = [
        pair
        for pair in case.changed_alone("operands")
        if piece.intersection(module.operands[view.mine(pair)])
    ]
    again = sorted(i for i in piece if module.opcodes[i] not in _PLUMBING)
    lines = where(module, again) or where(module, barriers)
    cited_a, cited_b = view.ab(tuple(again)[:50], ())
    piece_a, piece_b = view.ab(piece, set[int]())

    calls = any("call" in one.module.opcodes for one in (case.a, case.b))

    def undo(edit: Editors) -> None:
        _open(edit[side], barriers)
        if calls:
            take_results_apart(edit)
        merge_both(edit)

    return [
        Finding(
            kind=REMATERIALIZATION,
            title=say(
                side,
                f" computes {count(len(again), 'value')} again instead of keeping "
                f"{'it' if len(again) == 1 else 'them'}",
                at(lines),
            ),
            evidence=(
                Evidence(
                    say(
                        f"{count(len(barriers), 'opt-barrier')} in ",
                        side,
                        f" only, and behind {'it' if len(barriers) == 1 else 'them'} instructions "
                        "that stand there before it too",
                    ),
                    cited_a,
                    cited_b,
                    lines,
                ),
            ),
            proof=say(
                "the barriers of ",
                side,
                " were opened, ",
                "the results of calls taken apart, " if calls else "",
                "and equal expressions merged in both",
            ),
            a=frozenset(piece_a | {x for x, _ in changed}),
            b=frozenset(piece_b | {y for _, y in changed}),
            undo=undo,
        )
    ]


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


def _open(editor: ModuleEditor, barriers: Iterable[int]) -> None:
    """Lets the users of what comes out of a barrier use what goes in."""
    partners: dict[int, int] = {}
    for barrier in barriers:
        (given,) = editor.operands[barrier]
        if editor.opcodes[given] != "tuple":
            partners[barrier] = given
            continue
        for u in editor.module.users[barrier]:
            if editor.opcodes[u] == "get-tuple-element":
                index = int(editor.attributes[u].get("index") or 0)
                if index < len(editor.operands[given]):  # else another cause has shortened it
                    partners[u] = editor.operands[given][index]
    editor.replace_uses(partners)


RULE = Rule(
    name="rematerialization",
    kinds=(REMATERIALIZATION,),
    find=find,
    after=("header",),
)
