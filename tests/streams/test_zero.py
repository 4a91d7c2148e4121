"""DeepSpeed's ZeRO-2 as ``examples/streams/zero.py`` was recorded: two H200, NCCL, torch 2.11.

0.19.2 has issue 8061; 0.19.8 has pull request 8080, which mends the bucket and leaves gradients
larger than the bucket, and buffers that are filled again, as they were.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest
from real_modules import ROOT
from streams.logs import FIXTURES, real

from xlagraph.streams.analyze import analyze
from xlagraph.streams.model import Finding, Kind, State, Verdict

if TYPE_CHECKING:
    from xlagraph.streams.model import Analysis

IPG, LARGE = "ipg bucket", "extra-large gradient"
AVERAGE = ("aten.div_.Tensor", "average_tensor")
MISTAKES: dict[str, list[tuple[Kind, str]]] = {
    "0.19.2_bucket": [(Kind.BUCKET_RACE, IPG)],
    "0.19.2_large": [(Kind.BUCKET_RACE, IPG)],
    "0.19.2_refill": [(Kind.BUCKET_RACE, IPG), (Kind.RACE, "")],
    "0.19.8_bucket": [],
    "0.19.8_large": [(Kind.BUCKET_RACE, LARGE)],
    "0.19.8_refill": [(Kind.RACE, "")],
}
PRODUCERS = {
    "0.19.2_bucket": ["layers.4", "layers.3"],
    "0.19.2_large": ["layers.6"],
    "0.19.2_refill": [f"layers.{n}" for n in (11, 10, 9, 8, 7, 6)],
    "0.19.8_large": ["layers.5"],
}
"""Whose gradients are reduced before they are there, in the order of the backward pass."""


def mistakes(analysis: Analysis) -> list[Finding]:
    return [one for one in analysis.findings if not one.same_as]


def test_the_mark_that_ends_the_last_step_begins_none() -> None:
    assert analyze(real("zero/0.19.8_bucket")).coverage.steps == 3


def test_every_log_is_looked_at() -> None:
    kept = {path.name.removesuffix(".jsonl.zst") for path in (FIXTURES / "zero").iterdir()}
    assert kept == set(MISTAKES)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found_and_proved(name: str) -> None:
    analysis = analyze(real(f"zero/{name}"))
    found = [(one.kind, one.bucket.name if one.bucket else "") for one in mistakes(analysis)]
    assert found == MISTAKES[name]
    assert {one.state for one in analysis.findings} <= {State.FOUND}
    assert all(one.proof is not None and one.proof.proved for one in analysis.findings)
    expected = (Verdict.FOUND, 1) if found else (Verdict.NONE_FOUND, 0)
    assert (analysis.verdict, analysis.exit_code) == expected


@pytest.mark.parametrize("name", PRODUCERS)
def test_every_producer_is_named(name: str) -> None:
    finding = mistakes(analyze(real(f"zero/{name}")))[0]
    assert [one.parameter for one in finding.earlier] == [
        f"module.{layer}.weight" for layer in PRODUCERS[name]
    ]
    assert finding.later is not None
    assert finding.later.operator == AVERAGE[0]
    assert finding.later.site.endswith(AVERAGE[1])
    missing = {(edge.source, edge.target) for edge in finding.edges}
    assert missing == {(one.stream, finding.later.stream) for one in finding.earlier}


def test_a_bucket_of_three_producers_has_two_that_were_not_waited_for() -> None:
    """The third is the hook that sends it, whose stream 0.19.2 waits for."""
    (finding,) = mistakes(analyze(real("zero/0.19.2_bucket")))
    assert {one.operator for one in finding.earlier} == {"aten.copy_.default"}
    assert len({one.stream for one in finding.earlier}) == 2
    assert [(one.data.offset, one.data.size) for one in finding.earlier] == [
        (0, 32768), (32768, 32768),
    ]  # fmt: skip
    assert finding.count == 3


def test_a_gradient_larger_than_the_bucket_is_reduced_where_it_was_made() -> None:
    """It is never copied: what is not waited for is the operator of its own backward."""
    (finding,) = mistakes(analyze(real("zero/0.19.8_large")))
    (maker,) = finding.earlier
    assert (maker.operator, maker.node) == ("aten.mm.default", "MmBackward0")
    assert finding.later is not None
    assert finding.later.parameter == "module.layers.4.weight"  # the hook that sends it
    assert maker.data.size == finding.later.data.size == 4 * 64 * 256 * 2


def test_a_buffer_begun_again_races_with_its_first_filling_unless_that_is_waited_for() -> None:
    """In 0.19.2_large; no mistake of its own: the wait that the bucket misses orders it as well."""
    first, *others = analyze(real("zero/0.19.2_large")).findings
    assert first.kind is Kind.BUCKET_RACE
    (race,) = (one for one in others if one.kind is Kind.RACE)
    assert race.same_as == first.number
    assert race.earlier[0].parameter == "module.layers.6.weight"


@pytest.mark.parametrize("name", ["0.19.2_refill", "0.19.8_refill"])
def test_a_buffer_filled_again_races_with_its_reduction_with_8080_and_without(name: str) -> None:
    race = mistakes(analyze(real(f"zero/{name}")))[-1]
    assert race.earlier[0].operator == "c10d.allreduce_.default"
    assert race.later is not None
    assert (race.later.operator, race.later.parameter) == (
        "aten.copy_.default", "module.layers.6.weight",
    )  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_the_benchmark_expects_what_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table is what ``scripts/gpu`` judges a new run by."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # it adds to it
    spec = importlib.util.spec_from_file_location("x", ROOT / "benchmarks" / "streams_gpu.py")
    assert spec is not None
    assert spec.loader is not None
    benchmark: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    version, _, layout = name.partition("_")
    row = benchmark.analysis_of(FIXTURES / "zero" / f"{name}.jsonl.zst")
    assert benchmark.shown(row) == benchmark.ZERO[layout, version == "0.19.8"]
