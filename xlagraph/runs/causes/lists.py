"""Lists of tensors that every step uses whole and adds to: an optimizer's history, a queue.

The graph of each step takes in more tensors than that of the step before, the same number of the
same shapes each time. Values that are read on the way there cut such a step in
parts, each of which is longer than its like in the step before; all of that is one reason. So are
the graphs of a report that reads values of a list now and then: a metric that keeps all batches.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.message import Code, count, join, say
from xlagraph.runs.graphs.context import own_frame
from xlagraph.runs.graphs.metrics import is_curve, made_to_keep_all, metric_computed
from xlagraph.runs.graphs.sketch import without_layout
from xlagraph.runs.kinds import GROWING_GRAPH
from xlagraph.runs.steps.turns import call_place
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import Message, SourceLine
    from xlagraph.run.records import Frame, SyncRecord
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.steps.turns import CallPlace, Turns
    from xlagraph.tensors import Tensor

    IsNext = Callable[[CapturedGraph, CapturedGraph], bool]

MANY = 3
"""So many times in a row the same tensors more are a list that grows."""
LIST_FIX = say(
    "Every length of the list is a graph of its own. Where a step needs no older ones, empty it "
    "in each step (clear(), reset() of a metric). Else bound it, so that it is full after a few "
    "steps (history_size of L-BFGS, maxlen of a deque); or keep a running value, or one tensor of "
    "a fixed size that is updated in place, with a mask for what is not filled yet."
)
LIST_SHORT = say("Bound the list, or empty it in each step.")
READ_FIX = say(
    "Every length of the list is a graph of its own. Keep a state of a fixed size instead (counts "
    "in bins, as a metric does whose thresholds are given), or empty the list after each read "
    "(reset()), or move to the host (.cpu()) what it takes in, and compute there."
)
READ_SHORT = say("Keep a fixed-size state, reset it, or compute on the host.")
KEPT_FIX = say(
    " keeps all that it is given, and every number of that is a graph of its own. Keep the metric "
    "on the host and give it values from there (update(x.cpu(), y.cpu())), or compute it once, "
    "behind the loop; a metric that keeps sums only has a state of one size."
)
KEPT_SHORT = say("Keep it on the host: update(x.cpu(), y.cpu()).")
_PLACE = re.compile(r"(.+)\[\d+\]")
"""``old_dirs[3]``: a key of an optimizer's state, and a place in the list there."""


@dataclass(frozen=True, slots=True, eq=False)
class LongerList:
    """Graphs of one place whose steps take in more and more tensors."""

    graphs: frozenset[str]
    """Digests of the graphs of these steps, those of values read on the way there included."""
    is_cut: bool
    """Values are read on the way: its steps have several graphs each."""
    read: SourceLine | None
    """Where the program reads values of it now and then; None: it is used as steps end."""
    first: int
    last: int
    """The steps."""
    more: Counter[str]
    """Shapes of what each takes in beyond the one before."""
    kept: tuple[Tensor, ...]
    """The lists of an optimizer that hold it, each as a tensor whose key names the list."""
    backward: tuple[SourceLine, ...] = ()
    """The calls that led to the backward pass, innermost first, if that alone takes in more."""
    metric: str = ""
    """The metric that keeps it to compute something from, if it is one: ``AUROC``."""


def longer_lists(graphs: Sequence[CapturedGraph], turns: Turns) -> list[LongerList]:
    """The lists that grow from step to step of a run."""
    ends: defaultdict[CallPlace, list[CapturedGraph]] = defaultdict(list)
    reads: defaultdict[CallPlace, list[CapturedGraph]] = defaultdict(list)
    for graph in graphs:
        if graph.sync and (graph.sync.ends_step or graph.sync.kind == "value"):
            places = ends if graph.sync.ends_step else reads
            places[call_place(graph.process, graph.sync)].append(graph)
    found = [
        _longer_list(chain, graphs)
        for members in ends.values()
        for chain in _chains(members, _in_a_row(turns))
    ]
    rows = [row for members in reads.values() for row in _rows(members)]
    for chain in (one for row in rows for one in _chains(row, _in_turn(row))):
        longer = _longer_list(chain, graphs)
        is_told = any(longer.graphs & other.graphs for other in found)
        if longer.read and longer.is_cut and not is_told:
            found.append(longer)
    return found


