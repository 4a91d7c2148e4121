"""Instructions with other attributes: slice bounds, dimensions, replica groups, seeds."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import attribute_changes, differing_keys
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, statement, where
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.program.typed_slices import slice_bounds, typed_slice
from xlagraph.facts.program.written import lines_in_words
from xlagraph.facts.shapes.sizes import INDEX_OPCODES
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, A, B, Code, Listing, count, say
from xlagraph.rules.distributed.sharding import SHARDING
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Attributes, Module
    from xlagraph.message import Message, SourceLine

REPLICA_GROUPS = Kind(
    id="replica-groups",
    title="A collective runs over other groups",
    section=Section.COLLECTIVES,
    meaning="The groups of ranks that a collective works in are part of the graph. Groups that are "
    "built anew, in another order or over other ranks, make another one; channel numbers alone "
    "do not count. What a mean over a group divides by is its size, and follows.",
    before="""\
groups = [[0, 1], [2, 3]] if step % 2 else [[0, 2], [1, 3]]
xm.all_reduce(xm.REDUCE_SUM, gradients, groups=groups)
""",
    after="""\
GROUPS = [[0, 1], [2, 3]]  # built once
xm.all_reduce(xm.REDUCE_SUM, gradients, groups=GROUPS)
""",
    evidence="The groups on both sides.",
    fix="Use the same groups in every step; build them once and reuse the list. In JAX the axis "
    "names of the collective decide them.",
    proof="A's collective gets B's groups.",
    examples=("replica_groups", "replica_groups_of_mesh"),
    short_fix="Give it the same groups; in JAX, the same axis names.",
)
BOUNDS = frozenset({"slice", "slice_sizes", "dynamic_slice_sizes", "padding"})
"""What a Python index decides of an instruction."""
_BOUNDS = re.compile(r"\[(\d+):\d+(?::(\d+))?\]")
_PADDING = re.compile(r"(-?\d+)_(-?\d+)(?:_(\d+))?")
WINDOWED = frozenset({"convolution", "reduce-window"})
HANDED = frozenset({"bitcast", "convert", "copy", "reshape", "transpose"})
"""What hands values on to these."""
FORMS = frozenset({"bitcast", "convert", "get-tuple-element", "reshape"})
AXES = frozenset({"collapsed_slice_dims", "iota_dimension", "offset_dims", "start_index_map"})
"""What the dimension decides along which is indexed."""


WRITTEN = "the Python index where values are written"
WRITTEN_SHORT = say("Values are written at another Python index")
_WRITTEN = Words(
    say(
        "Write with index_copy_ (or scatter_), at positions that are a tensor on the device: "
        "buffer.index_copy_(dim, positions, values). What they are counted from must be a tensor "
        "too: data that comes with the batch, or a buffer that is added to on the device."
    ),
    WRITTEN_SHORT,
    say("Write with index_copy_, at positions that are a tensor."),
)
"""Of a slice that is assigned to: XLA pads the values to the size of what they are written into."""
_AS_DATA = say(
    "Send the index as data: ",
    Code("x.index_select(dim, torch.arange(start, stop).to(x.device))"),
)
_MOVED = Words(
    say(
        _AS_DATA,
        ". Made with arange(..., device=...) it would be baked in again. Or index on the host, "
        "before the tensor is sent.",
    ),
    short_fix=_AS_DATA,
)
"""Of a slice as long as before at another place."""
_TRACED = say(
    "Give the index as an argument that is not static: ",
    Code("x[i]"),
    ", or ",
    Code("lax.dynamic_slice_in_dim(x, start, size)"),
    ".",
)
_JITTED = Words(_TRACED, short_fix=_TRACED)
"""Of a slice in what JAX traces."""
_TRACED_WRITE = say(
    "Give the index as an argument that is not static: ", Code("x.at[i].set(v)"), "."
)
_JITTED_WRITE = Words(_TRACED_WRITE, _WRITTEN.short, _TRACED_WRITE)
_TAKE_SORTED = say("Take the place by a tensor: ", Code("sorted.index_select(dim, k)"), ".")
_RANKED = Words(
    say(
        "kthvalue, and any place in a sorted tensor that Python computes, is part of the graph: "
        "sort, and take the place by a tensor of one element that is sent, ",
        Code("x.sort(dim).values.index_select(dim, k)"),
        ". Or rank on the host, x.cpu().",
    ),
    say("a place in a sorted tensor (kthvalue's k) changes"),
    _TAKE_SORTED,
)
"""Of a slice of what was sorted."""
MAX_NAME = 30
"""Characters of an expression that is named in the headline."""
_NOT_MADE_THERE = "# keep .to(): made with device=... the numbers are constants again"
OF_KEY = {"sharding": SHARDING, "replica_groups": REPLICA_GROUPS}
"""Attributes that have a kind of their own."""


def index_words(
    case: Case, lines: tuple[SourceLine, ...], widths: frozenset[int], *, is_written: bool
) -> Words:
    """How to send an index, in the program's own statement where that is understood.

    Args:
        case: the two modules.
        lines: where it is used.
        widths: how much is taken along the dimensions in which it moves.
        is_written: values are assigned there.
    """
    if is_jitted(case.diff.b):
        return _JITTED_WRITE if is_written else _JITTED
    typed = _as_data(case, lines, widths, is_written=is_written)
    return typed if typed.fix else _WRITTEN if is_written else _MOVED


def _as_data(
    case: Case, lines: tuple[SourceLine, ...], widths: frozenset[int], *, is_written: bool
) -> Words:
    line = statement(lines)
    if line is None:
        return Words()
    program = case.program(line)
    typed = typed_slice(program, line.line, widths, is_written=is_written)
    if typed is None:
        return Words()
    short = say(
        f"Replace {lines_in_words(typed.first, typed.last)}, to send the index as data:",
        Listing((_NOT_MADE_THERE, *typed.code)),
    )
    return Words(
        say(short, "Or index on the host, before the tensor is sent."),
        _WRITTEN.short if is_written else _start(slice_bounds(program, line.line)[0]),
        short,
    )


def _start(name: str) -> Message:
    """What changed: the variable that a slice begins at, in the program's words."""
    if not name or len(name) > MAX_NAME:
        return EMPTY
    return say("the slice start ", Code(name), " changes from step to step")


