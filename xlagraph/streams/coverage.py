"""What a log shows of its program, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.streams.model import Coverage
from xlagraph.streams.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.streams.log import Log
    from xlagraph.streams.order import Order


def coverage_of(log: Log, order: Order) -> Coverage:
    """The coverage of a log that has been followed to its end."""
    stated = order.coverage or {}
    return Coverage(
        order.records,
        order.operators,
        len(order.clocks.by_index),
        len(order.clocks.threads),
        order.steps,
        str(log.meta.get("began") or ""),
        (*_stated(stated), *_met(order)),
        bool(order.coverage),
        not (log.damage.line or log.damage.compressed),
    )


def _stated(coverage: dict[str, object]) -> Iterator[tuple[str, int]]:
    """What the recorder says it could not see: numbers of times, or null for who knows."""
    unseen = coverage.get("unseen")
    for what, times in unseen.items() if isinstance(unseen, dict) else ():
        yield str(what), times if type(times) is int else -1


def _met(order: Order) -> Iterator[tuple[str, int]]:
    met = {
        Unseen.APPROXIMATE: order.accesses.approximate,
        Unseen.UNKNOWN_EVENTS: order.clocks.unknown_events,
        Unseen.EARLIER_MEMORY: order.memory.unknown_frees,
        Unseen.LATE_FREES: order.memory.undecided,
        Unseen.NO_MEMORY: order.unseen,
        Unseen.UNKNOWN_KINDS: order.unknown_records,
    }
    yield from ((str(what), times) for what, times in met.items() if times)
