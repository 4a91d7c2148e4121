"""A sum that takes the same terms in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import Editors, ModuleEditor
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff import diff_modules
from xlagraph.facts.values.terms import ANY_ORDER, reordered_sums
from xlagraph.message import A, B, HloName, count, join, say
from xlagraph.rules.order.reordered_operands import SAME_RESULT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.facts.values.terms import Sum
    from xlagraph.graph import Module
    from xlagraph.message import Message, Part

REORDERED_SUM = Kind(
    id="reordered-sum",
    title="A sum or a product takes the same values in another order",
    section=Section.PIECES,
    meaning="The terms of a sum, or the factors of a product, are the same, and are taken in "
    "another order: losses of several tasks in the order of a dict that the data fill, of a set, "
    "of what came first. The gradients of shared weights, which autograd adds in the reverse "
    "order, and the order in which tensors come into being change with it. The result differs by "
    "rounding at most, and the graph is another one: of n terms there are up to n! orders.",
    before="""\
for step, (x, y) in enumerate(loader):
    out = model(x)
    losses = [loss_fn(out, y), 0.1 * out.abs().mean(), 0.2 * out.square().mean()]
    update(sum(losses if step % 2 else losses[::-1]))
""",
    after="""\
for x, y in loader:
    out = model(x)
    update(sum([loss_fn(out, y), 0.1 * out.abs().mean(), 0.2 * out.square().mean()]))
""",
    evidence="The sums or products, with what they take on both sides.",
    fix="Take the values in one order in every step: a fixed list, or sorted(names), in place of a "
    "set or of a dict that is filled in the order of the data; and one spelling of the expression "
    "(a * b, not b * a).",
    proof="On both sides each is taken for one operation with its values in one order.",
    examples=("terms_reordered",),
    consequences=("output-order",),
    short="A sum takes its values in another order",
    short_fix="Take the values in one order in every step.",
)
ROUNDED_RESULT = say(
    "the result is the same but for rounding; the order is part of the graph, so that XLA compiles "
    "it anew"
)


def find(case: Case) -> list[Finding]:
    """All sums together: that of the losses, and those of the gradients that follow."""
    opcodes = case.diff.a.opcodes
    if not any(opcodes[x] in ANY_ORDER for x, _, _ in case.open_changes()):
        return []
    pairs = [
        (one, other)
        for one, other in reordered_sums(case)
        if not (case.a.claimed & one.inner.keys() or case.b.claimed & other.inner.keys())
    ]
    told = _told(pairs)
    is_swap = len(told) == 1 and len(told[0][0].order) == 2  # two operands, told as such
    if not pairs or is_swap:
        return []
    finding = _finding(case, pairs)
    return [finding] if _brings_closer(case, finding) else []


def _told(pairs: Sequence[tuple[Sum, Sum]]) -> Sequence[tuple[Sum, Sum]]:
    """Those whose order differs; all, where equal sums only stand at each other's places."""
    return [(one, other) for one, other in pairs if one.shape != other.shape] or pairs


def _differ_in_groups(pair: tuple[Sum, Sum]) -> bool:
    """Whether two equal sums have their terms in one order, and add others of them up first."""
    terms = [[k for k in one.shape if k >= 0] for one in pair]
    return pair[0].shape != pair[1].shape and terms[0] == terms[1]


def _brings_closer(case: Case, finding: Finding) -> bool:
    """Whether fewer instructions differ without it: small sums are alike in all sorts of graphs."""
    edit = Editors(ModuleEditor(case.diff.a), ModuleEditor(case.diff.b))
    finding.undo(edit)
    after = diff_modules(edit.a.build(), edit.b.build(), known=case.diff.match.known)
    return after.differing < case.diff.differing


