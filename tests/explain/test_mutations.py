"""Known edits of real modules are found again, and nothing else is claimed for sure."""

from __future__ import annotations

from functools import cache

import pytest
from repository import script

mutations = script("benchmarks/mutations.py")


@cache
def modules():
    """A few; the last one has buckets."""
    found = mutations.modules()
    return [*found[:6], found[-1]]


@pytest.mark.parametrize("name", [*mutations.EDITS, *mutations.ALONE, ""])
def test_one_edit_is_found_and_nothing_else(name):
    names = [name] if name else []
    tried = 0
    for k, module in enumerate(modules()):
        done = mutations.trial(module, names, seed=1000 + k)
        if done is None:
            continue
        tried += 1
        explanation, score = done
        assert explanation.proved
        assert score.proved_backwards == 1
        assert score.wrong_proved == 0
        assert score.named == score.edits
        assert score.located == score.sited
        least = 0.8 if name in mutations.ALONE else 0.95
        assert score.right_pairs >= least * score.pairs
    assert tried


def test_two_edits_are_told_apart():
    for k, module in enumerate(modules()):
        done = mutations.trial(module, ["constant", "more outputs"], seed=2000 + k)
        if done is None:
            continue
        explanation, _ = done
        kinds = [cause.kind.id for cause in explanation.causes]
        assert sorted(kinds) == ["constant-value", "live-tensor"]
        assert explanation.proved


def stored(name):
    (folder,) = (f for f in mutations.FIXTURES.glob(f"*/{name}") if f.is_dir())
    run = mutations.read_run(folder)
    return [mutations.read_module(run.graph_text(digest), name) for digest in run.digests()]


@pytest.mark.parametrize(
    ("file", "edits", "seed", "kinds"),
    [
        (
            "hidden_state_reset",
            ("precision", "output order", "replacement"),
            1 * 100_003 + 15 * 101 + 7,
            {"dtype", "output-order", "replaced-subgraph"},
        ),
        (
            "fixed",
            ("replica groups", "bucket member", "insertion"),
            51 * 100_003 + 20 * 101 + 4,
            {"bucket-composition"},
        ),
    ],
)
def test_no_cause_is_named_for_what_another_one_brings_along(file, edits, seed, kinds):
    """A copy that is used otherwise on the other side; the partner of an output set aside."""
    trials = [mutations.trial(m, edits, seed) for m in stored(file)]
    found = [explanation for explanation, _ in filter(None, trials)]
    assert kinds in [{cause.kind.id for cause in explanation.causes} for explanation in found]
    assert all(score.wrong_proved == 0 for _, score in filter(None, trials))
