"""What hooks, accounting and dispatch of one process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlagraph.capture.calls import Flight
from xlagraph.capture.counters import Counters
from xlagraph.capture.dispatch import Dispatch
from xlagraph.capture.dump import Dump
from xlagraph.capture.evidence import Evidence
from xlagraph.capture.fsdp import Buckets
from xlagraph.capture.names import TensorNames
from xlagraph.capture.sites import SiteReader
from xlagraph.capture.steady import SteadySteps


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts that know nothing of each other, or little."""

    counters: Counters
    flight: Flight
    sites: SiteReader
    buckets: Buckets
    steady: SteadySteps
    evidence: Evidence
    dispatch: Dispatch

    @classmethod
    def of(cls, xlac: Any, dump: Dump | None) -> Parts:
        """Those for torch_xla's extension module ``xlac``."""
        counters, sites, names, dispatch = Counters(xlac), SiteReader(), TensorNames(), Dispatch()
        buckets = Buckets(names, sites, dispatch.guard, dispatch.flush)
        steady = SteadySteps(counters, sites, buckets, dispatch.guard)
        dispatch.drain = steady.drain
        evidence = Evidence(xlac, dump, names, counters.now())
        return cls(counters, Flight(), sites, buckets, steady, evidence, dispatch)
