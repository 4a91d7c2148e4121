"""The programs of examples/streams as `scripts/gpu` recorded them on H100s with torch 2.11.

Those with DistributedDataParallel were recorded on an H200.
"""

from __future__ import annotations

import json
import re

import pytest
from streams.logs import FIXTURES, real, real_records

from xlagraph.streams.analyze import analyze
from xlagraph.streams.model import Kind, State, Verdict

WRONG = {
    "stages_min_wrong": Kind.REUSE,
    "stages_wrong": Kind.REUSE,
    "bucket_wrong": Kind.BUCKET_RACE,
    "bucket_base_wrong": Kind.BUCKET_RACE,
    "bucket_compiled_wrong": Kind.BUCKET_RACE,
    "gradient_C": Kind.INITIAL_GRADIENT,
    "gradient_Cones": Kind.INITIAL_GRADIENT,
    "gradient_G": Kind.INITIAL_GRADIENT,
    "gradient_Gones": Kind.INITIAL_GRADIENT,
    "prefetch_without_wait": Kind.RACE,
    "prefetch_without_record": Kind.REUSE,
    "buffer_filled_again": Kind.RACE,
    "update_on_a_side_stream": Kind.RACE,
    "replay_without_wait": Kind.RACE,
    "event_recorded_too_early": Kind.RACE,
    "column_written_elsewhere": Kind.RACE,
    "new_memory_without_wait": Kind.REUSE,
    "result_of_a_collective": Kind.RACE,
    "replica_with_hooks_on_two_streams": Kind.BUCKET_RACE,
}
BY_LUCK = {"gradient_C1", "gradient_F"}
"""Unsafe by contract, ordered by something else: warnings."""
PROGRAMS = sorted(path.name.partition(".")[0] for path in (FIXTURES / "programs").iterdir())
KEPT = [
    f"{folder}/{path.name.partition('.jsonl')[0]}"
    for folder in ("programs", "training", "zero")
    for path in sorted((FIXTURES / folder).iterdir())
]
TRAINING = sorted(path.name.partition(".")[0] for path in (FIXTURES / "training").iterdir())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_found_and_proved(name: str) -> None:
    analysis = analyze(real(f"programs/{name}"))
    found = [one for one in analysis.findings if one.state is State.FOUND]
    assert {one.kind for one in found} == {WRONG[name]}
    assert all(one.proof is not None and one.proof.proved for one in found)
    assert (analysis.verdict, analysis.exit_code) == (Verdict.FOUND, 1)


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {*WRONG}))
def test_a_correct_program_is_silent(name: str) -> None:
    analysis = analyze(real(f"programs/{name}"))
    warned = [(Kind.INITIAL_GRADIENT, State.WARNING)] if name in BY_LUCK else []
    assert [(one.kind, one.state) for one in analysis.findings] == warned
    assert (analysis.verdict, analysis.exit_code) == (Verdict.NONE_FOUND, 0)


def test_a_bucket_of_a_replica_has_its_number_and_its_producers() -> None:
    (finding,) = analyze(real("programs/replica_with_hooks_on_two_streams")).findings
    assert finding.bucket is not None
    assert finding.bucket.name == "DDP bucket 0 of Branches"
    (filler,) = finding.earlier
    assert (filler.operator, filler.parameter) == ("aten.mul.out", "module.layers.1.weight")
    assert (filler.data.offset, filler.data.size, filler.data.whole) == (262144, 262144, 524288)
    assert finding.later is not None
    assert finding.later.operator == "c10d.allreduce_.default"
    assert [(edge.source, edge.target) for edge in finding.edges] == [
        (filler.stream, finding.later.stream)
    ]


@pytest.mark.parametrize("name", TRAINING)
def test_training_is_silent_and_its_steps_are_alike(name: str) -> None:
    analysis = analyze(real(f"training/{name}"))
    assert analysis.findings == ()
    assert analysis.coverage.operators > 300


def test_more_than_twenty_correct_programs_are_kept() -> None:
    assert {*WRONG} <= {*PROGRAMS}
    assert len({*PROGRAMS} - {*WRONG}) >= 20


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_log_has_no_path_of_the_machine_that_made_it(name: str) -> None:
    for record in real_records(name):
        for field in ("at", "fwd_at"):
            site = record.get(field)
            assert site is None or not re.match(r"[/\\~]|[A-Za-z]:", site)
        assert not re.search(r'"(/|[A-Za-z]:\\)', json.dumps(record))
