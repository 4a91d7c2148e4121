"""Which operation of the framework makes a size, and what to do about that one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.sources import where
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import Code, Listing, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.model import Seen
    from xlagraph.cause.verdict import Made
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

MAX_STEPS = 24
MAX_AXES = 4
"""A row of more whole numbers is a row of tokens rather than a place in a tensor."""


@dataclass(frozen=True, slots=True)
class SizeMaker:
    """What makes a size, in words."""

    what: str
    """What another size is, as the end of a sentence: ``k of topk``."""
    fix: str
    short_fix: Message
    made: Made | None = None
    """The lines that make the number, above the one that takes it."""
    seen: Seen | None = None
    """How large it was, where a largest one is to be chosen."""
    name: str = ""
    """What the program calls it, where that is known."""

    @property
    def short(self) -> Message:
        """What happened, in at most ten words."""
        name = say(", ", Code(self.name), ",") if self.name else ""
        return say(f"the {self.what}", name, " changes from step to step")


TOPK = SizeMaker(
    "k of topk",
    "The k of topk is part of the graph: use one fixed k_max in all steps, the size of the "
    "dimension or the largest that can occur (it may be larger than those seen here), and mask "
    "what is not wanted: arange(k_max) < k, with k a tensor on the device; divide averages by k. "
    "int(k) or k.item() reads it, and ends the graph there as well.",
    say(
        "Take one k_max, k as a tensor, and mask:",
        Listing(
            (
                "k_max = x.shape[-1]",
                "v = torch.topk(x, k_max).values  # largest=, dim= as before",
                "v = torch.where(torch.arange(k_max, device=v.device) < k, v, 0)",
                "# averages: v.sum(-1) / k, not v.mean(-1)",
            )
        ),
    ),
)
ONE_HOT = SizeMaker(
    "number of classes of one_hot",
    "The number of classes is part of the graph: give the same, largest one in every step.",
    say("Give one_hot the same number of classes in every step."),
)
RESIZED = SizeMaker(
    "output size of interpolate",
    "The output size, or scale, is part of the graph: resize to one of a few sizes, each of which "
    "compiles once; or on the host before the tensor is sent, padded or cropped to one size there "
    "(on the host alone the size still varies).",
    say("Resize to one of a few sizes, or on the host, padded."),
)
PADDED = SizeMaker(
    "amount of padding",
    "The amount of padding is part of the graph: pad to one length in every step, or to one of a "
    "few, on the host before the tensor is sent if what is padded varies.",
    say("Pad to one length, or to one of a few."),
)
INDICES = SizeMaker(
    "number of indices",
    "The length of an index list is a shape of the graph, whether it is a Python list or a tensor "
    "from the host: pad it to one length (repeat an index, and give the copies the weight 0), or "
    "multiply by a mask over all rows instead of picking some.",
    say("Pad the index list to one length, or use a mask."),
)
_COUNTED = (
    "x[mask], nonzero() and torch.where(mask) have as many elements as the mask has true values, "
    "which is a shape of the graph (and is read from the device; each new number compiles)"
)
MASKED = SizeMaker(
    "number of elements that a mask keeps",
    f"{_COUNTED}: keep all elements, and let the mask count where their values are used (multiply "
    "losses, messages or weights by it, not indices; or choose with torch.where, where what is "
    "left out can be infinite or NaN). Where an average was taken, divide by mask.sum(); a sum "
    "stays a sum.",
    say(
        "Keep all: ", Code("torch.where(mask, x, 0)"), "; divide means by ", Code("mask.sum()"), "."
    ),
)
ROWS = replace(
    MASKED, short_fix=say("Compute with all rows, weighted by the mask, in place of picking some.")
)
"""Of the numbers of rows, by which others are picked."""
MASKED_NUMBERS = replace(
    MASKED,
    fix=f"{_COUNTED}. What is picked here are whole numbers (indices, labels): keep all of them as "
    "they are, since a 0 in the place of one is an index or a label too, and multiply what is "
    "computed of them (messages, losses, ones that are counted) by the mask. Where an average was "
    "taken, divide by mask.sum(); a sum stays a sum.",
    short_fix=say(
        "Keep all, and multiply what is computed of them (messages, losses) by the mask."
    ),
)
"""Of whole numbers."""
UNIQUE = SizeMaker(
    "number of values of unique",
    "unique() has as many rows as there are different values, which is a shape of the graph (and "
    "is read from the device): call it on the host and pad what it gives to one length there, the "
    "largest that can occur (on the host alone the length still varies), with a mask by which what "
    "was added counts nothing; or count with a one-hot or bincount of a fixed number of values.",
    say("Call unique on the host and pad to one length, or count over a fixed range."),
)
BINCOUNT = SizeMaker(
    "number of bins of bincount",
    "bincount() has as many rows as the largest value says, which is a shape of the graph (and is "
    "read from the device): give it minlength, the number of classes, and take that many rows.",
    say("Give bincount a minlength that all values fit in."),
)
REPEATED = SizeMaker(
    "number of rows of repeat_interleave",
    "repeat_interleave() has as many rows as its counts sum up to, which is a shape of the graph "
    "(and the counts are read from the device): give the result one size, the largest that can "
    "occur. index = torch.searchsorted(counts.cumsum(0), torch.arange(n_max, device=x.device), "
    "right=True) says of each place of it which row stands there; pick with "
    "x[index.clamp(max=len(x) - 1)], and mask what is beyond the sum. Padding the result is not "
    "enough: what is padded has the size of the counts.",
    say("Pick rows by searchsorted(counts.cumsum(0), arange(n_max)), and mask the rest."),
)
SPLIT = SizeMaker(
    "list of split sizes",
    "The sizes of the parts, and their number, are shapes of the graph: compute over the whole "
    "tensor at once, with a mask made from a tensor of part numbers (for attention a "
    "block-diagonal one), or pad every part to one size.",
    say("Compute over the whole tensor with a mask of its parts."),
)
LISTED = SizeMaker(
    "number of tensors joined",
    "A Python list that is joined (torch.stack, torch.cat) has another length: join equally many "
    "in every step (pad the list, and mask), or keep a running value, or a tensor of fixed size "
    "that is written with index_copy_.",
    say("Join equally many tensors in every step, or keep a running value."),
)
CUT = SizeMaker(
    "length of a slice",
    "The length of the slice is a Python number, and every length is a shape of the graph; an "
    "index on the device does not change that. Take one length in every step, the largest, and "
    "send the number as a tensor for a mask: torch.arange(n_max, device=n.device) < n, applied "
    "where the values are used (an attention mask, torch.where, a sum divided by n). Or take one "
    "of a few lengths.",
    say("Take one length in every step, and mask by a tensor."),
)
"""Of a slice that nothing better is known of."""
_BY_OPERATION = (
    ("topk", TOPK),
    ("upsample", RESIZED),
    ("interpolate", RESIZED),
    ("pad", PADDED),
)
_BY_CALL = (
    (re.compile(r"\bbincount\((?!.*minlength)"), BINCOUNT),
    (re.compile(r"\brepeat_interleave\((?!.*output_size)"), REPEATED),
    (re.compile(r"\bunique(?:_consecutive)?\("), UNIQUE),
    (re.compile(r"\b(?:nonzero|argwhere)\("), ROWS),
    (
        re.compile(
            r"(?:\b(?:torch|np|numpy|jnp)\.|(?<![\w.]))where\((?:[^()\[\],]|\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])+\)"
        ),
        ROWS,
    ),
    (re.compile(r"\bmasked_select\("), MASKED),
    (re.compile(r"[\w)\]]\[(?![^\[\]]*\bif\b)[^\[\]]*(?:[=!]=|(?<![-<>])[<>](?![<>]))"), MASKED),
)
"""What the program's line says that an input comes from; ``where`` counts with one argument, and of
the last a comparison as an index."""
_SENT = re.compile(r"\.(?:to|cuda)\(|\bsend_cpu_data_to_device\(")
_PICKED = re.compile(r"[\w)\]]\[(?!\s*(?:[\"']|-?\d+\s*\]))")
"""A subscript that may be a mask: neither a key nor a place."""
_BOUNDS = re.compile(r"\[(\d+):(\d+)(?::1)?\]")
_WHOLE = ("s64[", "s32[", "u32[")
_ON_THE_WAY = frozenset(
    {
        "add", "broadcast", "clamp", "compare", "concatenate", "convert", "reshape", "select",
        "slice", "transpose",
    }
)  # fmt: skip


def size_maker(case: Case, starts: Mapping[int, int]) -> SizeMaker | None:
    """What makes the sizes that differ at these instructions of A; None if not known."""
    a = case.diff.a
    if all(is_input(a, x) for x in starts):
        return _input_maker(case, starts)
    for x in starts:
        metadata = a.metadata(x)
        operation = metadata.op_type if metadata else ""
        maker = next((one for part, one in _BY_OPERATION if part in operation), None)
        if maker:
            return maker
    if any(_is_picked_from_sort(a, x) for x in starts):
        return TOPK
    if all(_is_part(case.diff.b, y) for x, y in starts.items() if a.opcodes[x] == "slice") and any(
        _is_part(a, x) for x in starts
    ):
        return SPLIT
    if all(_is_scattered_into(a, x) for x in starts):
        return ONE_HOT
    return PADDED if all(a.opcodes[x] == "pad" for x in starts) else None


def _input_maker(case: Case, starts: Mapping[int, int]) -> SizeMaker | None:
    """What makes the sizes of inputs; of a function of JAX's it is done before the call."""
    a = case.diff.a
    if is_jitted(a):
        return None
    if any(_comes_from_unique(a, x) for x in starts):
        return UNIQUE
    called = {maker_in_line(case.b, y) for y in starts.values()}
    maker = called.pop() if len(called) == 1 else None
    if maker is None:
        found = {_index(a, x) for x in starts}
        maker = found.pop() if len(found) == 1 else None
        is_sent = maker is MASKED and all(_is_sent(case.b, y) for y in starts.values())
        maker = INDICES if is_sent else maker
    is_of_numbers = maker in (MASKED, ROWS) and any(_picks_numbers(a, x) for x in starts)
    return MASKED_NUMBERS if is_of_numbers else maker


