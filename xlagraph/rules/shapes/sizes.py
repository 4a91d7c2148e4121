"""Dimensions that differ: where they come from and how far they spread."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Level
from xlagraph.cause.editor import UNDONE, is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import attribute_changes, parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.match import match_modules
from xlagraph.facts.pieces.joined import longer_lists, pieces
from xlagraph.facts.pieces.propagation import propagations
from xlagraph.facts.shapes.advice import DATA_FIX, WEIGHT_FIX, words_of_inputs
from xlagraph.facts.shapes.batch_calls import cut_by
from xlagraph.facts.shapes.counts import counting_constants
from xlagraph.facts.shapes.fed_sizes import gives_windows, inputs_above, sizes_of
from xlagraph.facts.shapes.options import options_above
from xlagraph.facts.shapes.senders import asked_at, called_by_step, sent_first
from xlagraph.facts.shapes.size_makers import LISTED, part_sizes
from xlagraph.facts.shapes.size_origins import made_by, maker_above
from xlagraph.facts.shapes.sizes import (
    INDEX_OPCODES,
    Sizes,
    changed_sizes,
    explained,
    follows_operand,
    resized,
    same_structure,
    stated_sizes,
    with_dimensions,
    with_sizes,
)
from xlagraph.facts.values.fills import fills
from xlagraph.message import EMPTY, A, B, Change, count, join, say
from xlagraph.rules.shapes.growing_input import GROWING_INPUT, following, growers, growing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.propagation import Propagation
    from xlagraph.message import Message

_PROOF = (
    "B's dimensions are put into A at the origin and where they spread to. Constants that are "
    "numbers of elements get B's values; one whose use does not show that it is one is named as "
    "assumed."
)
_EVIDENCE = "The origin, the dimension that changed, and how far it spreads."
INPUT_SHAPE = Kind(
    id="input-shape",
    title="An input has another shape",
    section=Section.INPUTS,
    meaning="The last batch of an epoch is smaller, a sequence longer, padding goes to one of "
    "several sizes. Every size is a graph of its own, and so is all that depends on it.",
    before="""\
loader = DataLoader(dataset, batch_size=8)  # 37 samples: the last batch has 5
for x, y in loader:
    update(loss_fn(model(x.to("xla")), y.to("xla")))
""",
    after="""\
loader = DataLoader(dataset, batch_size=8, drop_last=True)
for x, y in loader:
    update(loss_fn(model(x.to("xla")), y.to("xla")))
""",
    evidence=_EVIDENCE,
    fix=f"For data: {DATA_FIX} For a weight: {WEIGHT_FIX}",
    proof=_PROOF,
    examples=(
        "last_batch",
        "index_list",
        "growing_sequence",
        "pad_to_multiple",
        "two_shapes",
        "one_wider_layer",
        "batch_and_warm_up",
        "batch_and_scale",
        "scan_trip_count",
    ),
    consequences=("attribute",),
    short_fix="Pad or drop the odd batch, or use few sizes.",
)
PYTHON_INDEX = Kind(
    id="python-index",
    title="A Python number (an index, a bound, k of topk) is part of the graph",
    section=Section.VALUES,
    meaning="Indexing with a Python number bakes the bounds into the graph: a slice, a pad, a "
    "gather, an iota. Another number is another graph; a slice of another length also changes "
    "every shape after it.",
    before="""\