def _finding(case: Case, pairs: Sequence[tuple[Sum, Sum]]) -> Finding:
    a, b = case.diff.a, case.diff.b
    inner_a = frozenset(i for one, _ in pairs for i in one.inner)
    inner_b = frozenset(i for _, other in pairs for i in other.inner)
    lines = where(b, inner_b) or where(a, inner_a)
    told = _told(pairs)
    what, parts = _what({a.opcodes[one.root] for one, _ in told})
    is_one = len(told) == 1
    how = "other groups" if all(map(_differ_in_groups, told)) else "another order"
    is_exact = all(one.value == other.value for one, other in pairs)

    def undo(edit: Editors) -> None:
        for one, other in pairs:
            one.join(edit.a)
            other.join(edit.b)

    return Finding(
        kind=REORDERED_SUM,
        title=say(
            f"a {what} takes" if is_one else f"{count(len(told), what)} take",
            f" the same {parts} in {how}",
            at(lines),
        ),
        evidence=(
            Evidence(_terms(case, told), tuple(inner_a)[:50], tuple(inner_b)[:50], lines),
            Evidence(SAME_RESULT if is_exact else ROUNDED_RESULT),
        ),
        proof=say(
            f"the {what} was" if is_one else f"the {what}s were",
            " taken for one operation of its" if is_one else " each taken for one operation of its",
            f" {parts} in one order, in ", A, " and in ", B,
        ),
        short=say(f"A {what} takes its {parts} in {how}"),
        fix=_fix(parts),
        short_fix=say(f"Take the {parts} in one order in every step."),
        a=inner_a,
        b=inner_b,
        undo=undo,
        is_exact=is_exact,
    )  # fmt: skip


def _what(opcodes: set[str]) -> tuple[str, str]:
    """What such operations are called, and what they take."""
    names = {"add": ("sum", "terms"), "multiply": ("product", "factors")}
    mixed = "chain", "operands"
    return names.get(next(iter(opcodes)), mixed) if len(opcodes) == 1 else mixed


def _fix(parts: str) -> Message:
    """Terms come of a loop most often, factors of an expression that is written in two ways."""
    loop = "a fixed list, or sorted(names), in place of a set or of a dict that is filled in the "
    loop += "order of the data"
    if parts != "terms":
        loop = f"one spelling of the expression (a * b, not b * a); where a loop takes them, {loop}"
    return say(f"Take the {parts} in one order in every step: {loop}.")


def _terms(case: Case, told: Sequence[tuple[Sum, Sum]]) -> Message:
    """The terms of the first sum in A's order and in B's, by their names in A.

    With brackets where the order is one, and only what is added first is another.
    """
    a = case.diff.a
    one, other = _unlike(told)
    terms = one.terms(a.operands)
    place = {theirs: own for own, theirs in zip(one.order, other.order, strict=True)}
    again = [terms[place[k]] for k in range(len(terms))]
    is_in_groups = _differ_in_groups((one, other))
    in_a, in_b = (
        _grouped(case, side, named) if is_in_groups else _listed(a, named)
        for side, named in (((case.a, one), terms), ((case.b, other), again))
    )
    return say(f"{a.opcodes[one.root]} of ", in_a, " in ", A, ", of ", in_b, " in ", B)


def _unlike(told: Sequence[tuple[Sum, Sum]]) -> tuple[Sum, Sum]:
    """Two equal sums, of A and of B, in unlike orders: others may stand at each other's places."""
    pairs = ((one, other) for one, _ in told for _, other in told if one.number == other.number)
    return next((pair for pair in pairs if pair[0].shape != pair[1].shape), told[0])


def _listed(module: Module, terms: Sequence[int]) -> Message:
    return say("(", join((HloName(module.names[i], module.opcodes[i]) for i in terms), 9), ")")


def _grouped(case: Case, side: tuple[SideView, Sum], terms: Sequence[int]) -> Message:
    """The terms with each group that is added up before it is added in brackets of its own."""
    (view, one), a = side, case.diff.a
    names = iter([HloName(a.names[i], a.opcodes[i]) for i in terms])
    parts: list[Message | Part] = ["("]
    stack: list[int | str] = [")", one.root]
    while stack:
        i = stack.pop()
        if isinstance(i, str):
            parts.append(i)
        elif i not in one.inner:
            parts.append(next(names))
        else:
            below = [_behind_one(view, one, view.module.operands[i][k]) for k in one.inner[i]]
            for place, o in reversed(list(enumerate(below))):
                is_group = place > 0 and len(one.inner.get(o, ())) > 1
                stack += [")", o, "("] if is_group else [o]
                stack += [", "] if place else []
    return say(*parts)


def _behind_one(view: SideView, one: Sum, i: int) -> int:
    """What is multiplied with 1 to make a part of a sum, else the part itself."""
    while len(one.inner.get(i, ())) == 1:
        i = view.module.operands[i][one.inner[i][0]]
    return i


RULE = Rule(
    name="reordered-sum",
    kinds=(REORDERED_SUM,),
    find=find,
    after=("exchanged-dtypes",),
    before=("reordered-operands",),
    rematches=True,
)
