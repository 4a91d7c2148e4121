"""An average begins as a copy of the weights: the step that makes it belongs to the phase."""

from __future__ import annotations

import pytest
from written_runs import write

from xlagraph.run.records import ParameterTensor
from xlagraph.tensors import Role, Tensor

W, MEAN = (Tensor("", name, Role.PARAMETER) for name in ("weight", "mean"))
TRAIN = """HloModule step

ENTRY main {{
  w = f32[8] parameter(0)
  x = f32[8] parameter(1)
  {inputs}
  a = f32[8] multiply(w, x)
  b = f32[8] cosine(a)
  c = f32[8] multiply(b, x)
  g = f32[8] tanh(c)
  new = f32[8] subtract(w, g)
  {more}
  ROOT t = ({shapes}) tuple(new, g{outputs})
}}
"""


def step(outputs: str = "", inputs: str = "", more: str = "", size: int = 8) -> str:
    shapes = ", ".join(["f32[8]", "f32[8]", *(f"f32[{size}]" for _ in outputs.split())])
    listed = "".join(f", {one}" for one in outputs.split())
    return TRAIN.format(inputs=inputs, more=more, shapes=shapes, outputs=listed)


PLAIN = step()
COPIES = step("new")
OTHER = step("part", more="part = f32[4] slice(new), slice={[0:4]}", size=4)
MEANS = step(
    "moved",
    "mean = f32[8] parameter(2)",
    "d = f32[8] subtract(new, mean)\n  e = f32[8] multiply(d, d)\n  moved = f32[8] add(mean, e)",
)
TENSORS = {
    PLAIN: ((ParameterTensor(0, W),), (W, None)),
    COPIES: ((ParameterTensor(0, W),), (W, None, None)),
    OTHER: ((ParameterTensor(0, W),), (W, None, None)),
    MEANS: ((ParameterTensor(0, W), ParameterTensor(2, MEAN)), (W, None, MEAN)),
}


def run_of(folder, steps):
    return write(folder, [(20, text) for text in steps], tensors=TENSORS)


def test_the_step_that_makes_the_copies_is_warm_up_of_the_phase(tmp_path):
    run = run_of(tmp_path, [PLAIN] * 8 + [COPIES] + [MEANS] * 12)
    assert not run.has_problem
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.compiles) == ("phase", 1)


@pytest.mark.parametrize(
    "steps",
    [
        [PLAIN] * 8 + [COPIES] + [PLAIN] * 12,
        [PLAIN] * 8 + [OTHER] + [MEANS] * 12,
        [PLAIN] * 8 + [COPIES, PLAIN] + [MEANS] * 12,
        [PLAIN] * 4 + [COPIES] + [PLAIN] * 4 + [COPIES] + [MEANS] * 2,
    ],
    ids=["nothing updates it", "something else is kept", "not the next step", "hardly begun"],
)
def test_a_tensor_kept_in_one_step_alone_is_a_problem(steps, tmp_path):
    assert run_of(tmp_path, steps).has_problem


HEAD = Tensor("", "head", Role.PARAMETER)
MOMENT = Tensor("", "head", Role.STATE, "SGD", "momentum_buffer")
STAGE = """HloModule stage

ENTRY main {{
  w = f32[8] parameter(0)
  x = f32[8] parameter(1)
  p = {other} parameter(2)
  a = f32[8] multiply(w, x)
  g = f32[8] tanh(a)
  new = f32[8] subtract(w, g)
  {more}
  ROOT t = ({shapes}) tuple(new, {outputs})
}}
"""


def stage(*outputs: str, other: str = "f32[8]", more: str = "") -> str:
    given = {"q": "f32[4]", "s": "f32[2]"}
    shapes = ", ".join(["f32[8]", *(given.get(one, "f32[8]") for one in outputs)])
    return STAGE.format(other=other, more=more, shapes=shapes, outputs=", ".join(outputs))


BEGINS = stage("g", "q", other="f32[4]", more="q = f32[4] copy(p)")
SUMS = stage("g", "s", other="f32[4]", more="s = f32[2] slice(p), slice={[0:2]}")
GOES_ON = stage("m", more="m = f32[8] add(p, g)")
IN_STAGE = {
    **{one: ((ParameterTensor(0, HEAD),), (HEAD, MOMENT, None)) for one in (BEGINS, SUMS)},
    GOES_ON: ((ParameterTensor(0, HEAD), ParameterTensor(2, MOMENT)), (HEAD, MOMENT)),
}


@pytest.mark.parametrize(("begin", "is_told"), [(BEGINS, False), (SUMS, True)])
def test_copies_that_a_first_step_makes_once_are_no_note(tmp_path, begin, is_told):
    """A copy of weights that nothing trains is made with the first step of a stage.

    What it computes of them is another thing.
    """
    syncs = [(20, begin), *[(20, GOES_ON)] * 30]
    run = write(tmp_path, [(30, PLAIN), *[(30, PLAIN)] * 5, *syncs], tensors=TENSORS | IN_STAGE)
    later = next(node for node in run.graphs if node.step == 7)
    assert (later.warm_up and not later.meant) != is_told
