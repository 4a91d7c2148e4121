"""The program's statement that a reason of a whole run goes back to, where it runs no operation.

A batch that is padded to its longest member is seen where it is sent to the device, and parameters
that are frozen by turns where the optimizer steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine, say
from xlagraph.rules.sizes import INPUT_SHAPE
from xlagraph.runs.input_sizes import Size, sizes_apart
from xlagraph.runs.kinds import CHANGING_UPDATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.run.reader import Run
    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.model import CauseGroup

MANY = 3
"""So many graphs of other sizes at least come of the longest of a batch: of a last batch fewer."""
OPTIONS = {INPUT_SHAPE: "padding", CHANGING_UPDATES: "requires_grad"}
"""What is set to a computed value by a statement that graphs of such a kind come of."""
WORDS = {
    INPUT_SHAPE: "; the program pads to the longest of a batch",
    CHANGING_UPDATES: "; which of them are frozen is set",
}
PADDING_FIX = say(
    "Pad every batch to one length that all fit in, or to the next of a few, where the batch is "
    "put together: padding='max_length' with max_length, or pad_to_multiple_of; by hand, to a "
    "constant in place of the longest of the batch. Then every step sees one of a few shapes."
)


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
    return tuple(_stated(group, run, known) for group in groups)


def _stated(group: CauseGroup, run: Run, known: Mapping[str, CapturedGraph]) -> CauseGroup:
    option = OPTIONS.get(group.kind)
    lines = _statements(option, run) if option and not group.expected else ()
    is_one = len({(line.file, line.function) for line in lines}) == 1
    if not is_one or len(group.graphs) < MANY or group.place.line in lines:
        return group
    if group.kind is INPUT_SHAPE and not _is_padded([known[one] for one in group.graphs]):
        return group
    title = say(group.title, WORDS[group.kind], at(lines[:1]))
    place = Place(lines[0], tensors=group.place.tensors)
    cause = group.cause and replace(
        group.cause,
        title=title,
        place=place,
        fix=PADDING_FIX,
        short=say("batches are padded to their longest member"),
        short_fix=say("Pad every batch to one length, or to one of a few."),
    )
    return replace(group, title=title, cause=cause, place=place)


def _is_padded(graphs: Sequence[CapturedGraph]) -> bool:
    """Whether inputs differ in one dimension, in many sizes: images of another scale have two."""
    sizes = frozenset[Size]().union(*sizes_apart(graphs))
    dimensions = Counter((one.rank, one.dimension) for one in sizes)
    ranks = Counter(rank for rank, _ in dimensions)
    return max(dimensions.values(), default=0) >= MANY and max(ranks.values()) == 1


def _statements(option: str, run: Run) -> tuple[SourceLine, ...]:
    """The statements that set an option to what is computed."""
    found = {
        SourceLine(one.file, one.line, one.function)
        for process in run.processes
        for one in process.settings
        if one.option == option and not one.value
    }
    return tuple(sorted(found))