def _comes_from_unique(module: Module, parameter: int) -> bool:
    metadata = module.metadata(parameter)
    frames = metadata.frames if metadata else ()
    return any("unique" in one.function and "torch/" in one.file for one in frames)


def maker_in_line(view: SideView, parameter: int) -> SizeMaker | None:
    """What the line says that an input was made in: values decide about its size there."""
    return maker_in_text(_text(view, _line(view, parameter)))


def maker_in_text(text: str) -> SizeMaker | None:
    """What a piece of the program's text calls of which values decide about a size."""
    return next((maker for pattern, maker in _BY_CALL if pattern.search(text)), None)


def is_masked_in_line(view: SideView, parameter: int) -> bool:
    """Whether rows of indices come from a line that picks by a name and sends nothing itself."""
    text = _text(view, _line(view, parameter))
    is_picked = bool(_PICKED.search(text)) and not _SENT.search(text)
    return is_picked and _index(view.module, parameter) is MASKED


def _is_sent(view: SideView, parameter: int) -> bool:
    """Whether its line itself sends what the host has made, and picks nothing by a mask."""
    line = _line(view, parameter)
    text = _text(view, line)
    is_own = line is not None and line.called is None
    return is_own and bool(_SENT.search(text)) and not _PICKED.search(text)


def _line(view: SideView, parameter: int) -> SourceLine | None:
    """The program's line that an input was made in."""
    return next(iter(where(view.module, [parameter])), None)


