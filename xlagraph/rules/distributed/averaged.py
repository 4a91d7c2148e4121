"""A mean over devices on one side, and a sum over them on the other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import IDLE
from xlagraph.cause.sources import at, line_of
from xlagraph.facts.distributed.group_sizes import SUMS, divisor_of_mean
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding
from xlagraph.facts.pieces.pieces import OUTPUT, open_edges, piece_of
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.values.telling import HEAVY
from xlagraph.message import Code, count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

AVERAGED_SUM = Kind(
    id="averaged-sum",
    title="Values are averaged over the devices on one side, and summed on the other",
    section=Section.COLLECTIVES,
    meaning="A collective adds up what each device has, and a division by the number of devices "
    "makes a mean of it: jax.lax.pmean beside psum, xm.all_reduce with a scale or without. Of "
    "gradients the sum is larger by the number of devices, as if the learning rate were.",
    before="""\
gradients = jax.lax.pmean(gradients, "data")
...
gradients = jax.lax.psum(gradients, "data")  # in another step, or another version
""",
    after="""\
gradients = jax.lax.pmean(gradients, "data")  # everywhere
""",
    evidence="The collectives, and the divisions by the number of devices in their groups.",
    fix="Take the mean on both sides, or the sum on both. A loss that is a mean over a device's "
    "part of the batch asks for the mean of the gradients.",
    proof="The divisions are bypassed.",
    examples=("mean_over_devices",),
    short="A mean over devices here, a sum there",
    short_fix="Take the mean in both, or the sum in both.",
)
IN_JAX = ("jax.lax.pmean", "jax.lax.psum")
IN_TORCH = ("xm.all_reduce(..., scale=1 / world_size)", "no scale")
MAX_SHAPES = 3


class _Mean(NamedTuple):
    """A use of a division that makes a mean of a sum over devices."""

    edge: Edge
    collective: int
    """The sum, in the module that divides."""
    size: int
    """How many devices take part."""


def find(case: Case) -> list[Finding]:
    """Sums that one side alone divides by the number of devices, in one finding for each size.

    What one side divides before the sum and the other behind it is a mean on both.
    """
    edges = open_edges(case)
    found = {view.side: list(_means(view, less, edges)) for view, less in case.both_ways}
    sums = {
        view.side: {view.ab(one.collective, view.partners[one.collective]) for one in own}
        for view, _ in case.both_ways
        for own in (found[view.side],)
    }
    both = set.intersection(*sums.values())
    findings = []
    for more, less in case.both_ways:
        by_size: dict[int, list[_Mean]] = defaultdict(list)
        for one in found[more.side]:
            if more.ab(one.collective, more.partners[one.collective]) not in both:
                by_size[one.size].append(one)
        findings += [_finding(more, less, own) for _, own in sorted(by_size.items())]
    return findings


def _means(more: SideView, less: SideView, edges: Iterable[Edge]) -> Iterator[_Mean]:
    """The uses, by operations that both sides have, of what one side alone divides."""
    module = more.module
    for edge in edges:
        value, direct = edge.value(more), less.partners[edge.value(less)]
        if more.partners[value] >= 0 or direct < 0 or value in more.claimed:
            continue
        user = None if edge.place == OUTPUT else edge.user(more)
        mean = divisor_of_mean(module, value, user)
        if mean and mean.divided == direct and more.partners[mean.collective] >= 0:
            yield _Mean(edge, mean.collective, mean.size)


def _finding(more: SideView, less: SideView, means: list[_Mean]) -> Finding:
    module = more.module
    uses = {one.edge: less.partners[one.edge.value(less)] for one in means}
    piece = frozenset(piece_of(more, [edge.value(more) for edge in uses]))
    found = Bypass(more, less, uses, piece, frozenset())
    sums = sorted({one.collective for one in means})
    lines = _lines(module, [edge.value(more) for edge in uses], sums)
    of_gradients = all(_is_gradient(module, edge.value(more)) for edge in uses)
    what = "gradients" if of_gradients else "values"
    done = say(f"{what} are averaged over the devices in ", more.side, ", summed in ", less.side)
    shapes = join(dict.fromkeys(short_shape(module, edge.value(more)) for edge in uses), MAX_SHAPES)
    size = means[0].size
    title = say(done, f": {count(len(sums), 'sum')} divided by {size} (", shapes, ")", at(lines))
    mean, total = (Code(name) for name in (IN_JAX if is_jitted(module) else IN_TORCH))
    called = say(", as by ", mean, " and ", total) if is_jitted(module) else say(", as by ", mean)
    finding = bypass_finding(found, AVERAGED_SUM, title, lines=lines)
    times = say(f"; {what} are {size} times as large in ", less.side) if of_gradients else say()
    return replace(finding, title=say(title, times), short=say(done, called))


def _lines(module: Module, values: Iterable[int], sums: Iterable[int]) -> tuple[SourceLine, ...]:
    """The lines of the divisions, then those of the sums that they make means of."""
    found = (line_of(module, i) for i in (*values, *sums))
    return tuple(dict.fromkeys(line for line in found if line))


def _is_gradient(module: Module, value: int) -> bool:
    """Whether a mean goes into the new value of a tensor of its shape, and into no pass.

    What norms and metrics average over the devices is used by the pass, or is an output as it is.
    """
    shape = short_shape(module, value)
    computation = module.computation_of(value)
    if shape.endswith("[]") or all(short_shape(module, p) != shape for p in computation.parameters):
        return False
    stack, behind = [value], {value}
    while stack:
        for user in module.users[stack.pop()]:
            if user not in behind and computation.start <= user < computation.stop:
                behind.add(user)
                stack.append(user)
    work = {module.opcodes[i] for i in behind if module.opcodes[i] not in IDLE}
    return len(work - SUMS) > 0 and HEAVY.isdisjoint(work)


RULE = Rule(
    name="averaged-sum",
    kinds=(AVERAGED_SUM,),
    find=find,
    after=("kept-parameters",),
    before=("more-updates",),
)
