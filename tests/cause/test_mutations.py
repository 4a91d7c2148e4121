"""Known edits of real modules are found again, and nothing else is claimed for sure."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _benchmark():
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("mutations")
    finally:
        sys.path.remove(folder)


mutations = _benchmark()
ALL = mutations.modules()
MODULES = [*ALL[:6], ALL[-1]]
"""The last one has buckets."""


@pytest.mark.parametrize("name", [*mutations.EDITS, *mutations.ALONE, ""])
def test_one_edit_is_found_and_nothing_else(name):
    names = [name] if name else []
    tried = 0
    for k, module in enumerate(MODULES):
        done = mutations.trial(module, names, seed=1000 + k)
        if done is None:
            continue
        tried += 1
        explanation, score = done
        assert explanation.proved
        assert score.wrong_proved == 0
        assert score.named == score.edits
        assert score.located == score.sited
        least = 0.8 if name in mutations.ALONE else 0.95
        assert score.right_pairs >= least * score.pairs
    assert tried


def test_two_edits_are_told_apart():
    for k, module in enumerate(MODULES):
        done = mutations.trial(module, ["constant", "more outputs"], seed=2000 + k)
        if done is None:
            continue
        explanation, _ = done
        kinds = [cause.kind for cause in explanation.causes]
        assert sorted(kinds) == ["constant-value", "live-tensor"]
        assert explanation.proved
