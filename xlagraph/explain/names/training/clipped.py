"""Gradients that both sides clip, one of them before something is done with them, the other behind.

They are added up, scaled, or taken in by Adam, whose update the other side clips.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.slices import made_of
from xlagraph.cause.sources import where
from xlagraph.cause.verdict import NOWHERE, Place
from xlagraph.explain.names.merged import BRANCHES, has_code, merged
from xlagraph.facts.training.cotangents import affected
from xlagraph.facts.training.gradients import through_forms
from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.formulas import is_weight
from xlagraph.facts.values.results import forward_pass
from xlagraph.facts.values.scalars import unspread
from xlagraph.message import EMPTY, A, B, say
from xlagraph.rules.shapes.sizes import PYTHON_SIZE
from xlagraph.rules.training.clipping import CLIPPING
from xlagraph.rules.training.late_clipping import FIX as LATE_FIX
from xlagraph.rules.training.late_clipping import SHORT_FIX as LATE_SHORT_FIX
from xlagraph.rules.training.late_clipping import clipped_late

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

FIX = say(
    "Clip once, where the gradients of all micro-batches are added up and averaged: what is "
    "clipped before that is clipped by the norm of each part."
)
FEWER_FIX = say(
    "The norm is of the parameters that are handed to clip_grad_norm_, and no others are clipped: "
    "hand it the same ones (model.parameters()) in both versions, and in every step."
)
FEWER_SHORT_FIX = say("Clip the gradients of the same parameters in both.")
PLAIN = "x * x"
SCALED = re.compile(r"x ([*/]) (\w+) \* \(x \1 \2\)")
"""Squares of what is scaled, by a number."""
SCALED_FIX = say(
    "A norm of gradients that are scaled is another one, and so is what is clipped by it: scale "
    "them first, as by the number of micro-batches, and clip what is left."
)
SCALED_SHORT_FIX = say("Scale gradients first, then clip them.")
UPDATES_FIX = say(
    "Clip gradients before the optimizer takes them in (first in optax.chain; before step()): "
    "behind Adam its moments are of gradients that nothing bounds, and the step is clipped instead."
)
UPDATES_SHORT_FIX = say("Clip before the optimizer in both, or behind it.")
MAX_FACTORS = 12
"""Instructions in which a root is sought, of a value that it may be made of."""
SEVERAL = 3
"""So many tensors at least make one norm."""
SUMMED = frozenset(
    {"add", "bitcast", "concatenate", "convert", "copy", "reduce", "reshape", "sqrt", "broadcast"}
)
"""What stands between squares and the root of all."""
SHORT_FIX = say("Clip at one place: once, behind the sum of all micro-batches.")


def with_clipped(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one two of clipping, each of which says that one side alone clips."""
    clips = [cause for cause in causes if cause.kind is CLIPPING]
    own = [
        (cause.a.intersection(diff.removed), cause.b.intersection(diff.added)) for cause in clips
    ]
    only_a = next((c for c, (a, b) in zip(clips, own, strict=True) if a and not b), None)
    only_b = next((c for c, (a, b) in zip(clips, own, strict=True) if b and not a), None)
    if only_a is None or only_b is None:
        return list(causes)
    inside = _is_inside(diff.a, only_a.a), _is_inside(diff.b, only_b.b)
    main = next(cause for cause in causes if cause in (only_a, only_b))
    short = say("gradients are clipped by their norm at another place")
    if inside[0] != inside[1]:
        one, other = (A, B) if inside[0] else (B, A)
        short = say(
            *("gradients are clipped in each turn of a loop in ", one),
            *(", and once, behind it, in ", other),
        )
    return merged(
        causes, main, [only_a, only_b], title=short, short=short, fix=FIX, short_fix=SHORT_FIX
    )


