"""Random programs: the edges that a finding names remove it, and add none."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from streams.logs import analysis_of
from streams.programs import program

from xlagraph.streams.model import State

OTHER_MEMORY_IN_USE = [
    (78, 2, 0, 0), (33, 0, 1, 0), (213, 0, 0, 0), (246, 0, 0, 0), (260, 2, 0, 1), (0, 0, 0, 3),
]  # fmt: skip
"""What is freed was used on a stream that has ended with it, and on one that has not."""
BECOMES_A_WARNING = [
    (245, 221, 171, 12), (167, 215, 99, 289), (262, 207, 43, 68), (155, 181, 201, 209),
    (62, 159, 253, 71), (35, 16, 48, 244), (258, 16, 280, 20),
]  # fmt: skip
"""With the wait for one access, another one is in order by luck only."""
SHOWS_ELSEWHERE = [
    (181, 7, 256, 53), (33, 102, 272, 276), (246, 296, 10, 224), (139, 26, 233, 185),
    (63, 212, 216, 254), (121, 233, 175, 207),
]  # fmt: skip
"""With the wait for one access, the same missing wait shows in an earlier one."""

ACTIONS = st.tuples(*[st.integers(0, 300)] * 4)


@settings(max_examples=150, deadline=None)
@example(OTHER_MEMORY_IN_USE)
@example(BECOMES_A_WARNING)
@example(SHOWS_ELSEWHERE)
@given(st.lists(ACTIONS, min_size=10, max_size=40))
def test_every_finding_is_proved(numbers: list[tuple[int, int, int, int]]) -> None:
    analysis = analysis_of(program(numbers))
    for finding in analysis.findings:
        assert finding.proof is not None
        if finding.state is State.FOUND:
            assert finding.proof.proved, finding