def _text(view: SideView, line: SourceLine | None) -> str:
    return dict(view.context.around(line)).get(line.line, "") if line else ""


def part_sizes(case: Case, starts: Mapping[int, int]) -> frozenset[tuple[int, int]]:
    """A's size and B's of any part of what is split at these instructions of A, if it is.

    Parts are told apart by their sizes alone, so that any may be paired with any.
    """
    a, b = case.diff.a, case.diff.b
    return frozenset(
        (old, new)
        for x, y in starts.items()
        for old in _part_sizes(a, x)
        for new in _part_sizes(b, y)
        if old != new
    )


def _is_part(module: Module, i: int) -> bool:
    return bool(_part_sizes(module, i))


def _part_sizes(module: Module, i: int) -> set[int]:
    """The sizes of slices that divide a value along one axis, leaving nothing out.

    Empty if this instruction is none of them.
    """
    if module.opcodes[i] != "slice":
        return set()
    (source,) = module.operands[i]
    size = read_shape(module.shapes[source]).dimensions
    bounds = [_bounds(module, u) for u in module.users[source] if module.opcodes[u] == "slice"]
    whole = [(0, one) for one in size]
    for axis in range(len(size)):
        others = [b for b in bounds if b[:axis] + b[axis + 1 :] == whole[:axis] + whole[axis + 1 :]]
        parts = sorted({b[axis] for b in others})
        ends = [0, *(end for _, end in parts)]
        starts = [*(start for start, _ in parts), size[axis]]
        if len(parts) > 1 and starts == ends and _bounds(module, i)[axis] in parts:
            return {end - start for start, end in parts}
    return set()