def with_lone_clip(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; with another of clipping, which one side alone does within a larger piece.

    As where weights are new whose gradients are a part of the norm.
    """
    if not causes or not causes[0].proved or any(one.kind is CLIPPING for one in causes):
        return list(causes)
    norms = (diff.a, _norms(diff.a)), (diff.b, _norms(diff.b))
    for side, (module, own), (_, others) in ((A, *norms), (B, *norms[::-1])):
        if others or len(own[0] if own else ()) < SEVERAL:
            continue
        for piece in causes:
            claimed = piece.a if side is A else piece.b
            roots = [i for i in _norm_roots(module) if i in claimed]
            is_asked = piece is causes[0] or (piece.kind in BRANCHES and piece.proved)
            clips = sorted(i for i in affected(module, roots, ()) if i in claimed) if roots else []
            # a norm that scales nothing is one for a log
            if is_asked and not all(module.shapes[i].endswith("[]") for i in clips):
                return _as_lone_clip(diff, causes, piece, side, roots, clips)
    return list(causes)


def _as_lone_clip(
    diff: Diff,
    causes: Sequence[Cause],
    piece: Cause,
    side: Side,
    roots: Sequence[int],
    clips: Sequence[int],
) -> list[Cause]:
    module, claimed = (diff.a, piece.a) if side is A else (diff.b, piece.b)
    lines = where(module, roots)
    place = Place(line=lines[0]) if lines else NOWHERE
    short = say("gradients are clipped by their norm in ", side, " only")
    in_a, in_b = (tuple(clips), ()) if side is A else ((), tuple(clips))
    cited = Evidence(short, in_a, in_b, lines)
    clip = replace(
        piece, kind=CLIPPING, title=short, short=short, fix=say(CLIPPING.fix), place=place,
        short_fix=EMPTY, evidence=(cited,), share=len(clips) / max(diff.differing, 1),
        a=frozenset(in_a), b=frozenset(in_b),
    )  # fmt: skip
    if piece.kind in BRANCHES and _is_all_of_norm(module, claimed, roots, clips):
        whole = replace(clip, a=piece.a, b=piece.b, share=piece.share)
        pieces = [c for c in causes if c is not piece and c.proved and c.kind in BRANCHES]
        given = [c for c in pieces if _gives_number(diff, c, side)]
        told = [whole if c is piece else c for c in causes]
        return merged(told, whole, [whole, *given])
    return [*causes, clip]


def _gives_number(diff: Diff, cause: Cause, side: Side) -> bool:
    """Whether a cause is no more than a number that the other side gives in place of a norm."""
    module, place = (diff.b, 1) if side is A else (diff.a, 0)
    cited = [i for one in cause.evidence for i in (one.a, one.b)[place]]
    is_number = all(
        module.opcodes[i] == "constant" and module.shapes[i].endswith("[]") for i in cited
    )
    return not (cause.a or cause.b) and bool(cited) and is_number


def _is_all_of_norm(
    module: Module, piece: Collection[int], roots: Sequence[int], clips: Collection[int]
) -> bool:
    """Whether a piece has no arrays but what a norm is made of, and what is clipped by it."""
    entry = module.entry_computation
    own = {i for i in piece if entry.start <= i < entry.stop}
    arrays = {i for i in own if not module.shapes[i].endswith("[]")}
    return arrays <= {*clips}.union(*(made_of(module, root) for root in roots))


def with_scaled_norm(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of gradients that one side scales before their norm is taken.

    The other side scales them behind that, which is told as another product in their updates, or
    as a piece with all that differs.
    """
    first = next(iter(causes), None)
    if first is not None and first.kind in BRANCHES and first.proved and not has_code(first):
        side = A if _is_scaled(diff.a, diff.b, diff.match.to_b) else None
        if side or _is_scaled(diff.b, diff.a, diff.match.to_a):
            return _as_scaled(causes, first, [], side or B)
    for piece in causes:
        told = piece.in_short.code
        behind = [c for c in causes if c is not piece and c.kind in BRANCHES and c.proved]
        if len(told) != 2 or not piece.proved or PLAIN not in told or not behind:
            continue
        (scaled,) = [text for text in told if text != PLAIN] or [PLAIN]
        if SCALED.fullmatch(scaled):
            return _as_scaled(causes, piece, behind[:1], A if told[0] == scaled else B)
    return list(causes)


def with_fewer_clipped(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of a norm of fewer gradients on one side: the others are unclipped.

    That is a shorter list that is joined, and what scales the others on one side alone.
    """
    parts = [c for c in causes if c.proved and (c.kind is CLIPPING or _joins(diff, c))]
    if {cause.kind for cause in parts} != {CLIPPING, PYTHON_SIZE}:
        return list(causes)
    sides = ((A, diff.a, diff.b, diff.match.to_a), (B, diff.b, diff.a, diff.match.to_b))
    for side, more, fewer, partners in sides:
        many = [{*values} for values in _norms(more)]
        for values in _norms(fewer):
            taken = {partners[i] for i in values}
            if any(taken < one for one in many):
                first = min(causes.index(cause) for cause in parts)
                short = say(
                    *("gradients of fewer tensors are clipped by their norm in ", side.other),
                    *(" than in ", side),
                )
                told = {"title": short, "short": short, "fix": FEWER_FIX}
                told["short_fix"] = FEWER_SHORT_FIX
                return merged(causes, causes[first], parts, kind=CLIPPING, **told)
    return list(causes)


def _joins(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of a list of another length that is joined."""
    is_joined = any(diff.a.opcodes[i] == "concatenate" for i in cause.a)
    return cause.kind is PYTHON_SIZE and is_joined


def _as_scaled(
    causes: Sequence[Cause], piece: Cause, behind: Sequence[Cause], side: Side
) -> list[Cause]:
    short = say(
        *("gradients are scaled before they are clipped by their norm in ", side),
        *(", and behind that in ", side.other),
    )
    first = [piece, *(cause for cause in causes if cause is not piece)]
    told = {"title": short, "short": short, "fix": SCALED_FIX, "short_fix": SCALED_SHORT_FIX}
    return merged(first, piece, [piece, *behind], **told)


def with_clipped_updates(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as clipping what is wired so that one side clips Adam's update by its norm.

    The other side clips the gradients, before Adam takes them in.
    """
    first, *_ = causes or (None,)
    is_piece = first is not None and first.kind in BRANCHES and first.proved
    unproved = [c for c in causes if not c.proved]
    suspected = [c for c in unproved if c.kind is CLIPPING]
    suspected += [c for c in unproved if c.kind in BRANCHES and _has_squares(diff, c)]
    clips = first if is_piece else next(iter(suspected), None)
    behind = (_clips_updates(diff.a), _clips_updates(diff.b)) if clips else (None, None)
    if clips is None or None in behind or behind[0] == behind[1]:
        return list(causes)
    side = B if behind[0] else A
    short = say(
        *("gradients are clipped by their norm before Adam takes them in ", side),
        *("; ", side.other, " clips what Adam makes of them"),
    )
    told = replace(clips, title=short, short=short, fix=UPDATES_FIX, short_fix=UPDATES_SHORT_FIX)
    parts = [c for c in causes if c is not clips and not is_piece and _is_there(c, clips)]
    return merged([told if c is clips else c for c in causes], told, [told, *parts])


def with_late_clip(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, and one of gradients that are clipped behind the step of the optimizer.

    Both sides take their norm, and what renews weights depends on it on one side alone.
    """
    known = any("clipped by their norm" in str(cause.in_short) for cause in causes)
    norms = [_norm_roots(module) for module in (diff.a, diff.b)]
    if known or not causes or not all(norms):
        return list(causes)
    used = [_is_used(module, roots) for module, roots in zip((diff.a, diff.b), norms, strict=True)]
    if used[0] == used[1]:
        return list(causes)
    short = clipped_late(A if used[0] else B)
    words = {"title": short, "short": short, "fix": LATE_FIX, "short_fix": LATE_SHORT_FIX}
    ways = forward_pass(diff)
    behind = [
        cause
        for cause in causes
        if cause.proved and cause.kind in BRANCHES and not _is_forward(cause, ways)
    ]
    if behind:
        return merged(causes, behind[0], behind, kind=CLIPPING, **words)
    claimed = {i for cause in causes for i in cause.a}, {i for cause in causes for i in cause.b}
    own_a = frozenset(diff.differing_in_a - claimed[0]) or causes[0].a
    own_b = frozenset(diff.differing_in_b - claimed[1]) or causes[0].b
    told = replace(causes[-1], kind=CLIPPING, title=short, short=short, fix=LATE_FIX)
    told = replace(told, short_fix=LATE_SHORT_FIX, evidence=(Evidence(short),), place=Place())
    return [*causes, replace(told, proved=False, a=own_a, b=own_b, share=0.0)]


def _is_forward(cause: Cause, ways: tuple[bytearray, bytearray]) -> bool:
    """Whether a loss is made of something that a cause is of."""
    return any(ways[0][i] for i in cause.a) or any(ways[1][i] for i in cause.b)


def _norm_roots(module: Module) -> list[int]:
    """The roots that are norms over several tensors."""
    entry = module.entry_computation
    numbers = (i for i in range(entry.start, entry.stop) if bare_shape(module, i).endswith("[]"))
    roots = [i for i in numbers if module.opcodes[i] == "sqrt"]
    return [i for i in roots if len(_squared(module, i)) >= SEVERAL]


def _is_used(module: Module, roots: Sequence[int]) -> bool:
    """Whether all new values of most weights depend on one of these norms.

    Gradients may be given out as well, clipped behind the step. An average of weights that is
    moved before the step is a new value of its own.
    """
    behind = affected(module, roots, ())
    every = renewed(module)
    averages = {ks[0] for q, ks in every.items() if len(ks) == 1 and not is_weight(module, q)}
    weights = [{*every[p]} - averages for p in every if is_weight(module, p)]
    moved = [places for places in weights if places]
    used = sum(behind.issuperset(module.outputs[k] for k in places) for places in moved)
    return 2 * used > len(moved)


def _has_squares(diff: Diff, cause: Cause) -> bool:
    """Whether a piece has squares that a norm over several tensors is of."""
    sides = (diff.a, cause.a), (diff.b, cause.b)
    return any(
        module.opcodes[user] == "multiply" and {*module.operands[user]} == {value}
        for module, own in sides
        for values in _norms(module)
        for value in values
        for user in own.intersection(module.users[value])
    )


def _is_there(cause: Cause, clips: Cause) -> bool:
    """Whether a piece that is not proved stands in the line, of either version, that clips."""
    lines = [one.place.line.line if one.place.line else 0 for one in (cause, clips)]
    return cause.kind in BRANCHES and not cause.proved and lines[0] == lines[1] > 0


def _is_scaled(module: Module, other: Module, partners: Sequence[int]) -> bool:
    """Whether a norm is of values scaled by a number of which the other side has one unscaled."""
    theirs = [{*values} for values in _norms(other)]
    for values in _norms(module):
        unscaled = {partners[i] for value in values for i in _unscaled(module, value)}
        if any(len(unscaled & those) >= SEVERAL == min(len(those), SEVERAL) for those in theirs):
            return True
    return False


def _unscaled(module: Module, value: int) -> list[int]:
    """What is scaled by a number, if a value is."""
    if module.opcodes[value] not in ("multiply", "divide"):
        return []
    scaled, number = module.operands[value]
    is_number = bare_shape(module, unspread(module, number)).endswith("[]")
    return [through_forms(module, scaled)] if is_number else []


def _norms(module: Module) -> list[list[int]]:
    """For each norm over several tensors what its squares are of."""
    return [_squared(module, i) for i in _norm_roots(module)]


def _clips_updates(module: Module) -> bool | None:
    """Whether what a norm over several tensors is of was divided by a root; None without a norm.

    One of the gradients may stand beside that, to be logged.
    """
    norms = _norms(module)
    if not norms:
        return None
    return any(2 * sum(_is_update(module, i) for i in some) > len(some) for some in norms)


def _squared(module: Module, root: int) -> list[int]:
    """The tensors of which a root is taken of the sum of all squares."""
    front, values = [*module.operands[root]], list[int]()
    for i in front:  # grows while it is read
        operands = module.operands[i]
        is_square = module.opcodes[i] == "power" or operands[1:] == operands[:1]
        if module.opcodes[i] in ("multiply", "power") and is_square:
            value = through_forms(module, operands[0])
            if module.opcodes[value] == "concatenate":  # torch's norm of all tensors' norms
                front.append(value)
                continue
            if not bare_shape(module, i).endswith("[]"):
                values.append(value)
                continue
        elif module.opcodes[i] not in SUMMED:
            continue
        front += [o for o in operands if o not in front]
    return values


def _is_update(module: Module, value: int) -> bool:
    """Whether a value is divided by a root, or by one and an epsilon; scaled, and decayed, then."""
    front = [value]
    for i in front:  # grows while it is read
        if len(front) > MAX_FACTORS:
            return False
        operands = [through_forms(module, o) for o in module.operands[i]]
        match module.opcodes[i]:
            case "divide":
                parts = [
                    operands[1],
                    *(through_forms(module, o) for o in module.operands[operands[1]]),
                ]
                if any(module.opcodes[part] == "sqrt" for part in parts):
                    return True
            case "multiply":
                numbers = [bare_shape(module, unspread(module, o)).endswith("[]") for o in operands]
                if any(numbers):
                    front += [o for o, is_one in zip(operands, numbers, strict=True) if not is_one]
            case "add" | "negate":
                front += operands
            case _:
                pass
    return False


def _is_inside(module: Module, own: Collection[int]) -> bool:
    """Whether most of these instructions stand in what the entry calls, as in a loop's body."""
    entry = module.entry_computation
    within = sum(entry.start <= i < entry.stop for i in own)
    return 2 * within < len(own)
