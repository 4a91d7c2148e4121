"""The sizes of graphs that hit the cache, read from torch_xla only where they may have changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlagraph.capture.steps.running import SiteKey

TRUST = 4
"""After so many readings of one size at one place, the place stands for the size."""
RECHECK = 64
"""Every so many hits that look alike, the graph's size is read again."""


@dataclass(slots=True)
class _Habit:
    """What the hits at one place, with one count of tensors made, have been."""

    size: int
    readings: int = 1
    """Equal ones so far; none counts any more once two differed, as where graphs alternate."""
    is_mixed: bool = False
    uses: int = 0
    """Hits since the last reading."""

    @property
    def is_trusted(self) -> bool:
        return self.readings >= TRUST and not self.is_mixed

    def follow(self, before: _Habit | None) -> None:
        """Goes on from what was known of the place."""
        if before is not None:
            self.is_mixed = before.is_mixed or before.size != self.size
            self.readings = before.readings + 1


class Habits:
    """The habits of each place that syncs.

    Between two reads of the size, equal place and equal count of tensors made since the last sync
    stand for equal size, where they always did.
    """

    def __init__(self) -> None:
        self._habits: dict[tuple[SiteKey, int], _Habit] = {}
        self._last: _Habit | None = None

    def size(self, site: SiteKey, made: int, read: Callable[[], int], *, is_first: bool) -> int:
        """IR nodes of the graph that a hit ran; ``read`` asks torch_xla.

        ``made``: tensors made since the last sync. Unless the call ``is_first`` after the hook
        before, something ran unseen in between, and that count says nothing.
        """
        key = (site, made)
        habit = self._habits.get(key) if is_first and made >= 0 else None
        if habit is None or not habit.is_trusted or habit.uses >= RECHECK:
            before, habit = habit, _Habit(read())
            habit.follow(before)
            if is_first:
                self._habits[key] = habit
        habit.uses += 1
        self._last = habit if is_first else None
        return habit.size

    def none(self) -> None:
        """A sync that was no hit: there is none that may stand for those to come."""
        self._last = None

    def may_repeat(self) -> bool:
        """Whether the last hit may stand for those to come."""
        return self._last is not None and self._last.is_trusted

    def repeats(self) -> None:
        """It does: the next hit that takes the long way is read anew."""
        if self._last is not None:
            self._last.uses = RECHECK