Groups = dict[tuple[str, tuple["SourceLine", ...]], list[tuple[int, int]]]


def find(case: Case) -> list[Finding]:
    """Instructions with other attributes, grouped by opcode and source line."""
    a, b = case.diff.a, case.diff.b
    groups: Groups = defaultdict(list)
    for x, y, fields in case.open_changes():
        if "attributes" in fields and set(fields) <= {"attributes", "shape", "layout"}:
            groups[a.opcodes[x], where(b, [y])].append((x, y))
    behind = _derivatives(case, groups)
    return [
        _finding(case, opcode, lines, pairs, behind.pop((opcode, lines), []))
        for (opcode, lines), pairs in sorted(groups.items())
        if pairs
    ]


def _derivatives(case: Case, groups: Groups) -> Groups:
    """Pads taken out of their groups, by the group of the slices that they are derivatives of.

    What was cut out of a tensor at an index is padded by as much on its way back. Where both are
    written in the program they have one index all the same.
    """
    cuts = {
        _left_out(case, pair): key
        for key, pairs in sorted(groups.items(), reverse=True)
        for pair in pairs
        if key[0] == "slice"
    }
    found: Groups = defaultdict(list)
    for (opcode, _), pairs in groups.items():
        for pair in list(pairs) if opcode == "pad" else ():
            home = cuts.get(_left_out(case, pair))
            if home:
                found[home].append(pair)
                pairs.remove(pair)
    return found