def _bounds(module: Module, i: int) -> list[tuple[int, int]]:
    found = _BOUNDS.findall(module.attributes[i].get("slice") or "")
    return [(int(low), int(high)) for low, high in found]


def _index(module: Module, parameter: int) -> SizeMaker | None:
    """What whole numbers are that are used as the indices of a gather or scatter alone.

    One list of them is an index; rows of several are what nonzero() gives. A batch of numbers that
    an embedding looks up is no list that somebody picks rows with.
    """
    if not module.shapes[parameter].startswith(_WHOLE):
        return None
    dimensions = read_shape(module.shapes[parameter]).dimensions
    indexed = list(_indexed(module, parameter))
    is_list = len(dimensions) in (1, 2)
    if not indexed or not is_list or any(_is_embedding(module, i) for i in indexed):
        return None
    if len(dimensions) == 1:
        return INDICES
    return MASKED if dimensions[1] <= MAX_AXES else None


def _indexed(module: Module, parameter: int) -> Iterator[int]:
    """The gathers and scatters of which an input is the index."""
    stack, seen = [parameter], {parameter}
    while stack and len(seen) < MAX_STEPS:
        i = stack.pop()
        for user in module.users[i]:
            if module.opcodes[user] in ("gather", "scatter") and module.operands[user][1] == i:
                yield user
            elif module.opcodes[user] in _ON_THE_WAY and user not in seen:
                stack.append(user)
                seen.add(user)


def _picks_numbers(module: Module, parameter: int) -> bool:
    """Whether whole numbers are among what is picked by an index."""
    return any(
        module.opcodes[i] == "gather" and module.shapes[module.operands[i][0]].startswith(_WHOLE)
        for i in _indexed(module, parameter)
    )


def _is_embedding(module: Module, i: int) -> bool:
    """Whether a gather is that of an embedding of torch, by its stack."""
    metadata = module.metadata(i)
    frames = metadata.frames if metadata else ()
    return any(one.function == "embedding" and "torch/" in one.file for one in frames)


def _is_picked_from_sort(module: Module, i: int) -> bool:
    """Whether a slice takes the first of what was sorted."""
    if module.opcodes[i] != "slice":
        return False
    (source,) = module.operands[i]
    while module.opcodes[source] == "get-tuple-element":
        (source,) = module.operands[source]
    return module.opcodes[source] in ("sort", "topk")


def _is_scattered_into(module: Module, i: int) -> bool:
    """Whether zeros of this size are what whole numbers are scattered into, or sized by that."""
    if module.opcodes[i] != "broadcast" or not module.shapes[i].startswith(("s64[", "s32[")):
        return False
    users = module.users[i]
    ends = [u for u in users if module.opcodes[u] == "scatter"]
    ends += [v for u in users if module.opcodes[u] == "slice" for v in module.users[u]]
    return bool(ends) and all(module.opcodes[u] == "scatter" for u in ends)
