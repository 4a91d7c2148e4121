"""Random programs: the edges that a finding names remove it, and add none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from streams.logs import analysis_of
from streams.programs import program

from xlagraph.streams.model import State

ACTIONS = st.tuples(*[st.integers(0, 300)] * 4)


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS, min_size=10, max_size=40))
def test_every_finding_is_proved(numbers: list[tuple[int, int, int, int]]) -> None:
    analysis = analysis_of(program(numbers))
    for finding in analysis.findings:
        assert finding.proof is not None
        if finding.state is State.FOUND:
            assert finding.proof.proved, finding