def _finding(
    case: Case,
    opcode: str,
    lines: tuple[SourceLine, ...],
    pairs: list[tuple[int, int]],
    behind: Sequence[tuple[int, int]],
) -> Finding:
    """The finding of one group; `behind`: pads that give gradients back to what it cuts."""
    a, b = case.diff.a, case.diff.b
    first = a.attributes[pairs[0][0]], b.attributes[pairs[0][1]]
    changes = attribute_changes(*first)
    keys = sorted(differing_keys(*first))
    kind = next((OF_KEY[key] for key in keys if key in OF_KEY), None)
    number = count(len(pairs), opcode)
    is_written = opcode == "pad" and all(a.shapes[p] == b.shapes[q] for p, q in pairs)
    is_written = is_written and not any(_feeds_windows(b, q) for _, q in pairs)
    words = Words()
    if kind:
        title = say(f"{kind.id.replace('-', ' ')} of {number} differs: ", changes)
    elif opcode in INDEX_OPCODES and BOUNDS.issuperset(keys):
        kind = PYTHON_INDEX
        what = WRITTEN if is_written else "a Python index"
        is_moved = opcode == "slice" and all(a.shapes[p] == b.shapes[q] for p, q in pairs)
        if is_moved and not is_jitted(b) and all(_is_sorted(case.diff.b, q) for _, q in pairs):
            words = _RANKED
        elif is_written or is_moved:
            widths = frozenset(_widths(case, pairs))
            words = index_words(case, lines, widths, is_written=is_written)
        title = say(f"{what} is baked into {number}: ", changes)
    else:
        kind = ATTRIBUTE
        along = AXES.intersection(keys) and opcode in INDEX_OPCODES
        what = (
            f"{number} takes along another dimension" if along else f"{opcode} has other attributes"
        )
        title = say(what, ": ", changes)

    told = [Evidence(changes, tuple(p for p, _ in pairs), tuple(q for _, q in pairs), lines)]
    if behind:
        pads = say(f"{count(len(behind), 'pad')} by as much, as on the way back of gradients")
        told.append(Evidence(pads, tuple(p for p, _ in behind), tuple(q for _, q in behind)))
        pairs = [*pairs, *behind]

    def undo(edit: Editors) -> None:
        for p, q in pairs:
            edit.a.attributes[p] = b.attributes[q]
            edit.a.shapes[p] = b.shapes[q]

    return Finding(
        kind=kind,
        title=say(title, at(lines)),
        evidence=tuple(told),
        proof=say(A, f"'s {opcode} was given ", B, "'s attributes"),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        a=frozenset(p for p, _ in pairs),
        b=frozenset(q for _, q in pairs),
        undo=undo,
    )


def _feeds_windows(module: Module, pad: int) -> bool:
    """Whether what is padded goes into a convolution or a pooling: nothing is assigned there."""
    front = [pad]
    for i in front:  # grows while it is read
        front += (u for u in module.users[i] if module.opcodes[u] in HANDED and u not in front)
    return any(module.opcodes[u] in WINDOWED for i in front for u in module.users[i])


def _left_out(case: Case, pair: tuple[int, int]) -> tuple[Sequence[tuple[int, ...]], ...]:
    """How much a slice leaves out, or a pad adds, on both sides: in front, behind and between."""
    return tuple(
        _cut(module, i) if module.opcodes[i] == "slice" else _added(module, i)
        for module, i in zip((case.diff.a, case.diff.b), pair, strict=True)
    )


def _cut(module: Module, i: int) -> tuple[tuple[int, ...], ...]:
    sizes = read_shape(module.shapes[module.operands[i][0]]).dimensions
    left = read_shape(module.shapes[i]).dimensions
    bounds = _BOUNDS.findall(module.attributes[i].get("slice") or "")
    found = []
    for size, n, (first, step) in zip(sizes, left, bounds, strict=False):
        every = int(step or 1)
        found.append((int(first), size - int(first) - max((n - 1) * every + 1, 0), every - 1))
    return tuple(found)


def _added(module: Module, i: int) -> tuple[tuple[int, ...], ...]:
    added = _PADDING.findall(module.attributes[i].get("padding") or "")
    return tuple(tuple(int(n or 0) for n in one) for one in added)


def _widths(case: Case, pairs: Sequence[tuple[int, int]]) -> Iterator[int]:
    """How much slices take, or pads hold of values, along the dimensions in which they moved."""
    a, b = case.diff.a, case.diff.b
    for x, y in pairs:
        held = y if b.opcodes[y] == "slice" else b.operands[y][0]
        size = read_shape(b.shapes[held]).dimensions
        old, new = (_by_dimension(module.attributes[i]) for module, i in ((a, x), (b, y)))
        yield from (n for n, p, q in zip(size, old, new, strict=False) if p != q)


def _by_dimension(attributes: Attributes) -> list[str]:
    """The bounds of a slice, or the padding, of each dimension."""
    found = attributes.get("slice")
    return found.split("],") if found else (attributes.get("padding") or "").split("x")


def _is_sorted(module: Module, i: int) -> bool:
    """Whether a slice is cut from what a sort gives back."""
    (i,) = module.operands[i]
    while module.opcodes[i] in FORMS:
        (i,) = module.operands[i]
    return module.opcodes[i] == "sort"


RULE = Rule(
    name="attributes",
    kinds=(REPLICA_GROUPS,),
    find=find,
    after=("matmul-precision",),
)
