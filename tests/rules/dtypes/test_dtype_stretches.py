"""A part of the computation that runs in another dtype, with conversions at its borders."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

PAIRS = Path(__file__).resolve().parents[3] / "fixtures" / "module_pairs"


def text(side: str) -> str:
    return gzip.decompress((PAIRS / f"norm_bfloat16.{side}.hlo.gz").read_bytes()).decode()


@pytest.mark.parametrize("turned", [False, True])
def test_a_norm_in_another_dtype_is_one_cause(turned: bool):
    sides = [read_module(text(side)) for side in ("ba" if turned else "ab")]
    explanation = explain_modules(*sides)
    assert explanation.proved
    first, *others = explanation.causes
    change = "bf16 -> f32" if turned else "f32 -> bf16"
    assert str(first.title) == f"the same computation runs in another dtype ({change})"
    assert "dtype" not in {cause.kind.id for cause in others}
    for module, cited in zip(
        sides, ([i for e in first.evidence for i in getattr(e, side)] for side in "ab"), strict=True
    ):
        assert {"rsqrt", "reduce", "convert"} <= {module.opcodes[i] for i in cited}


def test_what_differs_beside_it_is_not_taken_for_it():
    """Another operation within the stretch is told for itself, or nothing is proved."""
    changed = text("b").replace(" rsqrt(", " cbrt(")
    explanation = explain_modules(read_module(text("a")), read_module(changed))
    told = {"replaced-subgraph", "other-operation"}
    assert not explanation.proved or told & {cause.kind.id for cause in explanation.causes}


def test_statistics_of_norms_are_told_by_their_types():
    explanation = explain_modules(read_module(text("a")), read_module(text("b")))
    told = str(explanation.verdict.what)
    assert told == "Statistics of norms are computed in f32 in A and in bf16 in B."
    softened = text("b").replace(" rsqrt(", " tanh("), text("a").replace(" rsqrt(", " tanh(")
    other = explain_modules(*map(read_module, softened[::-1]))
    assert "norms" not in str(other.verdict)


@pytest.mark.parametrize("turned", [False, True])
def test_a_step_that_gives_back_another_type_is_to_cast_it_back(turned: bool):
    paths = [PAIRS / f"weights_left_wider.{side}.hlo.gz" for side in ("ba" if turned else "ab")]
    sides = [read_module(gzip.decompress(path.read_bytes()).decode()) for path in paths]
    explanation = explain_modules(*sides)
    assert explanation.proved
    assert str(explanation.verdict.fix) == "Begin with the wide type, or cast new values back."