def _in_a_row(turns: Turns) -> IsNext:
    """Whether a graph compiled in the turn of its place after that in which another one did."""
    return lambda one, other: (one.record.digest, other.record.digest) in turns.in_a_row


def _rows(reads: Sequence[CapturedGraph]) -> list[list[CapturedGraph]]:
    """The first graphs that values of one place had in their steps, the second ones, and so on."""
    steps: defaultdict[int, list[CapturedGraph]] = defaultdict(list)
    for graph in sorted(reads, key=lambda one: one.sync.index if one.sync else 0):
        steps[graph.step].append(graph)
    most = max(map(len, steps.values()))
    return [[found[k] for found in steps.values() if len(found) > k] for k in range(most)]


def _in_turn(reads: Sequence[CapturedGraph]) -> IsNext:
    """Whether no value was read at their place in the steps between those of two graphs."""
    process, sync = reads[0].process, reads[0].sync
    place = call_place(process, sync) if sync else None
    used = sorted({one.step for one in process.syncs if call_place(process, one) == place})
    following = dict(pairwise(used))
    return lambda one, other: following.get(one.step) == other.step


def _chains(members: Sequence[CapturedGraph], is_after: IsNext) -> Iterator[list[CapturedGraph]]:
    """Graphs of one place, each compiled in the turn after the one before, that take in more.

    The first step may make what the next takes in: it gives back less then.
    """
    chain: list[CapturedGraph] = []
    for graph in sorted(members, key=lambda one: one.sync.index if one.sync else 0):
        last = chain[-1] if chain else None
        is_next = last and is_after(last, graph)
        if last and not (is_next and _more(last, graph)):
            if _is_even(chain):
                yield chain
            chain = [last] if is_next and _begins(last, graph) else []
        chain.append(graph)
    if _is_even(chain):
        yield chain


def _begins(before: CapturedGraph, now: CapturedGraph) -> bool:
    """Whether one takes in all that the other does, and more."""
    return _inputs(before) < _inputs(now)


def _is_even(chain: Sequence[CapturedGraph]) -> bool:
    """Whether the same comes in more each time, but for the first steps of all."""
    more = [_more(before, now) for before, now in pairwise(chain)]
    return len(more) >= MANY and all(one == more[-1] for one in more[-MANY:])


def _more(before: CapturedGraph, now: CapturedGraph) -> Counter[str]:
    """Shapes of what one graph takes in beyond the other; nothing where that has more too.

    Nor where it gives back as much more: parameters that are trained as well.
    """
    old, new = _inputs(before), _inputs(now)
    more = new - old
    is_other = old - new or more & (_outputs(now) - _outputs(before))
    return Counter() if is_other else more


def _inputs(graph: CapturedGraph) -> Counter[str]:
    return Counter(_arrays(shape for _, shape in graph.sketch.interface.inputs))


def _outputs(graph: CapturedGraph) -> Counter[str]:
    return Counter(_arrays(shape for shape, _ in graph.sketch.interface.outputs))


def _arrays(shapes: Iterable[str]) -> Iterator[str]:
    """Shapes without their layouts, and without those of numbers."""
    return (bare for bare in map(without_layout, shapes) if not bare.endswith("[]"))


