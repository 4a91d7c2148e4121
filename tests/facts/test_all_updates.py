"""Which inputs a module updates: the walk over all outputs at once against the definition."""

from __future__ import annotations

import gzip

import pytest
from repository import ROOT

from xlagraph.cause.editor import is_input
from xlagraph.facts.training.updates import elementwise, formula, past_barriers, updates
from xlagraph.hlo import read_module

PAIRS = sorted((ROOT / "fixtures" / "module_pairs").glob("*.hlo.gz"))[::7]


def one_by_one(module, sources):
    """The definition: for each output the inputs of its shape that its elements depend on."""
    found = {}
    for k, value in enumerate(module.outputs):
        for i in sorted(formula(module, value, sources) - {value}):
            if is_input(module, i) and module.shapes[i] == module.shapes[value]:
                found.setdefault(i, []).append(k)
    return found


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.name)
def test_all_outputs_at_once_give_what_each_gives(path):
    module = read_module(gzip.decompress(path.read_bytes()).decode(), path.name)
    for sources in (elementwise, past_barriers):
        found = updates(module, sources)
        assert found == one_by_one(module, sources)
        assert list(found) == list(one_by_one(module, sources))


def test_outputs_along_one_chain_share_what_they_are_made_of():
    text = """HloModule chain

ENTRY main {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  n = f32[] parameter(2)
  a = f32[4] add(p, q)
  b = f32[4] multiply(a, a)
  c = f32[4] add(b, p)
  ROOT r = (f32[4], f32[4], f32[4], f32[4], f32[]) tuple(a, b, c, p, n)
}
"""
    assert updates(read_module(text, "chain")) == {0: [0, 1, 2], 1: [0, 1, 2]}
