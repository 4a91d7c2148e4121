"""Modules that a process compiled again, word for word, under another cache key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.keys import key_difference
from xlagraph.message import GraphName, count, say
from xlagraph.run.reader import RunError
from xlagraph.runs.graphs.context import context_of
from xlagraph.runs.kinds import SAME_GRAPH, UNPRINTED_VALUES
from xlagraph.runs.model import CauseGroup, ranked
from xlagraph.runs.steps.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord, SyncRecord
    from xlagraph.runs.model import GraphNode


@dataclass(frozen=True, slots=True)
class _Again:
    """One compile of a module that its process had compiled already."""

    process: Process
    first: GraphRecord
    record: GraphRecord
    sync: SyncRecord


def with_rekeyed(
    groups: Sequence[CauseGroup], run: Run, nodes: Sequence[GraphNode], first_step: int
) -> tuple[CauseGroup, ...]:
    """The groups, with such compiles taken out of them and put into groups of their own.

    Compiles up to the first step of the training loop stay where they are: warm-up. So does the
    second one of a small graph beside the steps, which other tensors may hold the next time.
    """
    found: dict[str, list[_Again]] = {}
    for again in _all_again(run):
        if again.sync.step > first_step:
            found.setdefault(again.record.digest, []).append(again)
    letters = {node.digest: node.letter for node in nodes}
    small = {node.digest for node in nodes if node.is_small}
    mine = [
        _group(letters[digest], many, _unprinted(run, digest))
        for digest, many in found.items()
        if digest in letters and (len(many) > 1 or digest not in small)
    ]
    rest = [_without(group, mine) for group in groups]
    return ranked((*rest, *mine))


def _all_again(run: Run) -> Iterator[_Again]:
    for process in run.processes:
        firsts: dict[str, GraphRecord] = {}
        for record in process.graphs:
            first = firsts.setdefault(record.digest, record)
            sync = process.sync_at(record.sync)
            key, first_key = dict(record.key), dict(first.key)
            if sync and key.get("graph_hash") != first_key.get("graph_hash"):
                yield _Again(process, first, record, sync)


def _unprinted(run: Run, digest: str) -> int:
    """How many constants of a graph are stored without their values."""
    try:
        stored = run.graph(digest)
    except RunError:
        return 0
    return 0 if stored.proto or not stored.text else stored.text.count("constant({...})")


def _group(letter: str, many: Sequence[_Again], unprinted: int) -> CauseGroup:
    one = many[0]
    contexts = [context_of(one.process, record) for record in (one.first, one.record)]
    differs = key_difference(contexts[0].key, contexts[1].key)
    again = f" was compiled again. {differs}".strip().rstrip(".")
    same = "Same computation, another cache key: "
    if unprinted:
        same = (
            f"The same text, which leaves out the values of {count(unprinted, 'large constant')}: "
        )
    return CauseGroup(
        kind=UNPRINTED_VALUES if unprinted else SAME_GRAPH,
        title=say(same, GraphName(letter), " ", again),
        cause=None,
        further=(),
        graphs=(one.record.digest,),
        compiles=len(many),
        spent=Spent.of(again.sync for again in many),
        expected=False,
        proved=False,
        place=Place(contexts[1].call_site),
    )


def _without(group: CauseGroup, mine: Sequence[CauseGroup]) -> CauseGroup:
    gone = {span for one in mine for span in one.spent.spans}
    taken = [one for one in mine if one.graphs[0] in group.graphs]
    return replace(
        group,
        compiles=group.compiles - sum(one.compiles for one in taken),
        spent=Spent(tuple(span for span in group.spent.spans if span not in gone)),
    )
