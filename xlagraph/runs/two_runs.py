"""Two runs of a program: which causes went, which came, and what that saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.verdict import Verdict
from xlagraph.message import count, duration, say
from xlagraph.runs.verdict import extra_compiles

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from xlagraph.message import Message
    from xlagraph.runs.model import CauseGroup, RunExplanation


@dataclass(frozen=True, eq=False)
class Comparison:
    """An older run of a program beside a newer one."""

    old: RunExplanation
    new: RunExplanation
    gone: tuple[CauseGroup, ...]
    """Causes of the old run that the new one has not."""
    came: tuple[CauseGroup, ...]
    still: tuple[tuple[CauseGroup, CauseGroup], ...]
    """Causes that both have, as they were and as they are."""
    common: int
    """Graphs that both have, by digest."""

    @property
    def saved_seconds(self) -> float:
        """Less time lost on the clock; below zero where it is more."""
        return self.old.lost.wall_seconds - self.new.lost.wall_seconds

    @property
    def is_worse(self) -> bool:
        """More compiles beyond warm-up; or as many, and a cause that was not there."""
        old, new = _extra(self.old), _extra(self.new)
        return new > old or (new == old and bool(self.came))

    @property
    def verdict(self) -> Verdict:
        """Better or worse, and what the new run needs most."""
        old, new = _extra(self.old), _extra(self.new)
        what = "Worse" if self.is_worse else "Better" if new < old else "No better"
        said = say(f"{what}: ", was_and_now(self.old, self.new), ".")
        verdict = self.new.verdict
        worst = next(iter(self.new.problems), None)
        notes = [say("Costliest now: ", worst.in_short.clause, ".")] if worst else []
        return Verdict(said, verdict.where, verdict.fix, tuple(notes))


def compare_runs(old: RunExplanation, new: RunExplanation) -> Comparison:
    """Compares two explained runs.

    Causes are the same where kind, file and function agree; of what is left, where the kind
    does, for an edit moves lines and functions.
    """
    left, came = list(old.problems), list(new.problems)
    still: list[tuple[CauseGroup, CauseGroup]] = []
    for key in (_place, _kind):
        pairs = _pairs(left, came, key)
        still += pairs
        left = [one for one in left if all(one is not was for was, _ in pairs)]
        came = [one for one in came if all(one is not now for _, now in pairs)]
    digests = [{node.digest for node in run.graphs} for run in (old, new)]
    return Comparison(
        old, new, tuple(left), tuple(came), tuple(still), len(digests[0] & digests[1])
    )


def was_and_now(old: RunExplanation, new: RunExplanation) -> Message:
    """``was 3 compiles beyond warm-up, now none; 5.6 s saved``."""
    was = extra_compiles(old.problems) if old.problems else "no compile beyond warm-up"
    now = str(_extra(new)) if new.problems else "none"
    if not old.problems and new.problems:
        return say(f"was {was}, now {now}; {new.lost} lost")
    saved = old.lost.wall_seconds - new.lost.wall_seconds
    if abs(saved) < 0.01:
        return say(f"was {was}, now {now}")
    return say(f"was {was}, now {now}; {duration(abs(saved))} {'saved' if saved > 0 else 'more'}")


def changes(comparison: Comparison) -> Iterator[tuple[str, Message]]:
    """Each cause that went, came or stayed: ``Gone``, ``New`` or ``Still``, and what it cost."""
    for label, groups in (("Gone", comparison.gone), ("New", comparison.came)):
        for group in groups:
            yield label, _said(group)
    for was, now in comparison.still:
        yield "Still", say(_said(now), f"; was {count(was.compiles, 'compile')}, {was.spent}")


def _said(group: CauseGroup) -> Message:
    cost = f" ({group.kind.id}; {count(group.compiles, 'compile')}, {group.spent})"
    return say(group.in_short.sentence, cost)


def in_common(comparison: Comparison, newer: str) -> str:
    """How many graphs both have, and how many the newer one, called so, has besides."""
    old, new = len(comparison.old.graphs), len(comparison.new.graphs)
    both = f"{comparison.common} of {count(old, 'graph')} are the same in both"
    more = new - comparison.common
    return f"{both}; {newer} has {more} more." if more else f"{both}."


def _extra(explained: RunExplanation) -> int:
    return sum(group.compiles for group in explained.problems) + explained.unseen


def _kind(group: CauseGroup) -> Hashable:
    return group.kind.id


def _place(group: CauseGroup) -> Hashable:
    line = group.place.line
    return group.kind.id, (line.file, line.function) if line else None


def _pairs(
    old: Iterable[CauseGroup], new: Iterable[CauseGroup], key: Callable[[CauseGroup], Hashable]
) -> list[tuple[CauseGroup, CauseGroup]]:
    free = list(old)
    found = []
    for now in new:
        was = next((one for one in free if key(one) == key(now)), None)
        if was:
            free.remove(was)
            found.append((was, now))
    return found
