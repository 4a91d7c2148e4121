"""A computation that runs on another thread: asynchronous work, on the host or beside the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, HloName, Quoted, count, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.diff.acting import ThreadChange

EXECUTION_THREAD = Kind(
    id="execution-thread",
    title="A computation runs on another thread",
    section=Section.PIECES,
    meaning="Asynchronous work, such as what was offloaded to the host, names the thread that it "
    "runs on. The instructions are the same; the device, or the queue, that runs them is another.",
    before="""\
with compute_on("device_host") if step % 2 else nullcontext():
    update(state)
""",
    after="""\
with compute_on("device_host"):
    update(state)
""",
    evidence="The computation, with its thread on both sides.",
    fix="Offload the same work in every step.",
    proof="A's computation, and what starts it, get B's thread.",
    examples=(),
)
ATTRIBUTE = "async_execution_thread"


def find(case: Case) -> list[Finding]:
    """Paired computations with different threads, and the instructions that start them."""
    return [_finding(case, case.diff.threads)] if case.diff.threads else []


def _finding(case: Case, threads: Sequence[ThreadChange]) -> Finding:
    a, b = case.diff.a, case.diff.b
    homes = {change.a for change in threads}
    starts = [
        (x, y)
        for x, y in case.changed_alone("attributes")
        if homes.intersection(a.callees.get(x, ())) and _differs_in_thread_alone(case, x, y)
    ]
    first = threads[0]
    home = a.computations[first.a]
    lines = where(b, [y for _, y in starts]) or where(
        b, range(b.computations[first.b].start, b.computations[first.b].stop)
    )
    change = say(
        HloName(home.name), " runs on ", Quoted(first.thread_a), " in ", A,
        " and on ", Quoted(first.thread_b), " in ", B,
    )  # fmt: skip
    more = f" (and {count(len(threads) - 1, 'more computation')})" if len(threads) > 1 else ""

    def undo(edit: Editors) -> None:
        computations = list(edit.a.module.computations)
        for c, d, _, _ in threads:
            suffix = edit.b.module.computations[d].suffix
            computations[c] = replace(computations[c], suffix=suffix)
        edit.a.module = replace(edit.a.module, computations=tuple(computations))
        for x, y in starts:
            edit.a.attributes[x] = edit.b.attributes[y]

    return Finding(
        kind=EXECUTION_THREAD,
        title=say(change, more, at(lines)),
        evidence=(
            Evidence(change, tuple(x for x, _ in starts), tuple(y for _, y in starts), lines),
        ),
        proof=say(A, "'s computations were given ", B, "'s threads"),
        a=frozenset(x for x, _ in starts),
        b=frozenset(y for _, y in starts),
        undo=undo,
    )


def _differs_in_thread_alone(case: Case, x: int, y: int) -> bool:
    mine, theirs = (
        {item for item in module.attributes[i].items if item[0] != ATTRIBUTE}
        for module, i in ((case.diff.a, x), (case.diff.b, y))
    )
    return mine == theirs


RULE = Rule(
    name="execution-thread",
    kinds=(EXECUTION_THREAD,),
    find=find,
    after=("matmul-precision",),
    before=("attributes",),
)
