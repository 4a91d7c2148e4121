"""Steps that ran the same operators elsewhere, or waited for other streams."""

from __future__ import annotations

from streams.logs import Writer, log_of, real

from xlagraph.message import words
from xlagraph.streams import wording
from xlagraph.streams.drift import Change, Drift, drift_of

POOL = (101, 102, 103, 104)


def step(
    program: Writer, first: int, second: int, *, hook: int = 0, extra: str = "", wait: bool = True
) -> None:
    """Two side streams; a hook on the default stream unless told otherwise."""
    program.add("mark", name="step")
    program.op("aten.mul.Tensor", first, at="a.py:1 forward")
    if wait:
        program.cross(first, second)
    program.op("aten.sum.default", second, at="a.py:2 forward")
    if extra:
        program.op(extra, second, at="a.py:3 forward")
    program.op("aten.copy_.default", hook or 0, at="ds.py:97 hook", node="AccumulateGrad")


def drift(program: Writer) -> Drift:
    return drift_of(log_of(program.records))


def test_steps_that_take_turns_at_a_pool_are_alike() -> None:
    program = Writer()
    for k in range(4):
        step(program, POOL[k], POOL[(k + 1) % 4])
    found = drift(program)
    assert found.alike == ((1, 2, 3, 4),)
    assert found.differences == ()
    assert list(map(words, wording.drift_lines(found))) == [
        "All 4 steps ran the same operators on the same streams."
    ]


def test_a_hook_on_another_stream_is_the_first_difference() -> None:
    program = Writer()
    for _ in range(2):
        step(program, 101, 102)
    step(program, 101, 102, hook=102)
    found = drift(program)
    assert found.alike == ((1, 2), (3,))
    (difference,) = found.differences
    assert (difference.before, difference.after, difference.at) == (2, 3, 2)
    assert difference.change is Change.STREAM
    assert (difference.old[0].stream, difference.new[0].stream) == (0, 2)
    (said,) = wording.drift_lines(found)
    assert words(said) == (
        "Step 3 differs from step 2, first at operator 3: aten.copy_ at ds.py:97 hook ran on side "
        "stream 2, before on the default stream."
    )


def test_a_wait_that_is_gone_is_named() -> None:
    program = Writer()
    step(program, 101, 102)
    step(program, 101, 102, wait=False)
    (difference,) = drift(program).differences
    assert difference.change is Change.WAITS
    assert words(wording.difference_text(difference)).endswith(
        "aten.sum at a.py:2 forward waited for none, before for side stream 1."
    )


def test_other_operators_are_counted() -> None:
    program = Writer()
    step(program, 101, 102)
    step(program, 101, 102, extra="aten.relu.default")
    (difference,) = drift(program).differences
    assert difference.change is Change.OPERATORS
    assert [work.operator for work in difference.new] == ["aten.relu.default"]
    assert difference.old == ()
    assert [work.operator for work in difference.context] == ["aten.mul.Tensor", "aten.sum.default"]


def test_a_step_that_ends_early_is_a_difference() -> None:
    program = Writer()
    step(program, 101, 102)
    step(program, 101, 102)
    program.records.pop()
    (difference,) = drift(program).differences
    assert (difference.at, len(difference.old), difference.new) == (2, 1, ())


def test_a_real_log_without_steps_has_no_drift() -> None:
    assert drift_of(real("good_plain")) == Drift(0, (), ())
