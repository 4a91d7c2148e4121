"""A reduction that combines values by another operation."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, Change, HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

WITH_START = frozenset({"reduce", "reduce-window"})
"""Reductions whose second operand is the value that they start from."""
START = {"reduce": 1, "reduce-window": 1, "scatter": 0}
"""The operand that a reduction of one array starts from; a scatter combines into an array."""
OF_ONE_ARRAY = 3
"""The operands of a scatter into one array."""
REDUCTIONS = WITH_START | {"all-reduce", "all-reduce-start", "reduce-scatter", "scatter"}
AROUND = frozenset({"parameter", "convert"})
"""What stands in a combiner beside the operation that combines."""

OTHER_REDUCTION = Kind(
    id="other-reduction",
    title="A reduction applies another operation",
    section=Section.PIECES,
    meaning="A sum became a maximum, an any() an all(), a scatter adds where it overwrote, or "
    "ranks take the largest value where they took the sum. What combines the values is another "
    "operation, which often starts from another value, too; where the reduction also takes in "
    "other values, or runs over other dimensions, windows or groups, that is told as a cause of "
    "its own. Python picked the reduction: by the step, by a flag, by the name of a norm or of a "
    "pooling.",
    before="""\
for step, (x, y) in enumerate(loader):
    scale = x.abs().amax(0) if step % 4 else x.abs().sum(0)
    update(loss_fn(model(x / (scale + 1)), y))
""",
    after="""\