def _longer_list(chain: Sequence[CapturedGraph], graphs: Sequence[CapturedGraph]) -> LongerList:
    first, last = chain[0], chain[-1]
    more = _more(chain[-2], last)
    is_read = first.sync is not None and not first.sync.ends_step
    metric = metric_computed(first.sync.call_site) if first.sync and is_read else ""
    computed = [graph for graph in graphs if metric and _metric_of(graph) == metric]
    read = _read_at([first, *computed]) if is_read else None
    steps = {graph.step: graph for graph in chain}

    def belongs(graph: CapturedGraph) -> bool:
        if metric and (_metric_of(graph) == metric or _read_at([graph]) == read):
            return True  # what it goes on with has as many elements as there are other scores
        if is_read:
            return _is_read_beside(graph, steps.get(graph.step), more)
        return _is_on_the_way(graph.sync, first.sync)

    members = frozenset(
        graph.record.digest
        for graph in graphs
        if graph.process is first.process
        and first.step <= graph.step <= last.step
        and (graph in chain or belongs(graph))
    )
    is_cut = len(members) > len(chain)
    kept = tuple(sorted(_kept(chain), key=lambda tensor: tensor.key))
    backward = _backward(chain[-2], last, more)
    if read and not metric:
        own = (graph for graph in graphs if graph.record.digest in members)
        metric = next(filter(None, map(_metric_of, own)), "")
    return LongerList(members, is_cut, read, first.step, last.step, more, kept, backward, metric)


def _metric_of(graph: CapturedGraph) -> str:
    return metric_computed(graph.sync.call_site) if graph.sync else ""


def _read_at(graphs: Iterable[CapturedGraph]) -> SourceLine | None:
    """The first line of the program at which values of these graphs were read.

    Where calls of a library are deep the frames that were recorded may be the library's alone.
    """
    lines = [line for one in graphs if one.sync and (line := own_frame(one.sync.call_site))]
    own = (line for line in lines if not line.is_library)
    return next(own, next(iter(lines), None))


def _backward(
    before: CapturedGraph, now: CapturedGraph, more: Counter[str]
) -> tuple[SourceLine, ...]:
    """The place that calls the backward pass, if nothing else uses what comes in beyond.

    Where one function calls it several times, the last one goes through what the others have made;
    so does the one of the function that ends the step, where others are called from there.
    """
    saved = Counter(dict(now.sketch.saved)) - Counter(dict(before.sketch.saved))
    calls = sorted((frames for frames, _ in now.sketch.passes if frames), key=lambda one: one[:1])
    ends = [(one.file, one.function) for one in now.sync.call_site[:1]] if now.sync else []
    outer = [frames for frames in calls if frames[0].scope in ends]
    is_one = len({frames[0].scope for frames in calls}) == 1
    last = (calls if is_one else outer)[-1:]
    return last[0] if last and not more - saved else ()


def _is_read_beside(graph: CapturedGraph, other: CapturedGraph | None, more: Counter[str]) -> bool:
    """Whether a value was read at the same line of the program, in the same step, of as much."""
    if other is None or graph.sync is None or other.sync is None or graph.sync.kind != "value":
        return False
    lines = {own_frame(one.sync.call_site) for one in (graph, other) if one.sync}
    own, theirs = _inputs(graph), _inputs(other)
    return len(lines) == 1 and all(own[shape] >= theirs[shape] for shape in more)


def _is_on_the_way(sync: SyncRecord | None, end: SyncRecord | None) -> bool:
    """Whether a value was read in the function in which the step ends."""
    if sync is None or end is None or sync.kind != "value":
        return False
    return _function(sync.call_site) == _function(end.call_site)


def _function(site: Sequence[Frame]) -> tuple[object, ...]:
    """A call site's function, and how that was called."""
    return (site[0].file, site[0].function, tuple(site[1:])) if site else ()


def _kept(chain: Sequence[CapturedGraph]) -> Iterator[Tensor]:
    """The lists in an optimizer's state of which a later graph takes in more places."""
    lists = [_state_lists(graph) for graph in (chain[-2], chain[-1])]
    for tensor, number in lists[1].items():
        if number > lists[0][tensor] > 0:
            yield tensor


