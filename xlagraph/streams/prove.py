"""Proof: the missing edge is put into the log, and the log is followed again.

The finding must be gone then, and no other may have come. Findings that vanish with an earlier
one's edges are the same mistake seen elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from xlagraph.streams.model import Proof, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xlagraph.streams.collect import Edit, Group, Key
    from xlagraph.streams.log import Numbered
    from xlagraph.streams.model import Finding

MOST_ALONE = 12
"""Findings proved one by one; the rest are proved together."""

_THREAD = -(1 << 62)
"""A host thread that has waited for nothing: what it adds is the edge and nothing else."""

Groups = "Sequence[tuple[Key, Group]]"


class Edits:
    """Records to be put before lines of a log."""

    def __init__(self, edits: Iterable[Edit]):
        self._at: dict[int, list[Edit]] = {}
        for edit in edits:
            self._at.setdefault(edit.line, []).append(edit)

    def into(self, records: Iterable[Numbered]) -> Iterator[Numbered]:
        """The records of a log with the edits among them."""
        numbers = count()
        for line, record in records:
            for edit in self._at.get(line, ()):
                yield from _records(edit, line, next(numbers))
            yield line, record


def _records(edit: Edit, line: int, number: int) -> Iterator[Numbered]:
    if edit.data is not None:
        yield line, {"k": "rs", "t": _THREAD, "r": list(edit.data), "s": edit.source}
        return
    event = ("edit", number)  # no log has such an event
    yield line, {"k": "record", "t": _THREAD, "e": event, "s": edit.source}
    yield line, {"k": "wait", "t": _THREAD, "e": event, "s": edit.target}


def prove(
    findings: Sequence[Finding],
    groups: Sequence[tuple[Key, Group]],
    follow: Callable[[Edits], Sequence[tuple[Key, Group]]],
) -> tuple[Finding, ...]:
    """Findings with what became of each when its edges were put in.

    `follow` analyses the log with edits. Findings beyond the first `MOST_ALONE` mistakes are
    proved by one run with all edits.
    """
    proved = list(findings)
    before = _Outcome(groups)
    alone = 0
    for at, (_, group) in enumerate(groups):
        if proved[at].proof is not None or alone == MOST_ALONE:
            continue
        alone += 1
        after = _Outcome(follow(Edits(group.edits)))
        proof = Proof(after.is_without(group), before.less(after))
        proved[at] = replace(proved[at], proof=proof)
        if not proof.proved:
            continue
        for other in range(at + 1, len(groups)):
            if proved[other].proof is None and after.is_without(groups[other][1]):
                proved[other] = replace(proved[other], proof=proof, same_as=at + 1)
    if any(finding.proof is None for finding in proved):
        every = [edit for _, group in groups for edit in group.edits]
        after = _Outcome(follow(Edits(every)))
        appeared = before.less(after)
        for at, (_, group) in enumerate(groups):
            if proved[at].proof is None:
                proof = Proof(after.is_without(group), appeared, alone=False)
                proved[at] = replace(proved[at], proof=proof)
    return tuple(proved)


class _Outcome:
    """What a log lacks, with or without edits.

    A finding is known by what is missing, and where. With another edge in the log the same
    mistake may show in another pair of accesses, or be a warning only.
    """

    def __init__(self, groups: Sequence[tuple[Key, Group]]):
        self._groups = [group for _, group in groups]
        self._missing = {edit for group in self._groups for edit in group.edits}
        self._found = {
            edit for group in self._groups if group.state is State.FOUND for edit in group.edits
        }

    def is_without(self, group: Group) -> bool:
        """Whether nothing that a finding lacks is still missing."""
        return self._missing.isdisjoint(group.edits)

    def less(self, after: _Outcome) -> int:
        """How many findings another outcome has that this has not, or not as surely."""
        return sum(
            1
            for group in after._groups
            if not group.edits.keys()
            <= (self._found if group.state is State.FOUND else self._missing)
        )