by_sum = torch.zeros((), dtype=torch.bool, device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    by_sum.copy_(torch.tensor(step % 4 == 0))
    scale = torch.where(by_sum, x.abs().sum(0), x.abs().amax(0))
    update(loss_fn(model(x / (scale + 1)), y))
""",
    evidence="The reductions with the operation of both sides, and the values that they start "
    "from.",
    fix="Reduce in the same way in every step; where the reduction is meant to change, compute "
    "both and select on the device (torch.where).",
    proof="The reductions of both sides are left without the operation that they apply and without "
    "the constant that they start from; input, dimensions, windows and groups are compared.",
    examples=(
        "largest_or_sum",
        "reducer",
        "while_condition",
        "pooled_otherwise",
        "largest_over_devices",
    ),
    short_fix="Reduce in the same way in every step.",
)


class Reduced(NamedTuple):
    """A reduction of A and its partner in B, which combine by other operations."""

    x: int
    y: int
    start: tuple[int, int] | None
    """The constants that both start from."""


def find(case: Case) -> list[Finding]:
    """Paired reductions, grouped by what combines the values and by source line."""
    a, b, partners = case.diff.a, case.diff.b, case.a.partners
    groups: dict[tuple[str, str, str, tuple[SourceLine, ...]], list[Reduced]] = defaultdict(list)
    for x in sorted(a.callees):
        y = partners[x]
        if y < 0 or not case.a.matched.live[x] or a.opcodes[x] not in REDUCTIONS:
            continue
        old, new = _combined_by(case.a, x), _combined_by(case.b, y)
        if a.opcodes[x] == b.opcodes[y] and old and new and old != new:
            lines = where(b, [y]) or where(a, [x])
            groups[a.opcodes[x], old, new, lines].append(Reduced(x, y, _start(case, x, y)))
    return [
        _finding(case, (old, new), lines, found)
        for (_, old, new, lines), found in sorted(groups.items())
    ]


def _start(case: Case, x: int, y: int) -> tuple[int, int] | None:
    """What two reductions start from, if it is made of constants."""
    a, b = case.diff.a, case.diff.b
    place = START.get(a.opcodes[x])
    if place is None:
        return None
    if a.opcodes[x] == "scatter" and not (_is_filled(a, x) and _is_filled(b, y)):
        return None
    p, q = a.operands[x][place], b.operands[y][place]
    return (p, q) if case.a.matched.closed[p] and case.b.matched.closed[q] else None


def _is_filled(module: Module, i: int) -> bool:
    """Whether a scatter combines into one array, which holds one number everywhere."""
    operands = module.operands[i]
    if len(operands) != OF_ONE_ARRAY or module.opcodes[operands[0]] != "broadcast":
        return False
    return module.opcodes[_number(module, operands[0])] == "constant"


def _number(module: Module, i: int) -> int:
    """What a value is spread from."""
    return module.operands[i][0] if module.opcodes[i] == "broadcast" else i


def _combined_by(view: SideView, i: int) -> str:
    """The one operation that a reduction applies; empty if it applies more, or is claimed.

    One that reduces several tensors at once gives a tuple, and so applies more. A scatter may
    apply none: it then writes the new values over the old ones.
    """
    inside = _combiner(view.module, i)
    found = [opcode for k in inside if (opcode := view.module.opcodes[k]) not in AROUND]
    if inside and not found and view.module.opcodes[i] == "scatter":
        found = ["overwrite"]
    return found[0] if len(found) == 1 and view.claimed.isdisjoint(inside) else ""


def _combiner(module: Module, i: int) -> list[int]:
    """The instructions of what a reduction applies."""
    called = (module.computations[c] for c in module.callees.get(i, ()))
    return [k for one in called for k in range(one.start, one.stop)]


def _finding(
    case: Case, combined_by: tuple[str, str], lines: tuple[SourceLine, ...], found: list[Reduced]
) -> Finding:
    a, b = case.diff.a, case.diff.b
    old, new = combined_by
    xs, ys = tuple(one.x for one in found), tuple(one.y for one in found)
    starts = dict.fromkeys(one.start for one in found if one.start)

    def undo(edit: Editors) -> None:
        for x, y, start in found:
            for editor, i in ((edit.a, x), (edit.b, y)):
                editor.callees[i] = ()
                if start:
                    is_scatter = editor.opcodes[i] == "scatter"
                    rest = editor.operands[i][1:] if is_scatter else editor.operands[i][:1]
                    editor.set_operands(i, rest)

    return Finding(
        kind=OTHER_REDUCTION,
        title=say(f"{old} became {new} in {count(len(found), a.opcodes[xs[0]])}", at(lines)),
        evidence=(
            Evidence(
                say(
                    f"{old} in ", A, "'s ", _listed(a, xs), f", {new} in ", B, "'s ", _listed(b, ys)
                ),
                xs,
                ys,
                lines,
            ),
            *_starts_told(case, starts),
        ),
        proof=say("the reductions of both were left without what they apply and start from"),
        a=_accounted(case.a, xs, [p for p, _ in starts]),
        b=_accounted(case.b, ys, [q for _, q in starts]),
        undo=undo,
    )


def _listed(module: Module, reductions: Sequence[int]) -> Message:
    return join(HloName(module.names[i], module.opcodes[i]) for i in reductions)


def _starts_told(case: Case, starts: Iterable[tuple[int, int]]) -> tuple[Evidence, ...]:
    """The constants that reductions start from, where they have other values."""
    a, b = case.diff.a, case.diff.b
    changed = [
        (p, q)
        for p, q in ((_number(a, x), _number(b, y)) for x, y in starts)
        if p in a.payloads and q in b.payloads and a.payloads[p] != b.payloads[q]
    ]
    values = dict.fromkeys((a.payloads[p], b.payloads[q]) for p, q in changed)
    if not changed:
        return ()
    text = say("what it starts from: ", join(Change(old, new) for old, new in values))
    return (Evidence(text, tuple(p for p, _ in changed), tuple(q for _, q in changed)),)


def _accounted(view: SideView, reductions: Sequence[int], starts: Iterable[int]) -> frozenset[int]:
    """Reductions, what the other side does not apply, too, and constants of reductions alone."""
    module = view.module
    theirs = frozenset(reductions)
    elsewhere = {c for i, called in module.callees.items() if i not in theirs for c in called}
    inside = (
        k
        for i in reductions
        for c in module.callees.get(i, ())
        for k in range(module.computations[c].start, module.computations[c].stop)
        if c not in elsewhere or view.partners[k] < 0
    )
    own = [
        p
        for p in starts
        if theirs.issuperset(module.users[p])
        or all(module.opcodes[u] in WITH_START for u in module.users[p])
    ]
    numbers = (n for p in own if list(module.users[n := _number(module, p)]) == [p])
    return frozenset((*reductions, *inside, *own, *numbers))


RULE = Rule(
    name="other-reduction",
    kinds=(OTHER_REDUCTION,),
    find=find,
    after=("sizes",),
    before=("other-operation",),
)
