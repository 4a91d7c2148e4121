"""Steps in which ranks ran other graphs than most of them, aligned by step and by sequence."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

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
    """As most ranks count."""
    ran: Ran
    """Empty where they ran nothing."""
    usual: Ran
    """What most ran; empty where they ran nothing."""
    is_end: bool = False
    """One side had ended before these steps: `ranks` where `ran` is empty, else the others. The
    other side ran that many steps more, with these graphs, wherever in its order they came."""


class _Found(NamedTuple):
    """How a rank differs in one step."""

    step: int
    ran: Ran
    usual: Ran
    is_end: bool = False


def differences(plans: Sequence[Plan]) -> tuple[Difference, ...]:
    """Where ranks ran something else than most, the earliest first.

    A step that is not known in full says nothing, nor does what would follow the last line of a
    record without an end.
    """
    rows = {plan.rank: _steps(plan) for plan in plans}
    usual = _usual(rows, {plan.rank for plan in plans if plan.ended})
    found: defaultdict[_Found, list[int]] = defaultdict(list)
    for plan in plans:
        for one in _against(rows[plan.rank], usual, ended=plan.ended):
            found[one].append(plan.rank)
    merged: defaultdict[tuple[tuple[int, ...], Ran, Ran, bool], list[int]] = defaultdict(list)
    for (step, ran, most, is_end), ranks in sorted(found.items()):
        merged[tuple(ranks), ran, most, is_end].append(step)
    differing = []
    for key, steps in sorted(merged.items(), key=lambda item: item[1][0]):
        who, ran, most, is_end = key
        others = _others(rows, usual, steps, who, is_end=is_end)
        differing.append(Difference(who, others, tuple(steps), ran, most, is_end))
    return tuple(differing)


def _steps(plan: Plan) -> list[Ran]:
    """What a rank ran by step; in a step of which nothing is recorded, nothing."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for one in plan.executed:
        found[one.step].append(one.digest)
    is_whole = plan.ended or bool(plan.executed and plan.executed[-1].ends_step)
    number = max(found, default=-1) + (1 if is_whole else 0)
    return [tuple(found.get(step, ())) for step in range(min(number, MOST_STEPS))]


def _usual(rows: Mapping[int, Sequence[Ran]], ended: Collection[int]) -> list[Ran]:
    """What most ranks ran in each step, until most have ended; of as many, the lowest counts."""
    ranks = sorted(rows)
    found = []
    for ran in zip_longest(*(rows[rank] for rank in ranks)):
        known = [one for one in ran if one is not None and "" not in one]
        gone = sum(1 for rank, one in zip(ranks, ran, strict=True) if one is None and rank in ended)
        if 2 * gone > len(rows):
            break
        found.append(Counter(known).most_common(1)[0][0] if known else ("",))
    return found


def _against(row: Sequence[Ran], usual: Sequence[Ran], *, ended: bool) -> Iterator[_Found]:
    """The steps in which a rank differs from most.

    Where it ran more or fewer of them, that is told of the end: it ran something in those before.
    """
    if not ended:
        usual = usual[: len(row)]
    is_longer = len(row) > len(usual)
    pairs, beyond = _aligned(row, usual)
    for step, ran, most in pairs:
        if not _agree(ran, most):
            yield _Found(step, ran, most)
    graphs = tuple(dict.fromkeys(graph for ran in beyond for graph in ran if graph))
    if graphs:
        ran, most = (graphs, ()) if is_longer else ((), graphs)
        for step in range(*sorted((len(row), len(usual)))):
            yield _Found(step, ran, most, is_end=True)


def _aligned(
    row: Sequence[Ran], usual: Sequence[Ran]
) -> tuple[list[tuple[int, Ran, Ran]], list[Ran]]:
    """The steps of a rank beside those of most, and what the one with more steps ran beyond them.

    By what they ran, if that leaves steps over on one side only; else by number.
    """
    common = min(len(row), len(usual))
    longer = row if len(row) > common else usual
    by_number = [(k, row[k], usual[k]) for k in range(common)], list(longer[common:])
    first = 0
    while first < common and _agree(row[first], usual[first]):
        first += 1
    last = 0
    while last < common - first and _agree(row[-1 - last], usual[-1 - last]):
        last += 1
    mine, most = row[first : len(row) - last], usual[first : len(usual) - last]
    if len(mine) == len(most) or max(len(mine), len(most)) > MAX_ALIGNED:
        return by_number
    pairs: list[tuple[int, Ran, Ran]] = []
    beyond: list[Ran] = []
    for tag, i, end, j, stop in SequenceMatcher(None, most, mine, autojunk=False).get_opcodes():
        both = min(end - i, stop - j)
        if tag != "equal":
            pairs += [(first + i + k, mine[j + k], most[i + k]) for k in range(both)]
        beyond += mine[j + both : stop] if longer is row else most[i + both : end]
    return (pairs, beyond) if len(beyond) == len(longer) - common else by_number


def _agree(ran: Ran, usual: Ran) -> bool:
    return ran == usual or "" in ran or "" in usual


def _others(
    rows: Mapping[int, Sequence[Ran]],
    usual: Sequence[Ran],
    steps: Sequence[int],
    ranks: Sequence[int],
    *,
    is_end: bool,
) -> tuple[int, ...]:
    """The ranks that ran what most ran in a step, or on the other side of an end."""
    first, last = steps[0], steps[-1]
    rest = {rank: row for rank, row in rows.items() if rank not in ranks}
    if not is_end:
        return tuple(r for r, row in rest.items() if row[first : first + 1] == [usual[first]])
    if first < len(usual):
        return tuple(rank for rank, row in rest.items() if len(row) > last)
    return tuple(rank for rank, row in rest.items() if len(row) <= first)
