"""One reason, one finding: what rules report from the same line is put together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Family
from xlagraph.cause.sources import at
from xlagraph.explain.left_out import comes_of_block
from xlagraph.facts.distributed.device_index import index_alone
from xlagraph.facts.shapes.products import is_product, is_typed, ratios, values
from xlagraph.facts.training.updates import formula, in_updates, updates
from xlagraph.facts.values.telling import MOVING, computed_with, in_some_steps, opcodes_in_words
from xlagraph.message import A, B, Change, count, join, say
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.effects.extra_effect import EXTRA_EFFECT
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH, PENALTY_FIX
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE, INPUT_SHAPE
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.rules.training.newly_updated import TRAINED_BY
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED, OPTIMIZER_STATE, SKIPPED_BLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.cause.kinds import Kind
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

GENERAL = frozenset({EXTRA_EFFECT, EXTRA_SUBGRAPH, REPLACED_SUBGRAPH})
"""Kinds of pieces of which several, put together, are named anew."""
CONVERTING = frozenset({"constant", "convert"})
"""What stands between values of two types, numbers included that are written in one of them."""
MAX_NUMBERS = 3
"""Of the numbers that follow from another one and from sizes so many are told."""


def merged(findings: Sequence[Finding], diff: Diff) -> list[Finding]:
    """Findings of one family and with common lines become one, the largest leading.

    What has no line joins a group that it touches.
    """
    groups: dict[Family, list[list[Finding]]] = defaultdict(list)
    single: list[list[Finding]] = []
    for finding in sorted(findings, key=lambda f: (not f.lines, -len(f.a) - len(f.b))):
        family = finding.kind.family
        if family is None:
            single.append([finding])
            continue
        home = _home(groups[family], finding, diff)
        if home is None:
            groups[family].append([finding])
        else:
            home.append(finding)
    for family, known in groups.items():
        groups[family] = _with_placeless(_in_place_of_each_other(known, diff))
    found = [*_of_one_option(single), *(group for family in groups.values() for group in family)]
    found = _with_state(_with_products(found, diff), diff)
    found = _with_conversions(_with_moves(found, diff), diff)
    found = _with_orders(found, diff)
    return [_one(group, diff) for group in _with_consequences(found, diff)]


def _with_placeless(groups: list[list[Finding]]) -> list[list[Finding]]:
    """Groups of a family; pieces without a line belong to those with one, if these are one group.

    They are derivatives as a rule: torch's engine calls no Python. Those that gradients flow to on
    one side alone are told for themselves.
    """
    placed = [g for g in groups if g[0].lines and g[0].kind is not LONGER_BACKWARD]
    follow = [g for g in groups if not g[0].lines and all(f.kind in GENERAL for f in g)]
    if len(placed) != 1 or placed[0][0].kind not in GENERAL:
        return groups
    joined = placed[0] + [f for group in follow for f in group]
    return [joined if group is placed[0] else group for group in groups if group not in follow]


def _in_place_of_each_other(groups: list[list[Finding]], diff: Diff) -> list[list[Finding]]:
    """Groups with a piece of A and a piece of B joined that touch: one stands for the other.

    ``sqrt(n) + eps`` and ``sqrt(n + eps)``: each side has a root that the other has not there.
    """
    kept: list[list[Finding]] = []
    for group in groups:
        home = next((one for one in kept if _stand_for_each_other(one, group, diff)), None)
        if home is None:
            kept.append(group)
        else:
            home += group
    return kept


def _stand_for_each_other(one: Sequence[Finding], other: Sequence[Finding], diff: Diff) -> bool:
    """Whether one group is a piece of A alone, the other one of B alone, and they touch."""
    if not all(f.kind in GENERAL for f in (*one, *other)):
        return False
    if sorted(_sides(group, diff) for group in (one, other)) != [(False, True), (True, False)]:
        return False
    return any(
        f.a & _around(diff.a, g.a.intersection(diff.removed))
        or f.b & _around(diff.b, g.b.intersection(diff.added))
        for mine, theirs in product(one, other)
        for f, g in ((mine, theirs), (theirs, mine))
    )


def _sides(group: Sequence[Finding], diff: Diff) -> tuple[bool, bool]:
    """Whether a group has instructions of A alone, and of B alone."""
    in_a = any(not f.a.isdisjoint(diff.removed) for f in group)
    return in_a, any(not f.b.isdisjoint(diff.added) for f in group)


def _of_one_option(groups: list[list[Finding]]) -> list[list[Finding]]:
    """Groups with options and constants joined that went from one number to one other.

    A layer's option stands in its forward operation, in its derivative and in constants beside,
    and so does a number that a function is given.
    """
    homes: dict[Change, list[list[Finding]]] = defaultdict(list)
    joined: set[int] = set()
    options = [group for group in groups if group[0].kind in (ATTRIBUTE, CONSTANT_VALUE)]
    for group in sorted(options, key=lambda group: _from_option(group[0])):
        (finding,) = group
        changed = [Change(*p[:2]) for p in finding.title.parts if isinstance(p, Change)]
        known = homes[changed[0]] if len(changed) == 1 else []
        home = next((one for one in known if _forward(finding) <= _forward(one[0])), None)
        if home is not None:
            home.append(finding)
            joined.add(id(group))
        elif finding.lines:
            known.append(group)
    return [group for group in groups if id(group) not in joined]


def _from_option(finding: Finding) -> tuple[bool, bool]:
    """The order in which others join them: options first, forward before its derivative."""
    return finding.kind is not ATTRIBUTE, any(line.backward_of for line in finding.lines)


def _with_moves(groups: list[list[Finding]], diff: Diff) -> list[list[Finding]]:
    """Groups with pieces taken into that of an input's shape, where they only move its values.

    What is cut, padded or put in place needs no cutting where the sizes happen to agree.
    """
    return _with_pieces(groups, diff, INPUT_SHAPE, MOVING)


def _with_conversions(groups: list[list[Finding]], diff: Diff) -> list[list[Finding]]:
    """Groups with pieces taken into that of another type, where they only convert its values."""
    return _with_pieces(groups, diff, DTYPE, CONVERTING)


def _with_pieces(
    groups: list[list[Finding]], diff: Diff, kind: Kind, opcodes: Collection[str]
) -> list[list[Finding]]:
    """Groups with pieces of these opcodes alone taken into the group of a kind that they touch."""
    main = next((group for group in groups if group[0].kind is kind), None)
    if main is None:
        return groups
    main_a = frozenset[int]().union(*(f.a for f in main))
    main_b = frozenset[int]().union(*(f.b for f in main))
    kept = []
    for group in groups:
        own_a = frozenset[int]().union(*(f.a for f in group)).intersection(diff.removed) - main_a
        own_b = frozenset[int]().union(*(f.b for f in group)).intersection(diff.added) - main_b
        made = {diff.a.opcodes[i] for i in own_a} | {diff.b.opcodes[i] for i in own_b}
        touches = _around(diff.a, own_a) & main_a or _around(diff.b, own_b) & main_b
        if group[0].kind in GENERAL and made.issubset(opcodes) and touches:
            main += group
        else:
            kept.append(group)
    return kept


def _with_state(groups: list[list[Finding]], diff: Diff) -> list[list[Finding]]:
    """Groups with what optimizers keep of parameters joined to that of the parameters.

    A layer that is trained on one side alone has its momentum there alone. Which of its tensors are
    weights, texts without names do not tell: the other side's weights may have been paired with
    what is kept of them.
    """
    trained = [group for group in groups if any(f.option == TRAINED_BY for f in group)]
    kept = []
    for group in groups:
        follows = None if group in trained else _OF_TRAINED.get(group[0].kind)
        home = next((one for one in trained if follows and follows(group, one, diff)), None)
        if home is None:
            kept.append(group)
        else:
            home += group
    return kept


def _keeps_of(group: Sequence[Finding], trained: Sequence[Finding], diff: Diff) -> bool:
    """Whether one side alone has inputs of these shapes, the one that trains such parameters."""
    a = frozenset[int]().union(*(f.a for f in group)).intersection(diff.removed)
    b = frozenset[int]().union(*(f.b for f in group)).intersection(diff.added)
    cited_a = {i for f in trained for e in f.evidence for i in e.a}
    cited_b = {i for f in trained for e in f.evidence for i in e.b}
    inputs = {*_inputs(diff.a, a)}, {*_inputs(diff.b, b)}
    weights = {*_inputs(diff.a, cited_a)}, {*_inputs(diff.b, cited_b)}
    return any(inputs) and inputs[0] <= weights[0] and inputs[1] <= weights[1]


def _begins_of(group: Sequence[Finding], trained: Sequence[Finding], diff: Diff) -> bool:
    """Whether all state that begins goes into the new values of just these parameters."""
    cited = [e for f in trained for e in f.evidence]
    sides = (
        (diff.a, {x for f in group for x in f.a}, {x for e in cited for x in e.a}),
        (diff.b, {y for f in group for y in f.b}, {y for e in cited for y in e.b}),
    )
    state = [(m, {i for i in own if m.opcodes[i] == "parameter"}, of) for m, own, of in sides]
    return any(own for _, own, _ in state) and all(
        own <= _made_with(module, of) for module, own, of in state if own
    )


def _made_with(module: Module, weights: Collection[int]) -> set[int]:
    """What the new values of these weights are made of, element by element."""
    new = updates(module)
    places = [module.outputs[k] for weight in weights for k in new.get(weight, ())]
    return set[int]().union(*(formula(module, i) for i in places))


def _is_taken_for_state(group: Sequence[Finding], trained: Sequence[Finding], diff: Diff) -> bool:
    """Whether all that one side takes in more was paired with what the other keeps of these."""
    in_a = {x for f in group for x in f.a if diff.a.opcodes[x] == "parameter"}
    in_b = {y for f in group for y in f.b if diff.b.opcodes[y] == "parameter"}
    cited = [e for f in trained for e in f.evidence]
    kept_a = {x for f in trained for x in f.a}.union(*(e.a for e in cited))
    kept_b = {y for f in trained for y in f.b}.union(*(e.b for e in cited))
    to_b, to_a = diff.match.to_b, diff.match.to_a
    lacks = all(to_b[x] in kept_b for x in in_a) and all(to_a[y] in kept_a for y in in_b)
    return bool(in_a) != bool(in_b) and lacks


_OF_TRAINED = {
    ADDED_INPUT: _is_taken_for_state,
    NEWLY_UPDATED: _keeps_of,
    OPTIMIZER_STATE: _begins_of,
}
"""What may follow from parameters that one side alone trains, and when it does."""


def _inputs(module: Module, instructions: Collection[int]) -> list[str]:
    """The shapes of inputs among these."""
    inputs = (i for i in instructions if module.opcodes[i] == "parameter")
    return [module.shapes[i].partition("{")[0] for i in inputs]


def _with_products(groups: list[list[Finding]], diff: Diff) -> list[list[Finding]]:
    """Groups with numbers joined to the typed one that they are products of, and of a size.

    A weight of the loss stands in its derivative divided by the number of elements: where both
    changed, so did that, and by no ratio that one of them has.
    """
    sized = [group for group in groups if group[0].kind is INPUT_SHAPE]
    sizes = ratios(diff, {x for group in sized for f in group for x in f.a})
    numbers = [(group, change) for group in groups if (change := _changed(group))]
    typed = [one for one in numbers if is_typed(one[1], sizes)]
    if not sizes or len(typed) != 1:
        return groups
    ((home, change),) = typed
    behind = [one for one in numbers if one[0] is not home and is_product(one[1], change, sizes)]
    if not behind:
        return groups
    joined = _following(home[0], [(group[0], told) for group, told in behind])
    gone = [group for group, _ in behind]
    return [[joined] if group is home else group for group in groups if group not in gone]


def _changed(group: Sequence[Finding]) -> Change | None:
    """The two values of one number, where that is all of a group."""
    changes = [part for part in group[0].title.parts if isinstance(part, Change)]
    is_number = len(group) == 1 and group[0].kind is CONSTANT_VALUE and len(changes) == 1
    return changes[0] if is_number and all(values(changes[0])) else None


def _following(finding: Finding, behind: Sequence[tuple[Finding, Change]]) -> Finding:
    """A number with those that follow from it and a size."""
    told = join((say(f"{change.old} -> {change.new}") for _, change in behind), MAX_NUMBERS)
    number = count(len(behind), "more constant")
    follows = say(f"; {number} in proportion to it and to the sizes (", told, ")")
    proofs = (finding.proof, *(one.proof for one, _ in behind))
    return replace(
        finding,
        title=say(finding.title, follows),
        evidence=(*finding.evidence, *(e for one, _ in behind for e in one.evidence)),
        proof=join(dict.fromkeys(proofs), len(proofs), "; "),
        a=finding.a.union(*(one.a for one, _ in behind)),
        b=finding.b.union(*(one.b for one, _ in behind)),
    )


def _with_orders(groups: list[list[Finding]], diff: Diff) -> list[list[Finding]]:
    """Groups with orders of operands taken into the piece at their lines that they stand beside.

    Another formula of one function (of gelu) has other orders, too: they take in what the piece
    does, or are taken in with it.
    """
    pieces = [group for group in groups if group[0].kind is REPLACED_SUBGRAPH]
    kept = []
    for group in groups:
        order = group[0]
        around_a = _around(diff.a, frozenset(_around(diff.a, order.a)))
        around_b = _around(diff.b, frozenset(_around(diff.b, order.b)))
        home = next(
            (
                piece
                for piece in pieces
                if any(_forward(order) & _forward(f) for f in piece)
                and any(f.a & around_a or f.b & around_b for f in piece)
            ),
            None,
        )
        if order.kind is REORDERED_OPERANDS and home:
            home.append(order)
        else:
            kept.append(group)
    return kept


def _with_consequences(groups: list[list[Finding]], diff: Diff) -> list[list[Finding]]:
    """Groups with those taken in that follow from them.

    Buckets that carry gradients over the step also move outputs and keep values alive: live
    tensors are ordered by age, so that what waits stands first; and a gradient that waits in a
    bucket is alive although nothing more is computed for it.
    """
    brought = {kind for group in groups for kind in group[0].kind.consequences}
    kept = list(groups)
    for main in sorted(groups, key=lambda group: group[0].kind.id in brought):
        if main not in kept:
            continue
        behind = [group for group in kept if group is not main and _follows(group, main, diff)]
        kept = [group for group in kept if group not in behind]
        main += [finding for group in behind for finding in group]
    return kept


def _follows(group: Sequence[Finding], main: Sequence[Finding], diff: Diff) -> bool:
    """Whether a group follows from another; live tensors only if they add nothing.

    Of a piece follows what it takes in, and the order of the outputs that it makes.
    """
    first = main[0]
    if group[0].kind.id not in first.kind.consequences:
        return False
    if not all(first.brings(finding, diff) for finding in group):
        return False
    if first.kind is SKIPPED_BLOCK and any(_sides(main, diff)):
        return all(comes_of_block(finding, first, diff) for finding in group)
    if group[0].kind.family is Family.LIVE:
        return not any(f.a or f.b for f in group)
    if not first.kind.is_piece or all(f.reorders or f.kind is SPECIAL_SCALAR for f in group):
        return True
    cited_a = {i for f in group for e in f.evidence for i in e.a}
    cited_b = {i for f in group for e in f.evidence for i in e.b}
    return any(f.a & cited_a or f.b & cited_b for f in main)


def _home(groups: list[list[Finding]], finding: Finding, diff: Diff) -> list[Finding] | None:
    lines = _forward(finding)
    if lines:
        shared = (g for g in groups if any(lines & _forward(f) or _is_one(f, finding) for f in g))
        return next(shared, None)
    around_a, around_b = _around(diff.a, finding.a), _around(diff.b, finding.b)
    touching = (g for g in groups if any(f.a & around_a or f.b & around_b for f in g))
    return next((g for g in touching if not _is_before_update(g[0], finding, diff)), None)


def _is_one(one: Finding, other: Finding) -> bool:
    """Whether both are what an optimizer does in one function, told in the same words."""
    files = {line.file for line in one.lines} & {line.file for line in other.lines}
    is_option = one.kind is OPTIMIZER_OPTION is other.kind
    return is_option and bool(one.short and files) and one.short == other.short


def _is_before_update(one: Finding, other: Finding, diff: Diff) -> bool:
    """Whether one is an option of an optimizer, and the other a piece that is no part of updates.

    They touch where the option takes in the gradient that the piece gives.
    """
    if (one.kind is OPTIMIZER_OPTION) == (other.kind is OPTIMIZER_OPTION):
        return False
    piece = other if one.kind is OPTIMIZER_OPTION else one
    sides = (diff.a, piece.a.intersection(diff.removed)), (diff.b, piece.b.intersection(diff.added))
    return piece.kind in GENERAL and any(not own <= in_updates(module) for module, own in sides)


def _forward(finding: Finding) -> set[SourceLine]:
    """A finding's lines; an operation and its derivative have one."""
    return {line.forward for line in finding.lines}


