"""A log in, findings with proofs out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.streams.clocks import TooManyError
from xlagraph.streams.collect import Collector
from xlagraph.streams.coverage import coverage_of
from xlagraph.streams.model import Analysis, State, Stream, Verdict
from xlagraph.streams.order import Order
from xlagraph.streams.prove import prove

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.streams.collect import Group, Key
    from xlagraph.streams.log import Log
    from xlagraph.streams.model import Finding
    from xlagraph.streams.prove import Edits


def analyze(log: Log) -> Analysis:
    """Says which accesses in a log nothing orders, and proves what would.

    Linear in the log's records, once for the findings and once for each missing edge.

    Raises:
        InputError: a line is not a record of format v1.
    """
    with log.explaining():
        return _analyze(log)


def _analyze(log: Log) -> Analysis:
    known = log.meta.get("edges") is not False
    order, groups = follow(log, edges_known=known)
    if known and order.coverage and order.coverage.get("edges") is False:
        known = False  # its recorder says at the end that it saw no events
        order, groups = follow(log, edges_known=False)
    findings = tuple(group.finding(n) for n, (_, group) in enumerate(groups, 1))
    proved = prove(findings, groups, lambda edits: follow(log, edits, edges_known=known)[1])
    coverage = coverage_of(log, order)
    streams = tuple(
        Stream(one.index, one.raw, one.device, one.line, one.site) for one in order.clocks.by_index
    )
    return Analysis(log.name, _verdict(proved, order), proved, coverage, streams)


def follow(
    log: Log, edits: Edits | None = None, *, edges_known: bool = True
) -> tuple[Order, list[tuple[Key, Group]]]:
    """One pass over a log, with records put in before some of its lines."""
    collector = Collector()
    order = collector.order = Order(collector, edges_known=edges_known)
    records = log.records() if edits is None else edits.into(log.records())
    try:
        order.feed(records)
    except TooManyError as error:
        raise log.refusal(order.line, f"{error}: no process has as many") from error
    return order, collector.finish()


def _verdict(findings: Iterable[Finding], order: Order) -> Verdict:
    states = {finding.state for finding in findings}
    if State.FOUND in states:
        return Verdict.FOUND
    blind = not order.accesses.edges_known and len(order.clocks.by_index) > 1
    if State.UNKNOWN in states or blind or not order.operators:
        return Verdict.UNKNOWN
    return Verdict.NONE_FOUND