def _state_lists(graph: CapturedGraph) -> Counter[Tensor]:
    """How many places of each list in an optimizer's state it takes in."""
    found: Counter[Tensor] = Counter()
    for tensor in graph.context().parameters.values():
        place = _PLACE.fullmatch(tensor.key) if tensor.role is Role.STATE else None
        if place:
            found[replace(tensor, key=place[1])] += 1
    return found


@dataclass(frozen=True, slots=True, eq=False)
class AsList:
    """Says the cause of a single graph as the list that grows over the run."""

    longer: LongerList
    program: ProgramText

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause of one of these graphs, of all of them."""
        found = self._of_list(cause, members)
        return self._of_metric(found) if self.longer.metric else found

    def _of_metric(self, cause: Cause) -> Cause:
        """Told where the metric is made, if that is one call: that is to be changed."""
        metric = self.longer.metric
        made = made_to_keep_all(metric, self.program)
        place = Place(made[0].line) if len(made) == 1 else cause.place
        name = say(Code(made[0].name)) if len(made) == 1 else say(Code(metric))
        if not is_curve(metric):
            name = name if len(made) == 1 else say("a metric (", name, ")")
            kept = say(name, " keeps all it is given: more with every read")
            fix = say(name.sentence, KEPT_FIX)
            return replace(cause, fix=fix, short=kept, short_fix=KEPT_SHORT, place=place)
        return replace(
            cause,
            fix=say(
                name,
                " without thresholds keeps the scores of all batches, and every number of them is "
                "a graph of its own. With ",
                Code("thresholds=200"),
                " it counts in so many bins, a state of one size. Or compute it on the host, from "
                "scores that are moved there (.cpu()).",
            ),
            short=say(name, " keeps all scores: more with every read"),
            short_fix=say("Give ", name, " ", Code("thresholds=200"), ": a state of one size."),
            place=place,
        )

    def _of_list(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        more = self.longer.more
        shapes = join((_times(shape, times) for shape, times in sorted(more.items())), 3)
        longer = self.longer
        each = "read" if longer.read else "step"
        number = count(more.total(), "tensor")
        evidence = Evidence(
            say(f"from {each} to {each} {number} more that the graph takes in: ", shapes)
        )
        return replace(
            cause,
            kind=GROWING_GRAPH,
            title=say(
                f"a list of tensors grows: each {each} takes in {number} more (",
                shapes,
                ") than the one before",
                at((longer.read,) if longer.read else cause.lines),
                f", {count(len(members), 'graph')} in steps {longer.first} to {longer.last}",
                _kept_words(longer.kept),
            ),
            evidence=(evidence,) if longer.read else (evidence, *cause.evidence),
            fix=READ_FIX if longer.read else LIST_FIX,
            short=say(f"{_whose(longer.kept)} grows with every {each}"),
            short_fix=READ_SHORT if longer.read else _bounded(longer.kept),
            # its tensors are those of one graph's own cause
            place=Place(longer.read) if longer.read else replace(cause.place, tensors=()),
        )


def _times(shape: str, times: int) -> Message:
    return say(f"{times} x {shape}" if times > 1 else shape)


def _whose(kept: Sequence[Tensor]) -> str:
    return f"The history that {kept[0].optimizer} keeps" if kept else "A list of tensors"


def _bounded(kept: Sequence[Tensor]) -> Message:
    """What bounds a list that an optimizer keeps, as L-BFGS does, or one of the program's own."""
    if not kept:
        return LIST_SHORT
    return say("Give ", Code(kept[0].optimizer), " a short history (", Code("history_size"), ").")


def _kept_words(kept: Sequence[Tensor]) -> Message:
    if not kept:
        return say()
    keys = dict.fromkeys(tensor.key for tensor in kept)
    return say("; kept by ", Code(kept[0].optimizer), " as ", join(map(Code, keys)))