def _around(module: Module, instructions: frozenset[int]) -> set[int]:
    """These instructions, what they take in and what takes them in."""
    return {j for i in instructions for j in (i, *module.operands[i], *module.users[i])} - {
        module.entry_computation.root
    }


def _one(group: list[Finding], diff: Diff) -> Finding:
    """The findings as one, led by the first that is more than a piece of some sort.

    What is known to be a penalty brings derivatives that are pieces of their own.
    """
    main = next((f for f in group if f.kind not in (*GENERAL, REORDERED_OPERANDS)), group[0])
    main = next((f for f in group if f.fix is PENALTY_FIX), main)
    if len(group) == 1:
        return main
    a = frozenset[int]().union(*(f.a for f in group))
    b = frozenset[int]().union(*(f.b for f in group))
    kind, title, fix, short = main.kind, main.title, main.fix, main.short
    if main.kind in GENERAL and main.fix is not PENALTY_FIX:
        own_a, own_b = a.intersection(diff.removed), b.intersection(diff.added)
        kind, title = _branch(main, own_a, own_b, diff)
        index = index_alone(diff, own_a, own_b)
        fix = index.fix if index else say()
        short = index.short if index else _branch_in_short(own_a, own_b, diff)
    proofs = list(dict.fromkeys(f.proof for f in group))
    return replace(
        main,
        kind=kind,
        title=title,
        fix=fix,
        short=short,
        short_fix=main.short_fix if main.fix and fix else say(),
        evidence=tuple(e for f in group for e in f.evidence),
        proof=join(proofs, len(proofs), "; "),
        is_exact=all(f.is_exact for f in group),
        is_neutral=all(f.is_neutral for f in group),
        a=a,
        b=b,
        dropped_a=frozenset[int]().union(*(f.dropped_a for f in group)),
        dropped_b=frozenset[int]().union(*(f.dropped_b for f in group)),
    )


def _branch_in_short(own_a: frozenset[int], own_b: frozenset[int], diff: Diff) -> Message:
    if own_a and own_b:
        return computed_with(diff, own_a, own_b)
    if own_a:
        return in_some_steps(diff.a, own_a, diff.b)
    return in_some_steps(diff.b, own_b, diff.a)


def _branch(
    main: Finding, own_a: frozenset[int], own_b: frozenset[int], diff: Diff
) -> tuple[Kind, Message]:
    """Kind and title of several pieces that stand on one side each, or on both."""
    place = at(main.lines)
    in_a = opcodes_in_words(diff.a, own_a, diff.b)
    in_b = opcodes_in_words(diff.b, own_b, diff.a)
    if own_a and own_b:
        title = "a piece of the graph is computed in another way"
        return REPLACED_SUBGRAPH, say(title, place, ": ", in_a, " in ", A, ", ", in_b, " in ", B)
    if not (own_a or own_b):
        return EXTRA_SUBGRAPH, say(
            "values take another way through ", B, " than through ", A, place
        )
    more, less, words = (A, B, in_a) if own_a else (B, A, in_b)
    return EXTRA_SUBGRAPH, say(more, " computes ", words, " that ", less, " does not", place)
