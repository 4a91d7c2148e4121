"""Passes over parts on one side, and one pass over the parts joined on the other."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.values.telling import HEAVY, MOVING, PLAIN
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import HloName, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

JOINED_PASSES = Kind(
    id="joined-passes",
    title="Several passes on one side are one pass over their joined inputs on the other",
    section=Section.PIECES,
    meaning="One side runs a model on several batches, one after the other; the other one joins "
    "them (torch.cat) and runs it once, and cuts the result in pieces. All sizes of the pass "
    "differ, and the graph has one pass less. The values are the same only where no operation "
    "takes several examples together: batch normalization's statistics are those of the whole "
    "batch then.",
    before="""\
for step, (real, fake) in enumerate(batches):
    if step < 4:
        scores = model(real), model(fake)
    else:
        scores = model(torch.cat([real, fake])).chunk(2)
    update(loss_fn(*scores))
""",
    after="""\
for step, (real, fake) in enumerate(batches):
    scores = model(torch.cat([real, fake])).chunk(2)
    update(loss_fn(*scores))
""",
    evidence="What joins the inputs, and the operations that take the parts on the other side.",
    fix="Call the model on the joined inputs (torch.cat, then chunk) in every step, or on each "
    "alone in every step. With batch normalization, or another mean over the batch, the two are "
    "not the same: each alone has statistics of its own.",
    proof="One of the parts is put in place of what joins them; the sizes that differ and the "
    "further passes are undone with it.",
    examples=("passes_joined",),
    short="Several passes are one over joined inputs",
    short_fix="Join the inputs in every step, or in none.",
    consequences=("added-input", "extra-subgraph", "python-size", "replaced-subgraph"),
    may_be_meant=True,
)
FOLLOWS = PLAIN | MOVING | {"add"}
"""What may stand on one side alone: it moves values, or adds up those of several passes."""
_SIZE = re.compile(r"(?<=[\[,])\d+(?=[\],])")
MAX_STEPS = 6
"""Instructions between a weight and the operation that takes it."""
_NUMBER = re.compile(r"\d+")


class _Joined(NamedTuple):
    """A concatenation of one side, and what the other side does with its parts."""

    view: SideView
    less: SideView
    join: int
    user: int
    """What takes the joined values: the first heavy operation of the pass."""
    parts: tuple[int, ...]
    users: tuple[int, ...]
    """What takes each of the parts on the other side."""
    sizes: tuple[int, int]
    """Of a part and of all, in the dimension in which they are joined."""
    unit: str
    """What that dimension counts, if that is known."""


def find(case: Case) -> list[Finding]:
    """Concatenations of one side, each with an operation that the other side runs on each part."""
    return [
        _finding(joined)
        for view, less in case.both_ways
        for i in view.open_lone()
        if view.module.opcodes[i] == "concatenate" and (joined := _joined(view, less, i))
    ]


def _joined(view: SideView, less: SideView, join: int) -> _Joined | None:
    module, other = view.module, less.module
    parts = module.operands[join]
    theirs = [view.partners[p] for p in parts]
    shapes = {bare_shape(module, p) for p in parts}
    if len(shapes) != 1 or len(set(theirs)) != len(parts) or min(theirs) < 0 or len(parts) < 2:
        return None
    dimension = int(_NUMBER.findall(module.attributes[join].get("dimensions") or "0")[0])
    small, large = (
        read_shape(bare_shape(module, i)).dimensions[dimension] for i in (parts[0], join)
    )
    for user in module.users[join]:
        if module.opcodes[user] not in HEAVY:
            continue
        users = [
            next((u for u in other.users[p] if _is_alike(view, user, join, less, u, p)), -1)
            for p in theirs
        ]
        is_instead = all(less.partners[u] in (user, -1) for u in users)
        if min(users) >= 0 and len(set(users)) == len(users) and is_instead:
            unit = "" if dimension else " rows"
            return _Joined(view, less, join, user, parts, tuple(users), (small, large), unit)
    return None


def _is_alike(view: SideView, i: int, taken: int, less: SideView, j: int, part: int) -> bool:
    """Whether two operations do the same with the joined values and with a part of them."""
    mine, theirs = view.module.operands[i], less.module.operands[j]
    return (
        view.module.opcodes[i] == less.module.opcodes[j]
        and view.module.attributes[i].items == less.module.attributes[j].items
        and len(mine) == len(theirs)
        and all(
            (o == taken) == (p == part) and (o == taken or _is_one(view, o, less, p, MAX_STEPS))
            for o, p in zip(mine, theirs, strict=True)
        )
    )


def _is_one(view: SideView, i: int, less: SideView, j: int, steps: int) -> bool:
    """Whether two values are computed alike from inputs that are partners: a weight, transposed."""
    if view.partners[i] == j:
        return True
    below_i, below_j = view.module.operands[i], less.module.operands[j]
    return (
        steps > 0
        and view.module.opcodes[i] != "parameter"
        and view.matched.plain[i] == less.matched.plain[j]
        and len(below_i) == len(below_j)
        and all(_is_one(view, o, less, p, steps - 1) for o, p in zip(below_i, below_j, strict=True))
    )


def _finding(found: _Joined) -> Finding:
    view, less, join = found.view, found.less, found.join
    small, large = found.sizes
    number = len(found.parts)
    over = f"{small}{found.unit}"
    kept = next((k for k, u in enumerate(found.users) if less.partners[u] == found.user), 0)
    lines = where(view.module, [join]) or where(view.module, [found.user])
    title = say(
        f"{number} passes over {over} in ", less.side, f" are one pass over {large} in ",
        view.side, ", which joins their inputs", at(lines),
    )  # fmt: skip
    text = say(
        HloName(view.module.names[found.user], view.module.opcodes[found.user]),
        " takes ", HloName(view.module.names[join], "concatenate"),
        f" ({short_shape(view.module, join)}) in ", view.side, ", and in ",
        less.side, f" {number} operations take a part each",
    )  # fmt: skip

    def undo(edit: Editors) -> None:
        edit[view.side].replace_uses({join: found.parts[kept]})

    a, b = view.ab(frozenset((join,)), frozenset[int]())
    cited_a, cited_b = view.ab((join, found.user), found.users)
    return Finding(
        kind=JOINED_PASSES,
        title=title,
        evidence=(Evidence(text, cited_a, cited_b, lines),),
        short=say(f"{number} passes over {over} are one over {large}"),
        short_fix=say(JOINED_PASSES.short_fix),
        proof=say("one part was put in place of what joins them in ", view.side),
        a=a,
        b=b,
        undo=undo,
        brings=partial(_brings, found.sizes),
    )


def _brings(sizes: tuple[int, int], finding: Finding, diff: Diff) -> bool:
    """Whether a finding follows: it brings no operation that the pass of the other side has not.

    The size of a part counts for that of all. Gradients of several passes are added up.
    """
    a, b = diff.a, diff.b
    shapes = (
        (_scaled(a, c.a, sizes), _scaled(b, c.b, sizes))
        for c in diff.changes
        if "shape" in c.fields and (c.a in finding.a or c.b in finding.b)
    )
    own_a, own_b = finding.a.intersection(diff.removed), finding.b.intersection(diff.added)
    return (
        all(mine == theirs for mine, theirs in shapes)
        and _are_known(a, own_a, b, sizes)
        and _are_known(b, own_b, a, sizes)
    )


def _are_known(module: Module, own: Iterable[int], other: Module, sizes: tuple[int, int]) -> bool:
    known = {(opcode, _scaled(other, i, sizes)) for i, opcode in enumerate(other.opcodes)}
    return all(
        module.opcodes[i] in FOLLOWS or (module.opcodes[i], _scaled(module, i, sizes)) in known
        for i in own
    )


def _scaled(module: Module, i: int, sizes: tuple[int, int]) -> str:
    """A shape's text in which the size of a part stands for that of all."""
    small, large = map(str, sizes)
    return _SIZE.sub(lambda found: small if found[0] == large else found[0], bare_shape(module, i))


RULE = Rule(
    name="joined-passes",
    kinds=(JOINED_PASSES,),
    find=find,
    after=("handed-on",),
    before=("sharding",),
)
