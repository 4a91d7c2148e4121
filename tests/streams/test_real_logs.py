"""Records of real programs on an H100: what is found in them, what is silent, and the proofs."""

from __future__ import annotations

import pytest
from streams.logs import Record, analysis_of, real, real_records

from xlagraph.streams.analyze import analyze
from xlagraph.streams.model import Kind, State, Verdict

FOUND = [
    ("000min_bug", Kind.REUSE),
    ("001_bug", Kind.BUCKET_RACE),
    ("001c_bug", Kind.BUCKET_RACE),
    ("002_C", Kind.INITIAL_GRADIENT),
    ("002_Cones", Kind.INITIAL_GRADIENT),
    ("002_G", Kind.INITIAL_GRADIENT),
]
SILENT = [
    "000min_fix", "001_fix", "002_A", "002_B", "002_D", "002_E", "good_plain", "good_graph",
    "good_nccl_async", "good_prefetch",
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), FOUND)
def test_the_mistake_is_found_and_proved(name: str, kind: Kind) -> None:
    analysis = analyze(real(name))
    assert analysis.verdict is Verdict.FOUND
    assert analysis.exit_code == 1
    (finding,) = analysis.findings
    assert (finding.kind, finding.state, finding.count) == (kind, State.FOUND, 1)
    assert finding.proof is not None
    assert finding.proof.proved


@pytest.mark.parametrize("name", SILENT)
def test_a_correct_program_is_silent(name: str) -> None:
    analysis = analyze(real(name))
    assert analysis.findings == ()
    assert analysis.verdict is Verdict.NONE_FOUND
    assert analysis.exit_code == 0


def test_a_bucket_names_the_stream_that_was_not_waited_for_and_its_bytes() -> None:
    (finding,) = analyze(real("001_bug")).findings
    (filler,) = finding.earlier
    assert finding.later is not None
    assert finding.bucket is not None
    assert finding.bucket.name == "ipg[0]"
    assert (filler.operator, filler.site) == ("aten.copy_.default", "seeds.py:97 hook")
    assert filler.node == "torch::autograd::AccumulateGrad"
    assert (filler.data.offset, filler.data.size) == (262144, 262144)
    assert finding.later.site == "seeds.py:94 reduce"
    assert {filler.stream, finding.later.stream} == {3, 4}
    assert [(e.action, e.source, e.target) for e in finding.edges] == [("wait", 3, 4)]


def test_memory_handed_out_again_names_its_whole_life() -> None:
    (finding,) = analyze(real("000min_bug")).findings
    life = finding.lifetime
    assert life is not None
    assert (life.allocated_at, life.freed_at) == ("seeds.py:63 s000min", "seeds.py:68 s000min")
    assert life.taken_at == "seeds.py:69 s000min"
    assert finding.edges[0].action == "record_stream"


def test_an_initial_gradient_in_order_by_luck_is_a_warning() -> None:
    """Variant C1: unsafe by contract, but the engine's wait happens to cover it."""
    analysis = analyze(real("002_C1"))
    (finding,) = analysis.findings
    assert (finding.kind, finding.state) == (Kind.INITIAL_GRADIENT, State.WARNING)
    assert finding.later is None
    assert (analysis.verdict, analysis.exit_code) == (Verdict.NONE_FOUND, 0)


def without(records: list[Record], kind: str, which: int) -> list[Record]:
    """The records without one of a kind, counted from 0."""
    place = [k for k, record in enumerate(records) if record["k"] == kind][which]
    return records[:place] + records[place + 1 :]


@pytest.mark.parametrize(
    ("name", "kind", "which", "found"),
    [
        ("good_prefetch", "wait", 0, Kind.RACE),
        ("good_prefetch", "wait", 3, Kind.RACE),
        ("good_prefetch", "rs", 0, Kind.REUSE),
        ("good_prefetch", "rs", 1, Kind.REUSE),
        ("good_graph", "wait", 0, Kind.RACE),
        ("good_nccl_async", "wait", 0, Kind.RACE),  # the collective's own wait for its input
        ("good_nccl_async", "wait", 11, Kind.RACE),  # work.wait() before the result is used
        ("001_fix", "wait", 8, Kind.BUCKET_RACE),
        ("001_fix", "wait", 9, Kind.BUCKET_RACE),
        ("001_fix", "wait", 6, Kind.RACE),  # the engine's own wait, not the caller's
        ("000min_fix", "wait", 0, Kind.RACE),
        ("000min_fix", "rs", 0, Kind.REUSE),
    ],
)
def test_an_edge_taken_out_of_a_correct_program_is_missed(
    name: str, kind: str, which: int, found: Kind
) -> None:
    analysis = analysis_of(without(real_records(name), kind, which))
    assert analysis.verdict is Verdict.FOUND
    assert {finding.kind for finding in analysis.findings} == {found}
    assert all(finding.proof and finding.proof.proved for finding in analysis.findings)


def test_the_proof_fails_where_the_edge_does_not_mend_it() -> None:
    """An edge that another log would need proves nothing here."""
    from xlagraph.streams.analyze import follow
    from xlagraph.streams.collect import Edit
    from xlagraph.streams.prove import Edits, prove

    log = real("001_bug")
    _, groups = follow(log)
    group = groups[0][1]
    wrong = [Edit(edit.line, edit.target, edit.source) for edit in group.edits]
    (finding,) = prove([group.finding(1)], groups, lambda _edits: follow(log, Edits(wrong))[1])
    assert finding.proof is not None
    assert not finding.proof.vanished
    assert not finding.proof.proved