table = torch.randn(16, 16, device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    update(loss_fn(model(x + table[step]), y))  # one graph a step
""",
    after="""\
table = torch.randn(16, 16, device="xla")
row = torch.zeros(1, dtype=torch.long, device="xla")
torch_xla.sync()
for x, y in loader:
    out = model(x + table.index_select(0, row))
    row += 1
    update(loss_fn(out, y))
""",
    evidence="The bounds on both sides, or the origin and how far it spreads.",
    fix="Index with a tensor on the device (torch.index_select, or a dynamic slice), or move the "
    "indexing to the host before the tensor is sent.",
    proof="A gets B's bounds, and the sizes that follow.",
    examples=(
        "python_index",
        "random_crop",
        "growing_prefix",
        "slice_size",
        "topk_size",
        "resized_images",
        "written_slots",
    ),
    short="A Python index or slice changes",
    short_fix="Send the index to the device as a tensor.",
)
PYTHON_SIZE = Kind(
    id="python-size",
    title="A tensor made inside the graph has another size",
    section=Section.VALUES,
    meaning="torch.zeros(n), arange(n), a mask of n rows: the size that Python computes is part of "
    "the graph.",
    before="""\
for step, (x, y) in enumerate(loader):
    rows = 1 + step % 3
    mask = torch.ones(rows, 4, device="xla")  # as long as Python says
    update((F.pad(mask, (0, 0, 0, 8 - rows)) * model(x)).pow(2).mean())
""",
    after="""\
row = torch.arange(8).reshape(8, 1).to("xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    rows = torch.tensor([1.0 + step % 3]).to("xla")  # a tensor: a parameter of the graph
    update(((row < rows).float() * model(x)).pow(2).mean())
""",
    evidence=_EVIDENCE,
    fix="Make tensors of a fixed size in every step and mask what is not used; a size that Python "
    "computes is part of the graph.",
    proof=_PROOF,
    examples=("growing_mask", "one_hot_classes"),
    may_grow=True,
    short="A tensor made in the step changed size",
    short_fix="Make tensors of one size in every step; mask the rest.",
)
ATTRIBUTE = Kind(
    id="attribute",
    title="An instruction has other options",
    section=Section.VALUES,
    meaning="The same operation with another option: the axis of a sum or a softmax, a foreign "
    "function, a generator's algorithm, the pairs of a permutation, what it waits for. Sizes may "
    "follow from it.",
    before="""\
for step, (x, y) in enumerate(loader):
    weights = torch.softmax(model(x), dim=step % 2)
    update((weights * weights).sum())
""",
    after="""\
for x, y in loader:
    weights = torch.softmax(model(x), dim=1)
    update((weights * weights).sum())
""",
    evidence="The options that differ.",
    fix="Keep this operation's options the same in every step.",
    proof="A's instruction gets B's options, and the sizes that follow.",
    examples=(
        "softmax_axis",
        "concatenated_axis",
        "triangular_solve",
        "custom_call_target",
        "custom_call_option",
        "rng_algorithm",
        "permute_pairs",
        "frontend_attributes",
    ),
    short="An operation has other options",
    short_fix="Keep the operation's options the same in every step.",
)
ORDER = (INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE)
"""From the origin that others follow to the one that follows them."""


@dataclass(frozen=True, slots=True)
class Origins:
    """Where a change of sizes starts, and what follows from it; A's numbers to B's."""

    kind: Kind
    starts: Mapping[int, int]
    members: Mapping[int, int]
    sizes: Sizes
    options: Mapping[int, int] = field(default_factory=dict)
    """The instructions whose options made these sizes, where no Python number did."""


def find(case: Case) -> list[Finding]:
    """Dimensions that differ at an origin and in all that depends on it.

    Changes that never meet, and whose sizes are not the same, are findings of their own.
    """
    a, b = case.diff.a, case.diff.b
    shaped = {
        x: y
        for x, y, fields in case.open_changes()
        if "shape" in fields and "opcode" not in fields and same_structure(a.shapes[x], b.shapes[y])
    }
    if not shaped:
        return []
    shaped = _pairs_without_sizes(case, shaped)
    found: list[Origins] = []
    for one in propagations(case, shaped):
        if any(_may_start(case, x, y) for x, y in one.origins):
            found += _origins(case, one)
    joined = _joined(case, found)
    crossed = _inputs_crossed(case, [one for one in joined if one.kind is INPUT_SHAPE])
    return [
        _finding(case, _with_options(case, origins))
        for origins in joined
        if origins.kind is not INPUT_SHAPE or not (crossed or _inputs_crossed(case, [origins]))
    ]


def _inputs_crossed(case: Case, origins: Sequence[Origins]) -> bool:
    """Whether the inputs of both sides have the same shapes: they were only used otherwise."""
    old = Counter(case.diff.a.shapes[x] for one in origins for x in one.starts)
    new = Counter(case.diff.b.shapes[y] for one in origins for y in one.starts.values())
    return old == new


def _with_options(case: Case, origins: Origins) -> Origins:
    """The origins as what they are if options made the sizes, or inputs without a partner."""
    if origins.kind is not PYTHON_SIZE:
        return origins
    inputs = inputs_above(case, origins.starts)
    if inputs:
        every = {**origins.members, **inputs}
        return Origins(INPUT_SHAPE, inputs, every, sizes_of(case, inputs))
    options = options_above(case, origins.starts)
    return replace(origins, kind=ATTRIBUTE, options=options) if options else origins


def _may_start(case: Case, x: int, y: int) -> bool:
    """Whether a size can come from here.

    A called computation is given its parameters; what has another number of dimensions is
    an input, or another step; and what was undone only stands for a value.
    """
    a = case.diff.a
    if x in a.entry_computation.parameters:
        return is_input(a, x)
    return a.opcodes[x] not in ("parameter", UNDONE) and bool(sizes_of(case, {x: y}))


def _pairs_without_sizes(case: Case, known: Mapping[int, int]) -> dict[int, int]:
    """Pairs that differ in their sizes, matched with all sizes taken for one.

    Sizes tell instructions apart that are each other's partners, and let others pair that are
    not; what only the first match paired is kept where it contradicts nothing.
    """
    a, b, live = case.diff.a, case.diff.b, case.diff.match.a.live
    to_b = match_modules(a, b, Level.SHAPES, case.diff.match.known).to_b
    found = {
        x: y
        for x, y in enumerate(to_b)
        if y >= 0
        and live[x]
        and x not in case.a.claimed
        and y not in case.b.claimed
        and a.opcodes[x] == b.opcodes[y] != "tuple"
        and changed_sizes(a.shapes[x], b.shapes[y])
    }
    taken = set(to_b)
    return found | {
        x: y for x, y in known.items() if to_b[x] == y or (to_b[x] < 0 and y not in taken)
    }


def _origins(case: Case, found: Propagation) -> list[Origins]:
    """A propagation by its origins: those of the first kind, then those that do not follow."""
    starts = {x: y for x, y in found.origins if _may_start(case, x, y)}
    made = {x: y for x, y in starts.items() if not _fits_another(case, x, found.pairs)}
    starts = made or starts
    kinds = {x: _kind(case, x) for x in starts}
    sized = {x: starts[x] for x, kind in kinds.items() if kind is PYTHON_SIZE}
    if longer_lists(case, sized) or maker_above(case.b, [*sized.values()], ())[0]:
        kinds |= {x: PYTHON_SIZE for x in starts if case.diff.a.opcodes[x] == "iota"}  # so sized
    kind = min(kinds.values(), key=ORDER.index)
    first = {x: y for x, y in starts.items() if kinds[x] is kind}
    sizes = sizes_of(case, first)
    others = {
        x: y
        for x, y in found.pairs.items()
        if x not in first
        and _is_own_origin(case, x, y, sizes, is_start=x in starts)
        and not _fits_another(case, x, found.pairs)
    }
    if not others:
        return [Origins(kind, first, found.pairs, sizes)]
    other_sizes = sizes_of(case, others)
    a, b = case.diff.a, case.diff.b
    unlike = {
        x: y
        for x, y in found.pairs.items()
        if not explained(a.shapes[x], b.shapes[y], sizes)
        and explained(a.shapes[x], b.shapes[y], sizes | other_sizes)
    }
    theirs = unlike | others
    other_kind = min((_kind(case, x) for x in others), key=ORDER.index)
    return [
        Origins(kind, first, {x: y for x, y in found.pairs.items() if x not in theirs}, sizes),
        Origins(other_kind, others, theirs, other_sizes),
    ]


def _is_own_origin(case: Case, x: int, y: int, sizes: Sizes, *, is_start: bool) -> bool:
    """Whether a size is made here that does not follow from those above."""
    a, b = case.diff.a, case.diff.b
    if explained(a.shapes[x], b.shapes[y], sizes) or follows_operand(case, x, y):
        return False
    return is_start or (a.opcodes[x] in INDEX_OPCODES and bool(sizes_of(case, {x: y})))


def _fits_another(case: Case, x: int, pairs: Mapping[int, int]) -> bool:
    """Whether a value made of constants only has the size of what it is computed with."""
    a, b, closed = case.diff.a, case.diff.b, case.diff.match.a.closed
    changed = changed_sizes(a.shapes[x], b.shapes[pairs[x]])
    return bool(closed[x]) and any(
        o in pairs and not closed[o] and changed_sizes(a.shapes[o], b.shapes[pairs[o]]) == changed
        for user in a.users[x]
        for o in a.operands[user]
    )


def _kind(case: Case, x: int) -> Kind:
    a = case.diff.a
    if x in a.entry_computation.parameters:
        return INPUT_SHAPE
    return PYTHON_INDEX if a.opcodes[x] in INDEX_OPCODES else PYTHON_SIZE


def _joined(case: Case, found: Iterable[Origins]) -> list[Origins]:
    """Origins of which one's sizes are among the other's are one cause that cites them all."""
    joined: list[Origins] = []
    for origins in sorted(found, key=lambda o: (ORDER.index(o.kind), -len(o.sizes))):
        reach = (o.sizes | part_sizes(case, o.starts) for o in joined)
        home = next((k for k, sizes in enumerate(reach) if origins.sizes <= sizes), None)
        if home is None:
            joined.append(origins)
            continue
        other = joined[home]
        starts = {**other.starts, **origins.starts} if other.kind is origins.kind else other.starts
        members = {**other.members, **origins.members}
        joined[home] = Origins(other.kind, starts, members, other.sizes)
    return joined


def _finding(case: Case, origins: Origins) -> Finding:
    a, b = case.diff.a, case.diff.b
    every = origins.starts
    grows = growing(case, every) if origins.kind is INPUT_SHAPE else {}
    origins = replace(origins, starts=grows or every)
    starts = sorted(origins.starts)
    numbers = counting_constants(case, origins.members)
    filled = fills(case, origins.members)
    members = {x: y for x, y in origins.members.items() if (x, y) not in filled.pairs}
    claimed = {**members, **stated_sizes(case, origins.members), **numbers.certain}
    claimed |= {**numbers.assumed, **origins.options}
    assumed = join(
        sorted({f"{a.payloads[x]} -> {b.payloads[y]}" for x, y in numbers.assumed.items()})
    )
    dimensions = sorted(
        {c for x in starts for c in changed_sizes(a.shapes[x], b.shapes[origins.starts[x]])}
    )
    changed = resized(dimensions, in_text=bool(origins.options))
    starts_b = list(origins.starts.values())
    lists = longer_lists(case, origins.starts)
    cited = "concatenate" if lists else "slice"
    in_b = [y for y in starts_b if b.opcodes[y] == cited] or sent_first(b, starts_b)
    lines = where(b, in_b) or where(b, [u for y in in_b for u in b.users[y]])
    lines = tuple(dict.fromkeys((*where(b, growers(b, in_b)), *lines))) if grows else lines
    is_input_alone = origins.kind is INPUT_SHAPE and not grows
    asked = asked_at(case.b, in_b) if is_input_alone else None
    called = say() if asked else called_by_step(case.b, in_b[0], lines)
    sent = say("; what is asked for there is sent", at(lines)) if asked else say()
    lines = (asked, *lines) if asked else lines
    became = say(" became ", join(short_shape(b, origins.starts[x]) for x in starts), changed)

    def undo(edit: Editors) -> None:
        for x, y in claimed.items():
            edit.a.shapes[x] = with_dimensions(edit.a.shapes[x], edit.b.shapes[y])
            edit.a.attributes[x] = with_sizes(edit.a.attributes[x], edit.b.attributes[y])
            if y in edit.b.payloads and edit.a.opcodes[x] == "constant":
                edit.a.payloads[x] = edit.b.payloads[y]
        filled.undo(edit)
        for one in lists:
            one.shorten(edit)
        for x, y in origins.options.items():
            edit.a.attributes[x] = edit.b.attributes[y]

    names, title = _named(case, origins)
    maker, lines = made_by(case, origins.starts, lines, is_size=origins.kind is PYTHON_SIZE)
    maker = None if origins.options or grows else LISTED if lists else maker
    if grows:
        title = say("a carried tensor grows by a concatenation: ", names)
    elif lists:
        number = Change(*map(str, lists[0].number))
        title = say("a list of tensors has another length, ", number, " joined: ", names)
    elif maker:
        title = say(f"another {maker.what} is baked into the graph: ", names)
    words = maker or (cut_by(case.b, in_b, lines) if origins.kind is PYTHON_INDEX else None)
    advice = Words(say(words.fix), EMPTY, words.short_fix) if words else Words()
    if is_input_alone and not words:
        advice = words_of_inputs(case, origins.starts, dimensions)
    taken = say("; the constant ", assumed, " is taken for a number of elements")
    return Finding(
        kind=GROWING_INPUT if grows else origins.kind,
        title=say(title, became, at(lines), called, taken if assumed else say()),
        evidence=(
            Evidence(
                say("origin: ", names, became, sent),
                tuple(starts),
                tuple(origins.starts[x] for x in starts),
                lines,
            ),
            *following(case, every, origins.starts),
            *_spread_to(claimed, sorted(set(claimed) - every.keys())),
        ),
        fix=advice.fix,
        short=maker.short if maker else advice.short,
        short_fix=advice.short_fix,
        made=maker.made if maker else None,
        seen=maker.seen if maker else None,
        proof=say(
            B,
            "'s dimensions were put into ",
            A,
            " at the origin and where they spread to",
            say("; that ", assumed, " follows from them is assumed") if assumed else say(),
        ),
        a=frozenset(claimed).union((x for x, _ in filled.pairs), *pieces(lists, A)),
        b=frozenset(claimed.values()).union((y for _, y in filled.pairs), *pieces(lists, B)),
        undo=undo,
        brings=partial(gives_windows, sizes_of(case, origins.members)),
    )


def _spread_to(claimed: Mapping[int, int], others: list[int]) -> list[Evidence]:
    text = say(f"from there it spreads to {count(len(others), 'more instruction')}")
    found = Evidence(text, tuple(others)[:50], tuple(claimed[x] for x in others)[:50])
    return [found] if others else []


def _named(case: Case, origins: Origins) -> tuple[Message, Message]:
    """What changed its size, alone and as the beginning of a sentence."""
    a, b = case.diff.a, case.diff.b
    if origins.kind is INPUT_SHAPE:
        names = join(parameter_name(case.a, x) for x in sorted(origins.starts))
        return names, say("an input has another shape: ", names)
    names = join(f"{a.opcodes[x]} {short_shape(a, x)}" for x in sorted(origins.starts))
    if origins.options:
        x, y = min(origins.options.items())
        changes = attribute_changes(a.attributes[x], b.attributes[y])
        return names, say(f"{a.opcodes[x]} has other attributes: ", changes, "; ", names)
    what = "index" if origins.kind is PYTHON_INDEX else "size"
    return names, say(f"a Python {what} is baked into the graph: ", names)


RULE = Rule(
    name="sizes",
    kinds=(INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE, ATTRIBUTE),
    find=find,
    after=("dtype",),
)
