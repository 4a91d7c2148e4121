"""Steps in which ranks ran other graphs than most of them, aligned by step and by sequence."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xlagraph.ranks.model import Plan

Ran = tuple[str, ...]
"""The graphs of one step, by digest; ``""`` for one that is not known."""
MAX_ALIGNED = 2_000
"""Steps that are aligned by what they ran; where more differ, they are aligned by number."""


MOST_STEPS = 1_000_000
"""Steps that are looked at; a number in a damaged record costs no memory."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Ranks that ran something else than most, in the same steps."""

    ranks: tuple[int, ...]
    others: tuple[int, ...]
    """The ranks that ran what most ran."""
    steps: tuple[int, ...]
    """As most ranks count; of a step that most had not, the one before which it came."""
    ran: Ran
    """Empty where they had no such step."""
    usual: Ran
    """What most ran; empty where they had no such step."""


def differences(plans: Sequence[Plan]) -> tuple[Difference, ...]:
    """Where ranks ran something else than most, the earliest first.

    A step that is not known in full says nothing, nor does what would follow the last line of a
    record without an end.
    """
    rows = {plan.rank: _steps(plan) for plan in plans}
    usual = _usual(rows)
    found: defaultdict[tuple[int, Ran, Ran], list[int]] = defaultdict(list)
    for plan in plans:
        for step, ran, most in _against(rows[plan.rank], usual, ended=plan.ended):
            found[step, ran, most].append(plan.rank)
    merged: defaultdict[tuple[tuple[int, ...], Ran, Ran], list[int]] = defaultdict(list)
    for (step, ran, most), ranks in sorted(found.items()):
        merged[tuple(ranks), ran, most].append(step)
    return tuple(
        Difference(ranks, _others(rows, usual, steps[0], ranks), tuple(steps), ran, most)
        for (ranks, ran, most), steps in sorted(merged.items(), key=lambda item: item[1][0])
    )


def _steps(plan: Plan) -> list[Ran]:
    """What a rank ran by step; in a step of which nothing is recorded, nothing."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for one in plan.executed:
        found[one.step].append(one.digest)
    is_whole = plan.ended or bool(plan.executed and plan.executed[-1].ends_step)
    number = max(found, default=-1) + (1 if is_whole else 0)
    return [tuple(found.get(step, ())) for step in range(min(number, MOST_STEPS))]


def _usual(rows: Mapping[int, Sequence[Ran]]) -> list[Ran]:
    """What most ranks ran in each step; of as many, the lowest rank counts."""
    found = []
    for ran in zip_longest(*(rows[rank] for rank in sorted(rows))):
        known = [one for one in ran if one is not None and "" not in one]
        there = sum(1 for one in ran if one is not None)
        if 2 * there < len(rows) and there:
            break  # most have ended
        found.append(Counter(known).most_common(1)[0][0] if known else ("",))
    return found


def _against(
    row: Sequence[Ran], usual: Sequence[Ran], *, ended: bool
) -> Iterator[tuple[int, Ran, Ran]]:
    """The steps in which a rank differs: number, what it ran, what most ran."""
    if not ended:
        usual = usual[: len(row)]
    first = 0
    while first < min(len(row), len(usual)) and _agree(row[first], usual[first]):
        first += 1
    last = 0
    while last < min(len(row), len(usual)) - first and _agree(row[-1 - last], usual[-1 - last]):
        last += 1
    mine, most = row[first : len(row) - last], usual[first : len(usual) - last]
    if len(mine) == len(most) or max(len(mine), len(most)) > MAX_ALIGNED:
        blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(most), 0, len(mine))]
    else:
        blocks = SequenceMatcher(None, most, mine, autojunk=False).get_opcodes()
    for tag, i, end, j, stop in blocks:
        if tag == "equal":
            continue
        for k in range(max(end - i, stop - j)):
            ran = mine[j + k] if j + k < stop else ()
            wanted = most[i + k] if i + k < end else ()
            if not _agree(ran, wanted):
                yield first + min(i + k, end), ran, wanted


def _agree(ran: Ran, usual: Ran) -> bool:
    return ran == usual or "" in ran or "" in usual


def _others(
    rows: Mapping[int, Sequence[Ran]], usual: Sequence[Ran], step: int, ranks: Sequence[int]
) -> tuple[int, ...]:
    """The ranks that ran what most ran in a step."""
    wanted = usual[step] if step < len(usual) else None
    return tuple(
        rank
        for rank, row in rows.items()
        if rank not in ranks and (wanted is None or (step < len(row) and row[step] == wanted))
    )
