"""Pages of stream logs: real ones, and written ones that are large, hostile or have steps."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from streams.logs import Writer, log_of, real

from xlagraph.report.model import ReportOptions
from xlagraph.report.stream_page import stream_report
from xlagraph.streams.analyze import analyze
from xlagraph.streams.drift import drift_of
from xlagraph.streams.lanes import lanes_of

if TYPE_CHECKING:
    from xlagraph.report.stream_model import StreamReport
    from xlagraph.streams.log import Log

SIDE, OTHER = 101, 102
HOSTILE = (
    "</script><img src=x onerror=\"window.owned=1\"><b onclick='window.owned=1'>\u202e\x1b[31m&amp;"
)
BUCKET = 1 << 20
PART = 1 << 18


def page_of(log: Log, **options: Any) -> StreamReport:
    """What the page of a log shows."""
    analysis = analyze(log)
    lanes = lanes_of(log, analysis.findings)
    return stream_report(analysis, lanes, drift_of(log), ReportOptions(**options))


def real_page(name: str, **options: Any) -> StreamReport:
    """The page of a real log."""
    return page_of(real(name), **options)


def bucket_log(prefix: str = "") -> Log:
    """A bucket of four parts by parameters a to d, of which b and d were not waited for."""
    program = Writer()
    program.add("mark", name="name", s=0, r=[[0, BUCKET, 4 * PART]], tensor=f"{prefix}flat")
    for place, (name, stream) in enumerate(zip("abcd", (0, SIDE, 0, OTHER), strict=True)):
        program.op(
            "aten.copy_.default", stream, w=[(BUCKET + place * PART, PART)],
            at=f"/{prefix}home/{prefix}train.py:{10 + place} {prefix}hook",
            node="torch::autograd::AccumulateGrad", q=1, param=f"{prefix}layer.{name}",
        )  # fmt: skip
    program.cross(0, 7)
    program.add("mark", name="reduce_begin", s=7, r=[[0, BUCKET, 4 * PART]], bucket=f"{prefix}ipg")
    at = f"/{prefix}home/{prefix}train.py:20 {prefix}reduce"
    program.op(f"{prefix or 'my'}lib.reduce.default", 7, r=[(BUCKET, 4 * PART)], at=at)
    program.add("mark", name="reduce_end", s=7)
    return log_of(program.records)


def hostile_log() -> Log:
    """Every text of a log is hostile."""
    return bucket_log(HOSTILE)


def stepped_log() -> Log:
    """Three steps; in the third the hook runs on another stream, and nothing orders it."""
    program = Writer()
    for step in range(3):
        program.add("mark", name="step")
        program.cross(OTHER, SIDE)
        program.op("aten.mul.Tensor", SIDE, at="a.py:1 forward", w=[(4096, 64)])
        program.cross(SIDE, OTHER)
        program.op("aten.sum.default", OTHER, at="a.py:2 forward", r=[(4096, 64)])
        program.cross(OTHER, 0)
        stream = SIDE if step == 2 else 0
        program.op("aten.copy_.default", stream, at="ds.py:97 hook", w=[(8192, 64)])
    return log_of(program.records)


def large_log(operators: int, *, mistakes: int = 3) -> Log:
    """Streams that hand work on; some waits are left out, far from each other."""
    program, chance, stream = Writer(), Random(0), 0
    late = {operators * (2 * k + 1) // (2 * mistakes) for k in range(mistakes)}
    for k in range(operators):
        before, stream = stream, chance.choice([s for s in range(8) if s != stream])
        if k not in late:
            program.cross(before, stream)
        name = chance.choice(("aten.add.Tensor", "aten.mm.default", "aten.copy_.default"))
        site = f"model.py:{chance.randrange(500)} forward" if k not in late else f"hook.py:{k} late"
        shared = [(65536 + 64 * place, 64) for place in (k, k + 1) if place in late]
        program.op(name, stream, r=[(4096, 64)], w=[(8192 + 64 * stream, 64), *shared], at=site)
    return log_of(program.records)
