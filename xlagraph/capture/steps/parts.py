"""What hooks, accounting and dispatch of one process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlagraph.capture.places.sites import SiteReader
from xlagraph.capture.steps.calls import Flight
from xlagraph.capture.steps.counters import Counters
from xlagraph.capture.steps.dispatch import Dispatch
from xlagraph.capture.steps.evidence import Evidence
from xlagraph.capture.steps.steady import SteadySteps
from xlagraph.capture.tensors.fsdp import Buckets
from xlagraph.capture.tensors.names import TensorNames
from xlagraph.capture.xla_dump.dump import Dump


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
        evidence = Evidence(xlac, dump, names, counters.now())
        steady = SteadySteps(counters, sites, buckets, dispatch.guard, evidence.keep_room)
        dispatch.drain = steady.drain
        return cls(counters, Flight(), sites, buckets, steady, evidence, dispatch)
