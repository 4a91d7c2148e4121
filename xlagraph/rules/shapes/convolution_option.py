"""Convolutions with another dilation, stride or number of groups, and sizes that suit them."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, Change, join, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Diff
    from xlagraph.graph import Attributes
    from xlagraph.message import Message

CONVOLUTION_OPTION = Kind(
    id="convolution-option",
    title="A convolution has another dilation, stride or number of groups",
    section=Section.VALUES,
    meaning="The options of a layer are attributes of its convolution and of both derivatives. "
    "Padding that Python computes from them, and weights of the groups, get other sizes as well.",
    before="""\
kernel = torch.ones(1, 1, 3, device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    wide = 1 + step % 2
    row = F.pad(model(x).unsqueeze(1), (2 * wide, 0))
    update(F.conv1d(row, kernel, dilation=wide).pow(2).mean())
""",
    after="""\
kernel = torch.ones(1, 1, 3, device="xla")
torch_xla.sync()
for x, y in loader:
    row = F.pad(model(x).unsqueeze(1), (2, 0))
    update(F.conv1d(row, kernel, dilation=1).pow(2).mean())
""",
    evidence="The option on both sides, and the sizes that are other ones because of it.",
    fix="Keep the options of a layer the same in every step.",
    proof="A's convolution gets B's option, and the sizes before it those of B.",
    examples=("dilated_causal", "grouped_convolution"),
    consequences=("attribute", "convolution-option", "input-shape", "python-index", "python-size"),
    short="A convolution has other options",
)
GROUPS = "number of groups"
IN_WINDOW = {"rhs_dilate": "dilation", "stride": "stride", "lhs_dilate": "dilation of the input"}
"""The parts of a window that state no size, as what the program gives a layer."""
MAX_CHANGES = 3
Pairs = dict[int, int]
"""A's instructions to B's."""


class Option(NamedTuple):
    """An option of a convolution, and what it is in A and in B."""

    name: str
    old: str
    new: str

    @property
    def change(self) -> Change:
        """Both values, of the axes that have another one; equal ones once."""
        axes = zip(self.old.split("x"), self.new.split("x"), strict=True)
        told = list(dict.fromkeys(pair for pair in axes if pair[0] != pair[1]))
        return Change("x".join(p for p, _ in told), "x".join(q for _, q in told))


def find(case: Case) -> list[Finding]:
    """Convolutions with another option that give values of the same size as before.

    Where they give another one, what follows is told by it (`xlagraph.rules.shapes.sizes`).
    Derivatives have the same numbers, if by other names, and come after the convolution itself,
    which tells what the option is.
    """
    with_values: dict[tuple[str, str], Pairs] = defaultdict(dict)
    firsts: dict[str, dict[Option, tuple[int, int]]] = defaultdict(dict)
    for x, y, fields in sorted(case.open_changes()):
        if case.diff.a.opcodes[x] != "convolution" or "attributes" not in fields:
            continue
        for option in _options(case.diff.a.attributes[x], case.diff.b.attributes[y]):
            known = with_values[option.old, option.new]
            if not known and "shape" not in fields:
                firsts[option.name][option] = x, y
            known[x] = y
    return [
        _finding(case, found, dict(p for one in found for p in with_values[one[1:]].items()))
        for found in firsts.values()
    ]


def _options(first: Attributes, second: Attributes) -> list[Option]:
    """What differs between two convolutions that is no size."""
    old, new = _window(first), _window(second)
    axes = 1 + (old | new).get("size", "").count("x")
    none = "x".join(["1"] * axes)
    found = [Option(name, old.get(k, none), new.get(k, none)) for k, name in IN_WINDOW.items()]
    groups = (one.get("feature_group_count") or "1" for one in (first, second))
    return [one for one in (*found, Option(GROUPS, *groups)) if one.old != one.new]


def _window(attributes: Attributes) -> dict[str, str]:
    parts = (attributes.get("window") or "").strip("{}").split()
    return dict(part.split("=", 1) for part in parts)


def _finding(case: Case, firsts: dict[Option, tuple[int, int]], pairs: Pairs) -> Finding:
    a, b = case.diff.a, case.diff.b
    name = next(iter(firsts)).name
    own = {x: y for x, y in pairs.items() if a.shapes[x] == b.shapes[y]}
    cited_a, cited_b = zip(*firsts.values(), strict=True)
    lines = where(b, cited_b)
    changes = [option.change for option in firsts]
    told = say(f"{name}: ", join(changes, MAX_CHANGES))

    def undo(edit: Editors) -> None:
        for x, y in own.items():
            edit.a.attributes[x] = b.attributes[y]

    sizes = _sizes_beside(case.diff, pairs, firsts)
    return Finding(
        kind=CONVOLUTION_OPTION,
        title=say("a convolution has another ", told, at(lines)),
        evidence=(Evidence(told, cited_a, cited_b, lines),),
        proof=say(A, "'s convolutions were given the options of ", B),
        short=_in_short(name, changes),
        a=frozenset(own),
        b=frozenset(own.values()),
        undo=undo,
        brings=partial(_brings, sizes, frozenset(changes)),
    )


def _in_short(name: str, changes: Sequence[Change]) -> Message:
    became = (change._replace(became="became") for change in changes)
    return say(f"a convolution's {name}: ", join(became, MAX_CHANGES))


def _brings(
    sizes: frozenset[int], changes: frozenset[Change], finding: Finding, _diff: Diff
) -> bool:
    """Whether a finding is of sizes that meet at these convolutions, or of their derivatives."""
    if finding.kind is CONVOLUTION_OPTION:
        (told,) = (evidence.text for evidence in finding.evidence)
        return changes.issuperset(part for part in told.parts if isinstance(part, Change))
    return not finding.a.isdisjoint(sizes)


def _sizes_beside(diff: Diff, pairs: Pairs, options: Iterable[Option]) -> frozenset[int]:
    """A's instructions of sizes that B has not, before these convolutions and behind derivatives.

    Options of a window suit the values that are taken in, groups the weights.
    """
    a, to_b = diff.a, diff.match.to_b
    live = diff.match.a.live

    def is_resized(x: int) -> bool:
        return to_b[x] < 0 or a.shapes[x] != diff.b.shapes[to_b[x]]

    olds = {option.old for option in options}
    operand = int(any(option.name == GROUPS for option in options))
    read = (a.operands[x][operand] for x in pairs if not is_resized(x))
    above = _spread(filter(is_resized, read), lambda x: filter(is_resized, a.operands[x]))
    convolutions = (x for x in range(len(a)) if live[x] and a.opcodes[x] == "convolution")
    resized = (x for x in convolutions if is_resized(x))
    changed = (x for x in resized if x in pairs or olds & _values(a.attributes[x]))
    root = {a.entry_computation.root}
    return above | _spread(changed, lambda x: {*a.users[x]} - root if is_resized(x) else ())


def _spread(starts: Iterable[int], beside: Callable[[int], Iterable[int]]) -> frozenset[int]:
    """Some instructions, and all that is reached from them."""
    found = set(starts)
    stack = [*found]
    while stack:
        new = {*beside(stack.pop())} - found
        found |= new
        stack += new
    return frozenset(found)


def _values(attributes: Attributes) -> set[str]:
    """What the options of a convolution are that it has, by whatever names."""
    groups = attributes.get("feature_group_count") or attributes.get("batch_group_count")
    window = _window(attributes)
    return {window[k] for k in IN_WINDOW if k in window} | ({groups} if groups else set())


RULE = Rule(
    name="convolution-option",
    kinds=(CONVOLUTION_OPTION,),
    find=find,
    after=("dtype", "exchanged-axes"),
    before=("sizes",),
)
