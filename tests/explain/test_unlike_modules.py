"""Modules that have nothing to do with each other are explained without a crash, both ways.

``fuzz/pairs.py`` does the same with every dialect text and all real modules.
"""

from __future__ import annotations

import itertools

import pytest
from real_modules import real_texts

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

TEXTS = real_texts()
PAIRS = [
    ("two_causes", "torch_fsdp.hlo.0.gz"),
    ("stable", "torch_fsdp.hlo.0.gz"),
    ("jax_scatter_gather.before.hlo.gz", "jax_while.before.hlo.gz"),
    ("jax_collectives.after.hlo.gz", "jax_conditional.before.hlo.gz"),
]


def modules_of(name: str):
    return [read_module(text, key) for key, text in TEXTS.items() if key.startswith(f"{name}:")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_unlike_modules(one, other):
    for a, b in itertools.product(modules_of(one)[:4], modules_of(other)[:4]):
        there, back = explain_modules(a, b), explain_modules(b, a)
        assert not there.diff.same
        assert not back.diff.same
        for explanation in (there, back):
            assert explanation.causes or explanation.unexplained_a or explanation.unexplained_b
