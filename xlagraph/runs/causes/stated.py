"""The program's statement that a reason of a whole run goes back to, where it runs no operation.

A batch that is padded to its longest member, joined of items of any length, or cut to a length that
is drawn, is seen where it is sent to the device, and parameters that are frozen by turns where the
optimizer steps.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.facts.shapes.size_makers import INDICES, REPEATED
from xlagraph.message import SourceLine, say
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.runs.causes.blocks import LAYERDROP_FIX, LAYERDROP_SHORT_FIX
from xlagraph.runs.graphs.input_sizes import Size, sizes_apart
from xlagraph.runs.kinds import CHANGING_UPDATES
from xlagraph.runs.model import ranked
from xlagraph.runs.steps.spent import together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.run.reader import Run
    from xlagraph.run.records import SettingRecord
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import CauseGroup

MANY = 3
"""So many graphs of other sizes at least come of the longest of a batch: of a last batch fewer."""
ROWS = 2
"""Dimensions of a table."""

_INDICES = re.compile(r"\bs(?:32|64)\[\d+\]")
"""The shape of a list of whole numbers."""
NO_DROP = frozenset({"0", "0.0"})


class Stated(NamedTuple):
    """What a statement that runs no operation sets, and what is said of graphs that come of it."""

    option: str
    title: str
    short: str = ""
    short_fix: str = ""
    fix: str = ""


PADDED = Stated(
    "padding",
    "; the program pads to the longest of a batch",
    "batches are padded to their longest member",
    "Pad every batch to one length, or to one of a few.",
    "Pad every batch to one length that all fit in, or to the next of a few, where the batch is "
    "put together: padding='max_length' with max_length, or pad_to_multiple_of; by hand, to a "
    "constant in place of the longest of the batch. Then every step sees one of a few shapes.",
)
JOINED = Stated(
    "joined",
    "; the program joins the items of a batch, of any length,",
    "a batch is as long as its items together",
    "Pad what is joined to one length, or to one of a few.",
    "Pad what the batch is joined to, where it is put together, to one length that all batches fit "
    "in, or to the next of a few: rows that belong to an item of their own, which the loss leaves "
    "out (of graphs an extra one, with its edges within it). Then every step sees one of a few "
    "shapes.",
)
CUT = Stated(
    "cut",
    "; the program cuts to a length that Python draws",
    "batches are cut to a length that Python draws",
    "Take one length, or one of a few; mask what is beyond it.",
    "Take one length in every step, the largest, and send the drawn number as a tensor for a mask: "
    "torch.arange(n_max, device=n.device) < n, applied where the loss is computed. Or draw one of "
    "a few lengths, each of which compiles once.",
)
DISTINCT = Stated(
    "distinct",
    "; the program keeps the different items of a batch alone",
    "a batch is as long as it has different items",
    "Pad what is sent to one length that all batches fit in.",
    "Pad what the batch is put together of to the largest number that can occur, with rows of an "
    "item of their own that the loss leaves out (of a sampled graph an extra node, and edges "
    "within it), or to the next of a few numbers. Then every step sees one of a few shapes.",
)
FROZEN = Stated("requires_grad", "; which of them are frozen is set")
DROPPED = Stated(
    "layerdrop",
    "; the program gives the model a layerdrop",
    short_fix="Set it to 0: each choice of layers is a graph.",
    fix="Set it to 0, and use dropout instead, which the device draws: the model's code draws on "
    "the host which layers run, and each choice of them is a graph of its own.",
)
CONFIGURED = "configuration"
UNSAID = say("; the configuration does not say a layerdrop")
_MASKS = "_mask_hidden_states"
"""What models of speech in transformers call to mask frames while they train."""
MASKED = say("; the model masks drawn frames (SpecAugment), which the configuration asks for")
MASKED_FIX = say(
    "The model's own code in transformers draws on the host which frames to mask, and writes them "
    "with x[mask], as many as were drawn: give the configuration apply_spec_augment=False, which "
    "is True by default, or mask_time_prob=0; and mask on the host, or with torch.where."
)
MASKED_SHORT_FIX = say("Set the configuration's apply_spec_augment to False: it is on by default.")
_OF_MODEL = re.compile(r"/transformers/models/(\w+)/")
STATEMENTS = {
    INPUT_SHAPE: (PADDED, JOINED, DISTINCT, CUT),
    CHANGING_UPDATES: (FROZEN,),
    SKIPPED_BLOCK: (DROPPED,),
}
"""What graphs of such a kind may come of; the first that the program has is asked."""


def with_statements(
    groups: Sequence[CauseGroup], run: Run, graphs: Sequence[CapturedGraph]
) -> tuple[CauseGroup, ...]:
    """The groups, with the place of the one function whose statement each goes back to.

    Args:
        groups: all of the run.
        run: what its program says.
        graphs: of the run.
    """
    known = {graph.record.digest: graph for graph in graphs}
    return placed_anew(groups, [_stated(group, run, known) for group in groups])


def placed_anew(
    groups: Iterable[CauseGroup], placed: Iterable[CauseGroup]
) -> tuple[CauseGroup, ...]:
    """Groups, those that have another place than before as one for each kind and line."""
    alike: dict[object, list[CauseGroup]] = {}
    for old, new in zip(groups, placed, strict=True):
        alike.setdefault(id(old) if new is old else (new.kind, new.place.line), []).append(new)
    return ranked(as_one(members) for members in alike.values())


def as_one(groups: Sequence[CauseGroup]) -> CauseGroup:
    """Groups of one edit, which the program feels at several lines, as the first of them."""
    first, *rest = groups
    if not rest:
        return first
    return replace(
        first,
        further=tuple({(c.kind, c.place.line): c for one in groups for c in one.further}.values()),
        follows=tuple(one for group in groups for one in group.follows),
        graphs=tuple(digest for group in groups for digest in group.graphs),
        compiles=sum(group.compiles for group in groups),
        spent=together([group.spent for group in groups]),
        steps=tuple(sorted({step for group in groups for step in group.steps})),
        proved=all(group.proved for group in groups),
    )


def _configuration(group: CauseGroup, run: Run) -> SourceLine | None:
    """The one line of the program that configures the transformers model which a group runs in.

    Any model's where the group does not tell it.
    """
    models = {found[1] for one in group.place.stack if (found := _OF_MODEL.search(one.file))}
    names = tuple(name.replace("_", "") for name in models)
    told = [
        (one.value.lower(), SourceLine(one.file, one.line, one.function))
        for process in run.processes
        for one in process.settings
        if one.option == CONFIGURED and (not names or one.value.lower().startswith(names))
    ]
    exact = {line for value, line in told if value.removesuffix("config") in names}
    lines = exact or {line for _, line in told}  # one folder may hold several models
    return lines.pop() if len(lines) == 1 else None


def _configured(group: CauseGroup, run: Run) -> CauseGroup:
    """The group of layers that a model drops by default, at the line that configures it."""
    line = _configuration(group, run)
    if group.mend != (LAYERDROP_FIX, LAYERDROP_SHORT_FIX) or line is None:
        return group
    title = say(group.title, UNSAID, at((line,)))
    return replace(group, title=title, place=Place(line, tensors=group.place.tensors))


def _masked(group: CauseGroup, run: Run) -> CauseGroup:
    """The group of frames that a model masks by default (SpecAugment), at its configuration."""
    line = _configuration(group, run)
    if group.cause is None or line is None:
        return group
    title = say(group.title, MASKED, at((line,)))
    place = Place(line, tensors=group.place.tensors)
    cause = replace(
        group.cause, title=title, place=place, fix=MASKED_FIX, short_fix=MASKED_SHORT_FIX
    )
    return replace(group, title=title, cause=cause, place=place)


def _stated(group: CauseGroup, run: Run, known: Mapping[str, CapturedGraph]) -> CauseGroup:
    if any(frame.function == _MASKS for frame in group.place.stack):
        return _masked(group, run)
    said = next((one for one in STATEMENTS.get(group.kind, ()) if _records(one, run)), None)
    records = _records(said, run) if said and not group.expected else ()
    lines = sorted({SourceLine(one.file, one.line, one.function) for one in records})
    is_one = len({(line.file, line.function) for line in lines}) == 1
    if not said:
        return _configured(group, run) if group.kind is SKIPPED_BLOCK else group
    is_few = len(group.graphs) < MANY and said is not DROPPED
    if not is_one or group.place.line in lines or is_few:
        return group
    if group.kind is INPUT_SHAPE and not _is_padded([known[one] for one in group.graphs]):
        return group
    if said in (JOINED, DISTINCT, CUT) and _is_made(group):
        return group
    if group.cause and group.cause.short == REPEATED.short:
        return group  # on the device: to pad what comes of it leaves its sizes as they are
    if said is PADDED and group.cause and _picks_as_many(group.cause, group.graphs, known):
        return replace(group, cause=_of_indices(group.cause))
    if said is JOINED and not _is_joined(group, records, known):
        return group
    title = say(group.title, said.title, at(lines[:1]))
    place = Place(lines[0], tensors=group.place.tensors)
    cause = group.cause and replace(
        group.cause,
        title=title,
        place=place,
        fix=say(said.fix),
        short=say(said.short),
        short_fix=say(said.short_fix),
    )
    mend = () if cause else tuple(map(say, filter(None, (said.fix, said.short_fix))))
    return replace(group, title=title, cause=cause, place=place, mend=mend)


def _is_made(group: CauseGroup) -> bool:
    """Whether it is known what makes the sizes; indices may come from the host as they are."""
    short = group.cause.short if group.cause else ()
    return bool(short) and short != INDICES.short


def _is_joined(
    group: CauseGroup, records: Sequence[SettingRecord], known: Mapping[str, CapturedGraph]
) -> bool:
    """Whether inputs differ along the axes that are joined."""
    sizes = frozenset[Size]().union(*sizes_apart([known[one] for one in group.graphs]))
    axes = {int(one.value) for one in records}
    return all(
        any(axis in (one.dimension, one.dimension - one.rank) for axis in axes) for one in sizes
    )


def _is_padded(graphs: Sequence[CapturedGraph]) -> bool:
    """Whether inputs differ in one dimension, in many sizes: images of another scale have two.

    Of inputs of two dimensions some may be indices that a mask picks, as many as it keeps.
    """
    sizes = frozenset[Size]().union(*sizes_apart(graphs))
    dimensions = Counter((one.rank, one.dimension) for one in sizes)
    ranks = Counter(rank for rank, _ in dimensions if rank > ROWS)
    return max(dimensions.values(), default=0) >= MANY and max(ranks.values(), default=1) == 1


def _picks_as_many(
    cause: Cause, digests: Iterable[str], known: Mapping[str, CapturedGraph]
) -> bool:
    """Whether a list of indices has another length too, which does not follow the padded one.

    It gets longer in graphs in which that does, and in others in which that gets shorter.
    """
    if not _INDICES.search(str(cause.title)):
        return False
    apart = sizes_apart([known[one] for one in digests])
    picked = [{one.size for one in sizes if one.rank == 1} for sizes in apart]
    padded = [{one.size for one in sizes if one.rank == ROWS} for sizes in apart]
    told = [
        (min(own), max(others))
        for own, others in zip(picked, padded, strict=True)
        if len(own) == 1 and others
    ]
    ways = Counter(
        (one[0] > other[0]) == (one[1] > other[1])
        for one, other in combinations(told, 2)
        if one[0] != other[0] and one[1] != other[1]
    )
    return min(ways[True], ways[False]) >= MANY


def _of_indices(cause: Cause) -> Cause:
    """A cause of sizes, said as another number of indices."""
    return replace(cause, fix=say(INDICES.fix), short=INDICES.short, short_fix=INDICES.short_fix)


def _records(stated: Stated, run: Run) -> tuple[SettingRecord, ...]:
    """The statements that set this to what is computed.

    Where none does, of what freezes all and then thaws a few those that thaw.
    """
    told = [one for p in run.processes for one in p.settings if one.option == stated.option]
    found = tuple(one for one in told if _is_asked(stated, one))
    thaw = (one for one in told if stated is FROZEN and one.value == "True")
    return found or tuple(thaw)


def _is_asked(stated: Stated, one: SettingRecord) -> bool:
    is_dropped = stated is DROPPED and one.value not in NO_DROP
    return not one.value or stated is JOINED or is_dropped
