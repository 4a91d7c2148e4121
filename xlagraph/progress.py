"""How far long work is: told by those who do it, shown by whoever called them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")


class Track(Protocol):
    """Gives items back one by one and takes note of how many are done."""

    def __call__(self, items: Sequence[T], what: str) -> Iterable[T]:
        """Goes over `items`; `what` is done with them: ``explaining graphs``."""


def silent(items: Sequence[T], what: str) -> Iterable[T]:  # noqa: ARG001
    """Shows nothing."""
    return items
