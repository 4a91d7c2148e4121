"""What a run by design calls its kinds of step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import write

from xlagraph.message import say
from xlagraph.runs.explain import _is_replaced, _runs_often

STEP = """HloModule step

ENTRY %main (p: f32[{0}]) -> f32[{0}] {{
  %p = f32[{0}]{{0}} parameter(0)
  ROOT %a = f32[{0}]{{0}} tanh(f32[{0}]{{0}} %p)
}}
"""
SUMS, ADDS = say("micro-batch"), say("accumulate")


@pytest.mark.parametrize(
    ("hits", "part", "is_replaced"),
    [
        pytest.param(0, ADDS, True, id="others of the place come again"),
        pytest.param(2, ADDS, False, id="it came again"),
        pytest.param(0, SUMS, False, id="another has its name"),
    ],
)
def test_a_kind_of_step_is_not_only_the_first_of_all(tmp_path, hits, part, is_replaced):
    nodes = write(tmp_path, [(20, STEP.format(4)), *[(20, STEP.format(8))] * 5]).graphs
    first = replace(nodes[0], part=SUMS, hits=hits, by_design=False)
    assert _is_replaced(first, [first, replace(nodes[1], part=part, hits=4)]) == is_replaced


def test_what_runs_often_without_a_name_is_a_kind_of_step(tmp_path):
    node = replace(write(tmp_path, [(20, STEP.format(4))]).graphs[0], part=say(), hits=9)
    assert _runs_often(node)
    others = [
        replace(node, hits=2),
        replace(node, part=SUMS),
        replace(node, is_small=True),
        replace(node, sync_kind="value"),
    ]
    assert not any(map(_runs_often, others))
