"""Hooks that are attached again and again: what they compute stands in the graph once more."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.kinds import Section
from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine, count, join, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.shapes.sizes import PYTHON_SIZE
from xlagraph.runs.causes.growth import main_line
from xlagraph.runs.causes.taken import values_taken
from xlagraph.runs.kinds import GROWING_GRAPH, REPEATED_HOOK
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.steps.spent import together
from xlagraph.runs.steps.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.run.reader import Process
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode

HOOK = "hook"
COLLECTS = "collects"
"""What the capture names calls that attach a hook, and those that attach one that fills a list."""
MANY = 3
"""So many different numbers of calls, each larger than the one before, are a hook attached anew."""

ONCE = ("__init__", "<module>")
"""Functions that run once: a hook that they attach is attached once more by another model."""


class Attached(NamedTuple):
    """Graphs of one place that run hooks once more than those before."""

    digests: frozenset[str]
    """Those with which the number rose."""
    following: frozenset[str]
    """Those that run the hooks as often as such a one before them."""
    lines: tuple[SourceLine, ...]
    """In the hooks."""
    times: Mapping[str, int]
    """How often the hooks are attached, by the digest of a graph, in order of appearance."""


def attached_again(graphs: Sequence[CapturedGraph]) -> list[Attached]:
    """The places of a run whose graphs run hooks more and more often.

    Only graphs with forward passes of one size are compared: a model that runs more turns calls its
    hooks more often as well.
    """
    places: defaultdict[object, list[CapturedGraph]] = defaultdict(list)
    for graph in graphs:
        if graph.sync and graph.sketch.forward:
            key = call_place(graph.process, graph.sync), graph.sketch.forward
            places[key].append(graph)
    return [one for members in places.values() for one in _at_one_place(members)]


def _at_one_place(graphs: Sequence[CapturedGraph]) -> Iterator[Attached]:
    ordered = sorted(graphs, key=lambda graph: graph.sync.index if graph.sync else 0)
    made = [dict(graph.sketch.hooks) for graph in ordered]
    found: defaultdict[tuple[int, ...], list[SourceLine]] = defaultdict(list)
    for line in dict.fromkeys(line for hooks in made for line in hooks):
        times = _times([hooks.get(line, 0) for hooks in made])
        if times:
            found[times].append(line)
    for times, lines in found.items():
        digests = [graph.record.digest for graph in ordered]
        rising = [k for k, (before, after) in enumerate(pairwise(times), 1) if after > before]
        raised = frozenset(digests[k] for k in rising)
        following = frozenset(digests[rising[0] :]) - raised
        yield Attached(
            raised, following, tuple(sorted(lines)), dict(zip(digests, times, strict=True))
        )


def _times(made: Sequence[int]) -> tuple[int, ...]:
    """How often a hook is attached in each of some graphs, by the instructions that it makes there.

    Nothing if it is not attached anew: if the number falls, or is no multiple of what is added.
    """
    steps = [after - before for before, after in pairwise(made) if after != before]
    if len(steps) < MANY - 1 or min(steps) < 0:
        return ()
    one = min(steps)
    return tuple(number // one for number in made) if not any(n % one for n in made) else ()


def hook_groups(
    attached: Iterable[Attached], nodes: Sequence[GraphNode], processes: Iterable[Process]
) -> tuple[CauseGroup, ...]:
    """One group for the same hooks, at whatever places their modules run.

    Args:
        attached: what is attached again.
        nodes: those that nothing else accounts for.
        processes: whose programs say where they attach hooks.
    """
    groups = []
    calls = _calls(processes, HOOK)
    places: defaultdict[tuple[SourceLine, ...], list[Attached]] = defaultdict(list)
    for one in attached:
        places[one.lines].append(one)
    for lines, found in places.items():
        members = [
            node
            for node in nodes
            if not node.warm_up and any(_is_of_hooks(node, one) for one in found)
        ]
        if members:
            groups.append(_group(found, members, _attaching(lines, calls)))
    return tuple(groups)


def _is_of_hooks(node: GraphNode, attached: Attached) -> bool:
    """Whether a graph is another one for hooks: they run more often, or it keeps what they made."""
    is_following = node.digest in attached.following
    return node.digest in attached.digests or (
        is_following and (_settles(node) or _keeps(node, attached))
    )


def _keeps(node: GraphNode, attached: Attached) -> bool:
    """Whether it first of all gives back what hooks made that its nearest one runs less often."""
    causes = node.explanation.causes if node.explanation else ()
    before = attached.times.get(node.nearest, attached.times[node.digest])
    return (
        bool(causes)
        and causes[0].kind is LIVE_TENSOR
        and before < attached.times[node.digest]
        and any(main_line(causes[0]) == line for line in attached.lines)
    )


def _settles(node: GraphNode) -> bool:
    """Whether it only takes in what the graph before it has made, as the second step does."""
    causes = node.explanation.causes if node.explanation else ()
    return bool(causes) and all(cause.expected for cause in causes)


def _calls(processes: Iterable[Process], option: str) -> dict[SourceLine, str]:
    """The calls that attach such hooks, with the names of the hooks."""
    return {
        SourceLine(one.file, one.line, one.function): one.value
        for process in processes
        for one in process.settings
        if one.option == option
    }


def _attaching(lines: Sequence[SourceLine], calls: Mapping[SourceLine, str]) -> SourceLine | None:
    """The first call that attaches the hooks with these lines, if one function alone does."""
    hooks = {line.function for line in lines}
    found = sorted(line for line, hook in calls.items() if hook in hooks)
    functions = {(line.file, line.function) for line in found}
    return found[0] if len(functions) == 1 else None


def with_collecting(
    groups: Iterable[CauseGroup],
    nodes: Sequence[GraphNode],
    graphs: Sequence[CapturedGraph],
    processes: Iterable[Process],
) -> tuple[CauseGroup, ...]:
    """The groups, with the call that attaches a hook where a list grows by what the hook collects.

    Such a hook computes nothing: the list that it fills is twice as long once it is attached twice,
    while the modules compute what they did.
    """
    calls = _calls(processes, COLLECTS)
    functions = {(line.file, line.function) for line in calls}
    if len(functions) != 1:
        return tuple(groups)
    forward = {graph.record.digest: graph.sketch.forward for graph in graphs}
    call = min(calls)
    is_anew = _is_called(call.function, processes)
    return tuple(
        _collected(group, call)
        if _is_collected(group, nodes, forward) or (is_anew and _grows(group, nodes))
        else group
        for group in groups
    )


def _is_called(function: str, processes: Iterable[Process]) -> bool:
    """Whether lines of the program that were stored, as of a step, call a function of this name.

    And none of them removes a hook.
    """
    name = function.rpartition(".")[2]
    called = re.compile(rf"(?<!def )\b{re.escape(name)}\(")
    lines = [text for process in processes for one in process.sources for text in one.lines]
    is_called = any(map(called.search, lines)) and not any(".remove()" in text for text in lines)
    return name not in ONCE and is_called


def _is_collected(
    group: CauseGroup, nodes: Sequence[GraphNode], forward: Mapping[str, int]
) -> bool:
    """Whether its sizes are multiples of the first, each for some steps, in ascending order."""
    taken = _rising(group, nodes)
    sizes = [size for size, _ in taken]
    return (
        bool(sizes)
        and len({forward[one] for one in group.graphs}) == 1
        and sizes == [sizes[0] * (k + 1) for k in range(len(sizes))]
        and all(runs > 1 for _, runs in taken[:-1])
    )


def _grows(group: CauseGroup, nodes: Sequence[GraphNode]) -> bool:
    """Whether its graphs grow, or their sizes are as far apart each time, in ascending order."""
    if group.kind is GROWING_GRAPH:
        return not group.expected
    sizes = [size for size, _ in _rising(group, nodes)]
    steps = {after - before for before, after in pairwise(sizes)}
    return len(steps) == 1 and min(steps) > 0


def _rising(group: CauseGroup, nodes: Sequence[GraphNode]) -> Sequence[tuple[float, int]]:
    """The sizes that Python gave, each with how often it ran, if many came with larger graphs."""
    taken = None if group.expected or group.kind is not PYTHON_SIZE else values_taken(group, nodes)
    made = [node.instructions for node in nodes if node.digest in group.graphs]
    is_rising = taken is not None and len(taken.values) >= MANY and made == sorted(set(made))
    return taken.values if taken and is_rising else ()


def _collected(group: CauseGroup, call: SourceLine) -> CauseGroup:
    title = say(
        group.title,
        "; the lengths are as if a hook that fills a list was attached once more each time",
        at((call,)),
    )
    return replace(
        group,
        kind=REPEATED_HOOK,
        title=title,
        cause=None,
        further=tuple(one for one in group.further if one.kind.section is Section.INPUTS),
        frequent=tuple(one for one in group.frequent if one.kind is not PYTHON_SIZE),
        proved=False,
        place=Place(call),
    )


def _group(
    attached: Sequence[Attached], members: Sequence[GraphNode], call: SourceLine | None
) -> CauseGroup:
    hook_lines = attached[0].lines
    times = [sorted({*one.times.values()}) for one in attached]
    often = ", and ".join(
        f"{one[0]} to {one[-1]} times in {count(len(one), 'graph')} one after the other"
        for one in times
    )
    pronoun, what = "it is", "a hook is attached"
    if len(hook_lines) > 1:
        pronoun, what = "they are", "hooks are attached"
    return CauseGroup(
        kind=REPEATED_HOOK,
        title=say(
            f"{what} again and again: what is computed at ",
            join(hook_lines, 3),
            f" stands {often}, while the modules' own forward passes stay as they are",
            say(f"; {pronoun} attached", at((call,))) if call else say(),
        ),
        cause=None,
        further=tuple(_further(members)),
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        spent=together([node.spent for node in members]),
        expected=False,
        proved=False,
        steps=tuple(sorted({node.step for node in members})),
        place=Place(call or hook_lines[0]),
    )


def _further(members: Sequence[GraphNode]) -> Iterator[Cause]:
    """What makes these graphs differ and comes of no hook: other inputs, each place once."""
    known = set()
    for node in members:
        for cause in node.explanation.causes if node.explanation else ():
            key = cause.kind, next(iter(cause.lines), None)
            if cause.kind.section is Section.INPUTS and key not in known and not cause.expected:
                known.add(key)
                yield cause
