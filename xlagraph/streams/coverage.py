"""What a log shows of its program, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.streams.model import Coverage

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
        "approximate ranges": order.accesses.approximate,
        "waits for events that the log does not record": order.clocks.unknown_events,
        "frees of memory allocated before the log began": order.memory.unknown_frees,
        "frees near the end of the log, not judged": order.memory.undecided,
        "records with tensors that have no memory": order.unseen,
        "records of unknown kinds": order.unknown_records,
    }
    yield from ((what, times) for what, times in met.items() if times)
