"""Nested FSDP on models of transformers, the setting of pytorch/xla issue 4160: all is proved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from real_modules import explained_run

from xlagraph.message import words

if TYPE_CHECKING:
    from xlagraph.runs.model import RunExplanation

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "transformers"
DEEP = {"bert8_carry", "bert24_carry"}
"""Data of benchmarks/transformers.py."""
RUNS = sorted(path.name for path in FOLDER.iterdir() if path.name not in DEEP)
STATE = {"optimizer-state", "newly-updated", "early-execution"}
"""What comes into being in the steps after the first."""


def explained(name: str) -> RunExplanation:
    """The explanation of a committed run."""
    return explained_run(FOLDER / name)


@pytest.mark.parametrize("name", RUNS)
def test_every_pair_is_proved(name):
    pairs = [node.explanation for node in explained(name).graphs if node.explanation]
    assert pairs
    assert [pair.proved for pair in pairs] == [True] * len(pairs)
    assert {pair.causes[0].kind.id for pair in pairs} <= {"bucket-carry"} | STATE


@pytest.mark.parametrize("name", [name for name in RUNS if "carry" in name])
def test_where_nothing_is_flushed_the_bucket_is_the_one_cause(name):
    (group,) = [one for one in explained(name).groups if one.kind.id == "bucket-carry"]
    others = [one for one in explained(name).groups if one is not group and not one.expected]
    assert group.proved
    assert not others
    letters = {node.letter for node in explained(name).graphs if node.digest in group.graphs}
    assert len(letters) >= 3


def test_the_parameter_without_a_gradient_is_why_nothing_is_flushed():
    groups = explained("bert_stock").groups
    (group,) = [one for one in groups if one.kind.id == "bucket-carry"]
    said = " ".join(words(evidence.text) for evidence in group.cause.evidence)
    assert "still waits for 1 of 12 post-backward hooks" in said
    assert "cls.predictions.bias" in said
    fix = words(group.cause.fix)
    assert fix.startswith("Put a frozen copy in its place ")
    assert "cls.predictions.bias" in fix
